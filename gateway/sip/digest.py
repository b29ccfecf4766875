"""
Digest authentication: challenges, their answers and the sums (RFC 7616, RFC 8760, RFC 3261 section 22).

No state here: :mod:`gateway.sip.authorizer` is the client, and a server reads and checks an
:class:`Authorization` with the same functions. Values of quoted strings stay as they stood between
the quotes, with their escapes: the sums are made over that text (RFC 7616, section 3.3, ``unq``).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from gateway.sip.message import Headers
from gateway.sip.text import is_token, quoted_end, require_safe

MAX_CHALLENGES: Final = 16
"""Challenges of one message that are looked at."""


class Algorithm(Enum):
    """The algorithms of RFC 8760; the value is what stands on the wire."""

    MD5 = "MD5"
    MD5_SESS = "MD5-sess"
    SHA256 = "SHA-256"
    SHA256_SESS = "SHA-256-sess"

    @classmethod
    def of(cls, name: str) -> Algorithm | None:
        """Return the algorithm of a name in any case; none at all means MD5 (RFC 7616, section 3.3)."""
        wanted = name.strip().lower() or "md5"
        return next((each for each in cls if each.value.lower() == wanted), None)

    @property
    def sess(self) -> bool:
        """Whether nonces go into the first sum, once for a whole session."""
        return self in {Algorithm.MD5_SESS, Algorithm.SHA256_SESS}

    def sum(self, data: bytes) -> str:
        """Return the hash in hexadecimal."""
        sha256 = self in {Algorithm.SHA256, Algorithm.SHA256_SESS}
        maker: Callable[[bytes], hashlib._Hash] = hashlib.sha256 if sha256 else _md5
        return maker(data).hexdigest()


def _md5(data: bytes) -> hashlib._Hash:
    # The protocol's choice, not ours; it also has to work where FIPS mode forbids MD5 for security.
    return hashlib.md5(data, usedforsecurity=False)


@dataclass(frozen=True, slots=True)
class Challenge:
    """One ``Digest`` of a WWW-Authenticate or Proxy-Authenticate that we are able to answer."""

    realm: str
    nonce: str
    algorithm: Algorithm
    qop: str = ""
    """``auth``; ``auth-int`` where it is the only one offered; empty where none is (RFC 2069)."""
    opaque: str | None = None
    stale: bool = False
    names_algorithm: bool = True
    """Whether the peer wrote an algorithm: old servers are puzzled by one that they did not name."""


@dataclass(frozen=True, slots=True)
class Authorization:
    """The ``Digest`` of an Authorization or Proxy-Authorization, to be checked by a server."""

    username: str
    realm: str
    nonce: str
    uri: str
    response: str = field(repr=False)
    algorithm: Algorithm
    qop: str = ""
    cnonce: str = ""
    nc: int = 0
    """The count of the nonce; 0 where none was given."""
    opaque: str | None = None

    def proves(self, secret: str, *, method: str, body: bytes = b"") -> bool:
        """
        Whether the sender knows the password; compared in constant time.

        Nonce, count, realm and URI are the server's to check.

        Args:
            secret: From :func:`secret`, with this algorithm.
            method: Of the request.
            body: Of the request, for ``auth-int``.
        """
        expected = response(
            self.algorithm,
            secret=secret,
            method=method,
            uri=self.uri,
            nonce=self.nonce,
            nc=self.nc,
            cnonce=self.cnonce,
            qop=self.qop,
            body=body,
        )
        return hmac.compare_digest(expected.encode(), self.response.lower().encode("utf-8", "replace"))


def secret(algorithm: Algorithm, *, username: str, realm: str, password: str) -> str:
    """Return H(username:realm:password); as good as the password itself in that realm."""
    return algorithm.sum(_bytes(f"{username}:{realm}:{password}"))


def response(
    algorithm: Algorithm,
    *,
    secret: str,
    method: str,
    uri: str,
    nonce: str,
    nc: int = 0,
    cnonce: str = "",
    qop: str = "",
    body: bytes = b"",
) -> str:
    """
    Return the value of ``response`` (RFC 7616, section 3.4.1).

    Args:
        algorithm: Of the challenge.
        secret: From :func:`secret`.
        method: Of the request.
        uri: As written in the ``uri`` parameter.
        nonce: The server's.
        nc: How often the nonce was used, with this request.
        cnonce: The client's.
        qop: ``auth``, ``auth-int`` or empty.
        body: Of the request, for ``auth-int``.
    """
    first = algorithm.sum(_bytes(f"{secret}:{nonce}:{cnonce}")) if algorithm.sess else secret
    second = f"{method}:{uri}"
    if qop == "auth-int":
        second = f"{second}:{algorithm.sum(body)}"
    hashed = algorithm.sum(_bytes(second))
    middle = f"{nonce}:{nc:08x}:{cnonce}:{qop}" if qop else nonce
    return algorithm.sum(_bytes(f"{first}:{middle}:{hashed}"))


def challenges(headers: Headers, name: str) -> list[Challenge]:
    """
    Return the challenges of all lines of a header that we can answer, in the order of the message.

    Other schemes, unknown algorithms, ``qop`` values without one of ours and what cannot be read
    are left out (RFC 8760, section 2.4: the server puts what it prefers first).
    """
    return [each for params in _digests(headers, name) if (each := _challenge(params)) is not None]


def authorizations(headers: Headers, name: str) -> list[Authorization]:
    """Return the complete credentials of all lines of a header; what cannot be read is left out."""
    return [each for params in _digests(headers, name) if (each := _authorization(params)) is not None]


def write(params: list[tuple[str, str, bool]]) -> str:
    """Write a ``Digest`` header value of names, values, and whether each value stands in quotes."""
    pieces = (f'{name}="{value}"' if quoted else f"{name}={value}" for name, value, quoted in params)
    return require_safe("Digest " + ", ".join(pieces))


def _challenge(params: dict[str, str]) -> Challenge | None:
    algorithm = Algorithm.of(params.get("algorithm", ""))
    if algorithm is None or "realm" not in params or not params.get("nonce"):
        return None
    qop = ""
    if "qop" in params:
        offered = {each.strip().lower() for each in params["qop"].split(",")}
        qop = next((each for each in ("auth", "auth-int") if each in offered), "")
        if not qop and offered != {""}:
            return None
    return Challenge(
        realm=params["realm"],
        nonce=params["nonce"],
        algorithm=algorithm,
        qop=qop,
        opaque=params.get("opaque"),
        stale=params.get("stale", "").lower() == "true",
        names_algorithm="algorithm" in params,
    )


def _authorization(params: dict[str, str]) -> Authorization | None:
    algorithm = Algorithm.of(params.get("algorithm", ""))
    needed = ("username", "realm", "nonce", "uri", "response")
    qop = params.get("qop", "").lower()
    if algorithm is None or any(name not in params for name in needed) or qop not in {"", "auth", "auth-int"}:
        return None
    try:
        nc = int(params.get("nc", "0"), 16)
    except ValueError:
        return None
    if not 0 <= nc < 2**32 or (qop and not (nc and params.get("cnonce"))):
        return None
    return Authorization(
        username=params["username"],
        realm=params["realm"],
        nonce=params["nonce"],
        uri=params["uri"],
        response=params["response"],
        algorithm=algorithm,
        qop=qop,
        cnonce=params.get("cnonce", ""),
        nc=nc,
        opaque=params.get("opaque"),
    )


def _digests(headers: Headers, name: str) -> Iterator[dict[str, str]]:
    """Find the parameters of each ``Digest``; a line may hold several schemes (RFC 7235, section 4.1)."""
    found = 0
    for line in headers.get_all(name):
        scheme, params = "", dict[str, str]()
        for piece in _pieces(line):
            pair = piece
            head, blank, rest = piece.partition(" ")
            if is_token(head) and (not blank or not rest.lstrip().startswith("=")):
                # "Digest realm=…" begins the next challenge; "realm=…" and "realm = …" go on with it.
                if scheme == "digest" and found < MAX_CHALLENGES:
                    found += 1
                    yield params
                scheme, params, pair = head.lower(), {}, rest.lstrip()
            key, equals, value = pair.partition("=")
            if equals and is_token(key.strip()):
                params.setdefault(key.strip().lower(), _inner(value.strip()))
        if scheme == "digest" and found < MAX_CHALLENGES:
            found += 1
            yield params


def _pieces(line: str) -> Iterator[str]:
    """Split at commas outside quotes; a string that never ends takes the rest with it."""
    line = line.replace("\t", " ")
    begin = at = 0
    while at < len(line):
        if line[at] == '"':
            try:
                at = quoted_end(line, at)
            except ValueError:
                break
            continue
        if line[at] == ",":
            yield line[begin:at].strip()
            begin = at + 1
        at += 1
    yield line[begin:].strip()


def _inner(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
