"""
Digest authentication of who calls us (RFC 3261, section 22; RFC 7616; RFC 8760).

What is challenged is what begins a call or moves its media: INVITE, in a dialog or not, REFER, and an
UPDATE that carries an offer. Not ACK and CANCEL, which cannot be sent again (section 22.1). Neither
OPTIONS, by which carriers ask whether we are there, nor what needs the tags of a running call and does
little with them (BYE, INFO, PRACK, NOTIFY, an UPDATE that only refreshes): many a peer answers no
challenge there, and a call that cannot be hung up is worse.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from gateway.sip import digest
from gateway.sip.checks import Refusal
from gateway.sip.digest import Algorithm, Authorization
from gateway.sip.message import Request
from gateway.sip.policy import Proof
from gateway.sip.target import Credentials
from gateway.sip.text import quote, unquote

NONCE_LIFE_S: Final = 300.0
"""Seconds that a nonce may be answered; a later answer is ``stale``, and the client tries again by itself."""
MAX_NONCES: Final = 4096
"""Nonces in use at once; the oldest becomes stale when one more is used."""
DEFAULT_REALM: Final = "trunkline"


def needs_proof(request: Request) -> bool:
    """Whether a request of a peer with credentials has to carry them."""
    return request.method in {"INVITE", "REFER"} or (
        request.method == "UPDATE" and bool(request.body.strip())
    )


class AuthServer:
    """
    Challenges requests and checks the answers.

    Nonces carry their time and a seal, so that an unanswered challenge costs no memory; only the counts of
    those that were answered are kept, against replay.

    Args:
        token: Returns a new unguessable token.
    """

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token
        self._key = f"{token()}{token()}".encode()
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._not_before = -1

    def judge(self, request: Request, proof: Proof, *, now: float) -> Refusal | None:
        """
        Return the 401 for a request that does not prove what it has to, ``None`` for one that does.

        A request that answers another realm, or none at all, is challenged quietly; only a wrong answer is
        worth a word in the log.
        """
        wanted, realm = proof.credentials, proof.credentials.realm or DEFAULT_REALM
        offered = [
            each
            for each in digest.authorizations(request.headers, "Authorization")
            if unquote(f'"{each.realm}"') == realm and each.algorithm in proof.algorithms
        ]
        if not offered:
            return self._challenge(proof.algorithms, realm, "no credentials", quiet=True, now=now)
        answer = offered[0]
        # The sum is made before anything is compared, so that the time taken tells nothing.
        proven = answer.proves(_secret(wanted, answer), method=request.method)
        if not proven or answer.qop == "auth-int" or not _is_of(answer, wanted):
            return self._challenge(proof.algorithms, realm, "wrong credentials", now=now)
        if not self._use(answer, realm, now):
            return self._challenge(proof.algorithms, realm, "a stale nonce", stale=True, quiet=True, now=now)
        return None

    def _challenge(
        self,
        algorithms: tuple[Algorithm, ...],
        realm: str,
        why: str,
        *,
        stale: bool = False,
        quiet: bool = False,
        now: float,
    ) -> Refusal:
        nonce = self._nonce(realm, now)
        headers: list[tuple[str, str]] = []
        for algorithm in algorithms:
            params = [
                ("realm", quote(realm)[1:-1], True),
                ("nonce", nonce, True),
                ("algorithm", algorithm.value, False),
                ("qop", "auth", True),
            ]
            if stale:
                params.append(("stale", "true", False))
            headers.append(("WWW-Authenticate", digest.write(params)))
        return Refusal(401, why, tuple(headers), quiet=quiet)

    # Nonces: the time in milliseconds, a token, and a seal over both and the realm.

    def _nonce(self, realm: str, now: float) -> str:
        body = f"{int(now * 1000)}-{self._token()}"
        return f"{body}-{self._seal(body, realm)}"

    def _seal(self, body: str, realm: str) -> str:
        text = f"{body}:{realm}".encode("utf-8", "surrogateescape")
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:32]

    def _use(self, answer: Authorization, realm: str, now: float) -> bool:
        """
        Count a use of a nonce; ``False`` when it is not ours, too old, or was used with this count before.

        A client of RFC 2069 gives no count: it may use each nonce once.
        """
        nonce, count = answer.nonce, max(answer.nc, 1)
        issued = self._issued(nonce, realm)
        if (
            issued is None
            or not 0 <= now * 1000 - issued <= NONCE_LIFE_S * 1000
            or issued <= self._not_before
        ):
            return False
        if count <= self._counts.get(nonce, 0):
            return False
        self._counts[nonce] = count
        self._counts.move_to_end(nonce)
        while len(self._counts) > MAX_NONCES:
            self._drop_oldest()
        return True

    def _issued(self, nonce: str, realm: str) -> int | None:
        body, _, seal = nonce.rpartition("-")
        at = body.partition("-")[0]
        genuine = hmac.compare_digest(
            self._seal(body, realm).encode(), seal.encode("utf-8", "surrogateescape")
        )
        return int(at) if genuine else None

    def _drop_oldest(self) -> None:
        """Forget a count; what was issued up to then is stale, or it could be replayed."""
        nonce, _ = self._counts.popitem(last=False)
        issued = nonce.partition("-")[0]
        self._not_before = max(self._not_before, int(issued))


def _secret(wanted: Credentials, answer: Authorization) -> str:
    # Over the text between the quotes, as the client wrote it (RFC 7616, section 3.3).
    return digest.secret(
        answer.algorithm,
        username=quote(wanted.username)[1:-1],
        realm=answer.realm,
        password=wanted.password,
    )


def _is_of(answer: Authorization, wanted: Credentials) -> bool:
    """
    Whether it names the user; compared in constant time.

    The address in it is not compared with the Request-URI: proxies change that, many clients leave the user
    out, and RFC 3261, section 22.4 makes no failure of it.
    """
    name = unquote(f'"{answer.username}"').encode("utf-8", "surrogateescape")
    return hmac.compare_digest(name, wanted.username.encode("utf-8", "surrogateescape"))
