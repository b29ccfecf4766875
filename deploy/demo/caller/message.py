"""SIP messages as the caller needs them: read, built and looked up (RFC 3261, section 7)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

COMPACT = {
    "v": "via", "f": "from", "t": "to", "i": "call-id", "m": "contact",
    "l": "content-length", "c": "content-type", "r": "refer-to", "o": "event",
}  # fmt: skip

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A request or a response; header names keep their spelling and their order."""

    start_line: str
    headers: Headers
    body: str = ""

    @property
    def status(self) -> int:
        """The status code of a response, 0 for a request."""
        return int(self.start_line.split(" ", 2)[1]) if self.start_line.startswith("SIP/2.0 ") else 0

    @property
    def method(self) -> str:
        """The method of a request; of a response, that of the request it answers."""
        return self.start_line.split(" ", 1)[0] if not self.status else self.get("cseq").split()[-1]

    @property
    def cseq(self) -> int:
        return int(self.get("cseq").split()[0])

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if COMPACT.get(key.lower(), key.lower()) == name]

    def get(self, name: str) -> str:
        """Return the first header of that (lower-case, long) name, or an empty text."""
        return next(iter(self.all(name)), "")

    def to_bytes(self) -> bytes:
        lines = [self.start_line, *(f"{name}: {value}" for name, value in self.headers)]
        body = self.body.encode()
        return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode() + body


def parse(data: bytes) -> Message | None:
    """Read one datagram; ``None`` when it is no SIP message (a keep-alive, for one)."""
    head, _, body = data.decode("utf-8", "replace").partition("\r\n\r\n")
    start_line, *lines = head.split("\r\n")
    if "SIP/2.0" not in start_line:
        return None
    headers: list[tuple[str, str]] = []
    for line in lines:
        if line[:1] in " \t" and headers:  # a folded line continues the header before it
            name, value = headers.pop()
            headers.append((name, f"{value} {line.strip()}"))
        else:
            name, _, value = line.partition(":")
            headers.append((name.strip(), value.strip()))
    message = Message(start_line, tuple(headers), body)
    return message if message.get("cseq") and message.get("call-id") else None


def respond(request: Message, status: str, *, tag: str = "", extra: Headers = ()) -> Message:
    """Build the response to a request (RFC 3261, section 8.2.6)."""
    copied = [
        (name, value)
        for name, value in request.headers
        if COMPACT.get(name.lower(), name.lower()) in {"via", "from", "to", "call-id", "cseq", "record-route"}
    ]
    named = [
        (name, f"{value};tag={tag}" if is_to(name) and tag and ";tag=" not in value else value)
        for name, value in copied
    ]
    return Message(f"SIP/2.0 {status}", (*named, *extra))


def is_to(name: str) -> bool:
    return name.lower() in {"to", "t"}


def uri_in(value: str) -> str:
    """Return the URI of a name-addr or addr-spec header value."""
    found = re.search(r"<([^>]+)>", value)
    return found[1] if found else value.split(";", 1)[0].strip()


def tag_in(value: str) -> str:
    found = re.search(r";\s*tag=([^;\s>]+)", value)
    return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class MediaOffer:
    """The one PCMU stream of an SDP body."""

    host: str
    port: int


def read_sdp(body: str) -> MediaOffer:
    """Find where to send RTP; raises ``ValueError`` with a sentence when PCMU was not agreed."""
    host = re.search(r"^c=IN IP4 (\S+)", body, re.M)
    media = re.search(r"^m=audio (\d+) RTP/AVP ([\d ]+)", body, re.M)
    if host is None or media is None or media[1] == "0":
        raise ValueError("the answer has no audio stream")
    if "0" not in media[2].split():
        raise ValueError(f"the answer does not take PCMU, but payload types {media[2]}")
    return MediaOffer(host[1], int(media[1]))


def write_sdp(host: str, port: int) -> str:
    """Offer PCMU and telephone-event in 20 ms packets."""
    lines = [
        "v=0", f"o=caller 1 1 IN IP4 {host}", "s=-", f"c=IN IP4 {host}", "t=0 0",
        f"m=audio {port} RTP/AVP 0 101", "a=rtpmap:0 PCMU/8000", "a=rtpmap:101 telephone-event/8000",
        "a=fmtp:101 0-15", "a=ptime:20", "a=sendrecv", "",
    ]  # fmt: skip
    return "\r\n".join(lines)


@dataclass(slots=True)
class Dialog:
    """What the caller remembers of its dialog (RFC 3261, section 12)."""

    call_id: str
    local: str
    """The From value with our tag."""
    remote: str
    """The To value, with the gateway's tag once it is known."""
    target: str
    """Where in-dialog requests go: the Contact of the 200."""
    contact: str
    cseq: int = 0
    routes: list[str] = field(default_factory=list)

    def request(self, method: str, *, via: str, cseq: int, extra: Headers = (), body: str = "") -> Message:
        """Build a request of this dialog; the branch in ``via`` identifies its transaction."""
        return Message(
            f"{method} {self.target} SIP/2.0",
            (
                ("Via", via),
                ("Max-Forwards", "70"),
                *(("Route", route) for route in self.routes),
                ("From", self.local),
                ("To", self.remote),
                ("Call-ID", self.call_id),
                ("CSeq", f"{cseq} {method}"),
                ("Contact", f"<{self.contact}>"),
                *extra,
            ),
            body,
        )
