"""
The SIP of a call as a ladder of text (no I/O): who said what to whom, when, and the headers that matter.

What a peer wrote is printed only after everything that a terminal could obey is taken out of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gateway import sdp
from gateway.sip.body import UnsupportedBody, find_sdp
from gateway.sip.message import Request, Response
from gateway.sip.parser import ParseError, parse_message

_TIME = 10
_WIDTH = 44
"""From one line of the ladder to the next."""
_FACT = 90
_HEADERS: Final = (
    "Reason", "Refer-To", "Refer-Sub", "Replaces", "Subscription-State", "Require", "RSeq", "RAck",
    "Unsupported", "Session-Expires", "Min-SE", "Retry-After", "Warning", "WWW-Authenticate",
    "Proxy-Authenticate", "Info-Package", "Diversion", "Expires",
)  # fmt: skip
_LENGTH = re.compile(r"\r\n(?:Content-Length|l)[ \t]*:[^\r\n]*", re.IGNORECASE)
_CONTROL = re.compile(r"[^\x20-\x7e\xa0-\u1fff\u2010-\u2027\u2030-\u205e\u2c00-\ud7ff\uf900-\ufdff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One message as ``sip.jsonl`` keeps it; ``at`` is seconds since the call's first message."""

    at: float
    sent: bool
    transport: str
    local: str
    remote: str
    text: str


def ladder(entries: Sequence[Entry], *, full: bool = False) -> Iterator[str]:
    """
    Yield the lines of a ladder.

    Args:
        entries: In the order of time.
        full: Print each message below its arrow.
    """
    writer = LadderWriter(full=full)
    for entry in entries:
        yield from writer.lines(entry)


class LadderWriter:
    """Writes a ladder as its messages come; a new peer widens it."""

    def __init__(self, *, full: bool = False) -> None:
        self._full = full
        self._columns: list[str] = []
        self._dialogs: set[str] = set()
        self._seen: set[tuple[bool, str]] = set()

    def lines(self, entry: Entry) -> Iterator[str]:
        """Yield the lines of one message, before it those of a peer or a dialog that is new."""
        remote = printable(f"{entry.remote} {entry.transport}")
        if remote not in self._columns:
            self._columns += [remote] if self._columns else [remote, _ours(entry)]
            yield ""
            yield " " * _TIME + "".join(name.ljust(_WIDTH) for name in self._columns).rstrip()
        message = _parsed(entry.text)
        if message is not None and message.call_id not in self._dialogs:
            self._dialogs.add(message.call_id)
            yield printable(f"{'':{_TIME}}Call-ID {message.call_id}")
        facts = list(_facts(message)) if message is not None else ["not readable"]
        if (entry.sent, entry.text) in self._seen:
            facts.insert(0, "again")
        self._seen.add((entry.sent, entry.text))
        arrow = self._arrow(remote, _label(message, entry.text), to_us=not entry.sent)
        yield printable(f"{entry.at:>{_TIME - 1}.3f} {arrow}  {' · '.join(facts)}".rstrip())
        if self._full:
            yield from (f"{'':{_TIME}}    {printable(line)}".rstrip() for line in entry.text.splitlines())
            yield ""

    def _arrow(self, remote: str, label: str, *, to_us: bool) -> str:
        place = self._columns.index(remote)
        first, last = min(place, 1), max(place, 1)
        length = (last - first) * _WIDTH - 1
        rightwards = (place < 1) == to_us
        label = f" {label[: length - 6]} "
        body = label.center(length - 1, "-")
        shaft = body + ">" if rightwards else "<" + body
        cells = [("|" if number < len(self._columns) else "") for number in range(len(self._columns))]
        before = "".join(cell.ljust(_WIDTH) for cell in cells[:first])
        after = "".join(cell.ljust(_WIDTH) for cell in cells[last:]).rstrip()
        return f"{before}|{shaft}{after}"


def _ours(entry: Entry) -> str:
    return printable(f"trunkline {entry.local}")


def _parsed(text: str) -> Request | Response | None:
    # Without its keys a body is shorter than Content-Length says: what is there is all of it.
    head, gap, body = text.partition("\r\n\r\n")
    text = _LENGTH.sub("", head) + gap + body
    try:
        return parse_message(text.encode("utf-8", "surrogateescape"), stream=False)
    except ParseError:
        return None


def _label(message: Request | Response | None, text: str) -> str:
    match message:
        case Request():
            again = message.method == "INVITE" and message.to.tag
            return f"re-{message.method}" if again else message.method
        case Response():
            return f"{message.status} {message.reason}".strip()
        case None:
            return text.partition("\r\n")[0]


def _facts(message: Request | Response) -> Iterator[str]:
    """Yield what somebody who looks for a fault wants to see of a message."""
    cseq = message.cseq
    yield f"{cseq.number} {cseq.method}" if isinstance(message, Response) else str(cseq.number)
    if isinstance(message, Request) and message.method == "INVITE" and not message.to.tag:
        caller = (message.headers.get("From") or "").partition(";tag=")[0]
        yield f"{_short(caller)} to {_short(message.uri)}"
    for name in _HEADERS:
        value = message.headers.get(name)
        if value is not None and (name != "Expires" or isinstance(message, Request)):
            yield f"{name}: {_short(value)}"
    yield from _body(message)


def _body(message: Request | Response) -> Iterator[str]:
    if not message.body.strip():
        return
    kind = (message.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    if kind == "message/sipfrag":
        yield _short(message.body.decode("utf-8", "replace").strip().partition("\n")[0].strip())
        return
    try:
        description = find_sdp(message.headers, message.body)
        if description is None:
            return
        for media in sdp.parse(description).media:
            names = dict.fromkeys(codec.name for codec in media.codecs) or media.formats
            codecs = "/".join(names)
            protocol = "" if media.protocol.upper() == "RTP/AVP" else f" {media.protocol}"
            yield f"{media.kind}{protocol} {codecs} {media.host or '?'}:{media.port} {media.direction.value}"
    except UnsupportedBody:
        yield kind
    except sdp.SdpError as error:
        yield f"SDP that cannot be read: {error}"


def _short(value: str) -> str:
    return value if len(value) <= _FACT else value[: _FACT - 1] + "…"


def printable(text: str) -> str:
    """Replace what is no visible character: an escape sequence of a peer must not reach the terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}" if found[0] != "…" else "…", text)
