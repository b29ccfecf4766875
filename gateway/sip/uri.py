"""
SIP URIs and the name-addr form of From, To, Contact and Route (RFC 3261, sections 19.1 and 20.10).

A header may carry a URI of any scheme; only where a SIP URI is needed is one asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.sip.text import (
    Params,
    param,
    parse_params,
    quote,
    quoted_end,
    require_safe,
    unquote,
    write_params,
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.+)", re.DOTALL)
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._\-]+)(?::([0-9]{1,5}))?")
_BLANK = re.compile(r"[\s\x00]")


def split_host_port(text: str) -> tuple[str, int | None]:
    """
    Read ``host[:port]``; the brackets of an IPv6 reference are taken off.

    Underscores are let through: no RFC allows them in a host name, many networks use them.
    """
    match = _HOST_PORT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a host: {text[:60]!r}")
    host, port_text = match.groups()
    port = int(port_text) if port_text else None
    if port is not None and not 0 < port < 65536:
        raise ValueError(f"not a port: {port_text}")
    return host.strip("[]"), port


def join_host_port(host: str, port: int | None) -> str:
    """Write ``host[:port]`` with brackets around an IPv6 address."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def scheme_of(uri: str) -> str:
    """Return the scheme in lower case; raise ``ValueError`` when ``uri`` is no absolute URI."""
    match = _SCHEME.fullmatch(uri)
    if match is None or _BLANK.search(uri) or "<" in uri or ">" in uri:
        raise ValueError(f"not a URI: {uri[:60]!r}")
    return match[1].lower()


class Uri(str):
    """A URI of any scheme, as written."""

    __slots__ = ()

    @property
    def sip(self) -> SipUri | None:
        """The parts, if it is a well-formed SIP or SIPS URI."""
        try:
            return SipUri.parse(self)
        except ValueError:
            return None

    @property
    def user(self) -> str:
        """
        The user or number that a ``sip:``, ``sips:`` or ``tel:`` URI names, percent-decoded.

        Empty for other schemes and for URIs without a user. Parameters inside the user part, such as
        ``;phone-context``, are cut off.
        """
        if self[:4].lower() == "tel:":
            return unescape(self[4:].partition(";")[0])
        parts = self.sip
        return "" if parts is None else unescape(parts.user.partition(";")[0])


def unescape(text: str) -> str:
    """Decode percent escapes, once."""
    if "%" not in text:
        return text
    raw = re.sub(
        rb"%([0-9A-Fa-f]{2})",
        lambda found: bytes([int(found[1], 16)]),
        text.encode("utf-8", "surrogateescape"),
    )
    return raw.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class SipUri:
    """A ``sip:`` or ``sips:`` URI; parts stay escaped as written."""

    host: str
    """Without brackets, as written: compare in lower case."""
    user: str = ""
    port: int | None = None
    scheme: str = "sip"
    password: str | None = None
    params: Params = ()
    headers: str = ""
    """What follows ``?``, unparsed."""

    @classmethod
    def parse(cls, text: str) -> SipUri:
        """Raise ``ValueError`` for anything but a well-formed SIP or SIPS URI."""
        scheme = scheme_of(text)
        if scheme not in {"sip", "sips"}:
            raise ValueError(f"not a SIP URI: {text[:60]!r}")
        rest = text[len(scheme) + 1 :]
        # The user part may hold ; ? / and more, so it is cut off before anything else is looked for.
        userinfo, at, tail = rest.partition("@")
        if not at:
            userinfo, tail = "", rest
        user, colon, password = userinfo.partition(":")
        tail, _, headers = tail.partition("?")
        host_port, _, params = tail.partition(";")
        host, port = split_host_port(host_port)
        return cls(
            host=host,
            user=user,
            port=port,
            scheme=scheme,
            password=password if colon else None,
            params=parse_params(params),
            headers=headers,
        )

    def param(self, name: str) -> str | None:
        """Return a parameter's value, ``""`` for one without ``=``, ``None`` when it is missing."""
        return param(self.params, name)

    @property
    def loose(self) -> bool:
        """Whether this is the address of a loose router (``;lr``)."""
        return self.param("lr") is not None

    @property
    def transport(self) -> str:
        """The ``transport`` parameter in lower case, empty when missing."""
        return (self.param("transport") or "").lower()

    def __str__(self) -> str:
        password = "" if self.password is None else f":{self.password}"
        at = "@" if self.user or self.password is not None else ""
        headers = f"?{self.headers}" if self.headers else ""
        place = join_host_port(self.host, self.port)
        return require_safe(
            f"{self.scheme}:{self.user}{password}{at}{place}{write_params(self.params)}{headers}"
        )


@dataclass(frozen=True, slots=True)
class NameAddr:
    """The value of From, To, Contact, Route or Record-Route."""

    uri: Uri
    display: str = ""
    """Without quotes and escapes."""
    params: Params = ()

    @classmethod
    def parse(cls, text: str) -> NameAddr:
        """
        Read ``"Name" <uri>;params``, ``Name <uri>``, ``<uri>`` or a bare ``uri;params``.

        Lenient with commas in an unquoted name and blanks inside ``<>`` (RFC 4475, 3.1.2.15 and
        3.1.2.14), strict with unbalanced quotes and with a bare URI that holds ``?`` or ``,``
        (RFC 3261, section 20.10). Raises ``ValueError``.
        """
        text = text.strip()
        at = quoted_end(text, 0) if text.startswith('"') else 0
        begin = text.find("<", at)
        if begin < 0:
            return cls._bare(text) if at == 0 else _fail("a display name without <URI>")
        end = text.find(">", begin)
        if end < 0:
            raise ValueError("a '<' is never closed")
        display, between = text[:at], text[at:begin].strip()
        if at and between:
            raise ValueError("text between the display name and the URI")
        if not at:
            if '"' in between:
                raise ValueError("a quoted string inside a display name")
            display = between
        uri = text[begin + 1 : end].strip()
        scheme_of(uri)
        return cls(Uri(uri), unquote(display), _after(text[end + 1 :].strip()))

    @classmethod
    def _bare(cls, text: str) -> NameAddr:
        uri, semicolon, params = text.partition(";")
        uri = uri.strip()
        if "?" in uri or "," in uri:
            raise ValueError("a URI with '?' or ',' must stand in <>")
        scheme_of(uri)
        return cls(Uri(uri), "", parse_params(params) if semicolon else ())

    def param(self, name: str) -> str | None:
        """Return a parameter's value, ``""`` for one without ``=``, ``None`` when it is missing."""
        return param(self.params, name)

    @property
    def tag(self) -> str:
        """The ``tag`` parameter, empty when missing (a request that opens a dialog, or RFC 2543)."""
        return self.param("tag") or ""

    def __str__(self) -> str:
        display = f"{quote(self.display)} " if self.display else ""
        return require_safe(f"{display}<{self.uri}>{write_params(self.params)}")


def _after(text: str) -> Params:
    if not text:
        return ()
    if not text.startswith(";"):
        raise ValueError("text behind the URI")
    return parse_params(text[1:])


def _fail(why: str) -> NameAddr:
    raise ValueError(why)
