"""
The structured headers that transactions live on: Via and CSeq, and what is said of a header's name.

(RFC 3261, sections 7.3.3, 20.16 and 20.42; RFC 3581 for ``rport``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gateway.sip.text import Params, is_token, param, parse_params, write_params
from gateway.sip.uri import join_host_port, split_host_port

COMPACT_FORMS = {
    "a": "Accept-Contact",
    "b": "Referred-By",
    "c": "Content-Type",
    "d": "Request-Disposition",
    "e": "Content-Encoding",
    "f": "From",
    "i": "Call-ID",
    "j": "Reject-Contact",
    "k": "Supported",
    "l": "Content-Length",
    "m": "Contact",
    "n": "Identity-Info",
    "o": "Event",
    "r": "Refer-To",
    "s": "Subject",
    "t": "To",
    "u": "Allow-Events",
    "v": "Via",
    "x": "Session-Expires",
    "y": "Identity",
}
"""One-letter names (the IANA registry of SIP header fields)."""

MAGIC_COOKIE = "z9hg4bk"
"""How the branch of an RFC 3261 client begins, in lower case."""

MAX_CSEQ = 2**31 - 1
"""RFC 3261, section 8.1.1.5: a sequence number is less than 2**31."""

_VIA = re.compile(
    r"SIP\s*/\s*(?P<version>[0-9]+\.[0-9]+)\s*/\s*(?P<transport>[A-Za-z0-9\-.!%*_+`'~]+)\s+"
    r"(?P<host>\[[^\]\s]+\]|[^\s;:,]+)\s*(?::\s*(?P<port>[0-9]+))?\s*(?:;(?P<params>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_CSEQ = re.compile(r"([0-9]{1,20})\s+(\S+)")


@dataclass(frozen=True, slots=True)
class Via:
    """One hop of a Via header."""

    transport: str
    """As written; compare in upper case."""
    host: str
    port: int | None = None
    params: Params = ()
    version: str = "2.0"

    @classmethod
    def parse(cls, text: str) -> Via:
        """Read one element (no comma list); raise ``ValueError`` for a malformed one."""
        match = _VIA.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"not a Via: {text[:60]!r}")
        port = match["port"]
        host, number = split_host_port(match["host"] + (f":{port}" if port else ""))
        params = match["params"]
        parsed = () if params is None else parse_params(params, strict=True)
        return cls(match["transport"], host, number, parsed, match["version"])

    @property
    def branch(self) -> str:
        """The branch in lower case (parameters compare without case), empty when missing."""
        return (param(self.params, "branch") or "").lower()

    @property
    def is_rfc3261(self) -> bool:
        """Whether the branch identifies the transaction; a bare cookie does not (RFC 4475, 3.1.2.18)."""
        branch = self.branch
        return branch.startswith(MAGIC_COOKIE) and len(branch) > len(MAGIC_COOKIE)

    @property
    def sent_by(self) -> tuple[str, int]:
        """Host in lower case and port, 5060 where none is written."""
        return self.host.lower(), self.port or 5060

    @property
    def wants_rport(self) -> bool:
        return param(self.params, "rport") is not None

    def seen_from(self, host: str, port: int) -> Via:
        """
        Note where the request really came from (RFC 3261, 18.2.1; RFC 3581, section 4).

        What the peer itself wrote into ``received`` and the value of ``rport`` is replaced.
        """
        wants_rport = self.wants_rport
        params = tuple(pair for pair in self.params if pair[0].lower() not in {"received", "rport"})
        if wants_rport:
            params += (("rport", str(port)),)
        if wants_rport or host.lower() != self.host.lower():
            params += (("received", host),)
        return replace(self, params=params)

    def __str__(self) -> str:
        place = join_host_port(self.host, self.port)
        return f"SIP/{self.version}/{self.transport} {place}{write_params(self.params)}"


@dataclass(frozen=True, slots=True)
class CSeq:
    number: int
    method: str

    @classmethod
    def parse(cls, text: str) -> CSeq:
        """Raise ``ValueError`` when malformed or not below 2**31."""
        match = _CSEQ.fullmatch(text.strip())
        if match is None or not is_token(match[2]):
            raise ValueError(f"not a CSeq: {text[:60]!r}")
        number = int(match[1])
        if number > MAX_CSEQ:
            raise ValueError("a CSeq number is less than 2**31")
        return cls(number, match[2])

    def __str__(self) -> str:
        return f"{self.number} {self.method}"
