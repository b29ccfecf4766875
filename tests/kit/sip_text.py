"""
Just enough SIP to read and write what a test sees: a start line, headers in order, a body.

Deliberately apart from ``gateway.sip``: the far end of a test must not share its mistakes.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

COMPACT = {
    "v": "via",
    "f": "from",
    "t": "to",
    "i": "call-id",
    "m": "contact",
    "l": "content-length",
    "c": "content-type",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One SIP message as it was on the wire."""

    start: str
    headers: tuple[tuple[str, str], ...]
    body: str = ""

    @property
    def status(self) -> int:
        """The status of a response, 0 for a request."""
        return int(self.start.split()[1]) if self.start.startswith("SIP/2.0 ") else 0

    @property
    def method(self) -> str:
        """The method of a request, empty for a response."""
        return "" if self.status else self.start.split()[0]

    @property
    def answers(self) -> str:
        """The method that CSeq names."""
        return self["cseq"].split()[-1]

    @property
    def cseq(self) -> int:
        return int(self["cseq"].split()[0])

    def __getitem__(self, name: str) -> str:
        """Return the first header of that name, or an empty text."""
        return next((value for key, value in self.headers if _long(key) == name.lower()), "")

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if _long(key) == name.lower()]

    def tag(self, name: str) -> str:
        found = re.search(r";\s*tag=([^;>\s]+)", self[name])
        return found[1] if found else ""

    def uri(self, name: str) -> str:
        """Return the URI of a name-addr header."""
        found = re.search(r"<([^>]+)>", self[name])
        return found[1] if found else self[name].partition(";")[0].strip()


def _long(name: str) -> str:
    return COMPACT.get(name.lower(), name.lower())


def read(data: bytes) -> Message:
    """Parse a message that a well-behaved peer sent; anything else raises ValueError."""
    head, _, body = data.decode("utf-8", "surrogateescape").partition("\r\n\r\n")
    start, *lines = head.split("\r\n")
    if not (start.startswith("SIP/2.0 ") or start.endswith(" SIP/2.0")):
        raise ValueError(f"not SIP: {start!r}")
    pairs = (line.partition(":") for line in lines)
    return Message(start, tuple((name.strip(), value.strip()) for name, _, value in pairs), body)


def write(
    start: str, headers: list[tuple[str, str]], body: str = "", *, kind: str = "application/sdp"
) -> bytes:
    """Return a message with its Content headers."""
    extra = [("Content-Type", kind)] if body else []
    content = body.encode("utf-8", "surrogateescape")
    fields = [*headers, *extra, ("Content-Length", str(len(content)))]
    lines = [start, *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + content


def respond(
    request: Message, status: int, reason: str, *, tag: str = "", extra: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """Return a response with what RFC 3261 section 8.2.6.2 copies from the request."""
    to = request["to"] if request.tag("to") or not tag else f"{request['to']};tag={tag}"
    headers = [("Via", via) for via in request.all("via")]
    headers += [("Record-Route", route) for route in request.all("record-route")]
    headers += [
        ("From", request["from"]),
        ("To", to),
        ("Call-ID", request["call-id"]),
        ("CSeq", request["cseq"]),
    ]
    return write(f"SIP/2.0 {status} {reason}", [*headers, *extra])


def branch() -> str:
    return "z9hG4bK" + secrets.token_hex(8)


def offer(
    host: str,
    port: int,
    *,
    codecs: tuple[str, ...] = ("PCMU",),
    direction: str = "sendrecv",
    version: int = 1,
) -> str:
    """Return an SDP offer of G.711 and telephone-event as payload 101."""
    numbers = {"PCMU": 0, "PCMA": 8}
    formats = " ".join(str(numbers[codec]) for codec in codecs)
    lines = [
        "v=0",
        f"o=- 4711 {version} IN IP4 {host}",
        "s=-",
        f"c=IN IP4 {host}",
        "t=0 0",
        f"m=audio {port} RTP/AVP {formats} 101",
        *(f"a=rtpmap:{numbers[codec]} {codec}/8000" for codec in codecs),
        "a=rtpmap:101 telephone-event/8000",
        "a=fmtp:101 0-15",
        "a=ptime:20",
        f"a={direction}",
    ]
    return "".join(line + "\r\n" for line in lines)


def media_address(sdp: str) -> tuple[str, int]:
    """Return where an SDP wants audio to be sent."""
    host = re.search(r"^c=IN IP[46] (\S+)", sdp, re.MULTILINE)
    port = re.search(r"^m=audio (\d+)", sdp, re.MULTILINE)
    if not host or not port:
        raise ValueError(f"no audio in {sdp!r}")
    return host[1], int(port[1])
