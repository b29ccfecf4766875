"""
A user agent with forced time, and a peer written by hand.

The peer's side uses ``tests.kit.sip_text``, which shares no code with ``gateway.sip``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from gateway.sip import events as sip
from gateway.sip.flow import Flow, Outgoing
from gateway.sip.settings import UaSettings
from gateway.sip.ua import UserAgent
from tests.kit import sip_text
from tests.kit.sip_text import Message

PEER = ("198.51.100.7", 5060)
US = ("192.0.2.10", 5060)
UDP = Flow("udp", PEER, US)
TCP = Flow("tcp", PEER, US, 1)
OFFER = sip_text.offer("198.51.100.7", 24500)
ANSWER = (
    b"v=0\r\no=us 1 1 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\nt=0 0\r\nm=audio 20000 RTP/AVP 0\r\n"
)


def request(
    method: str,
    *,
    uri: str = "sip:+12125550100@192.0.2.10",
    branch: str = "1",
    via: str = "SIP/2.0/UDP 198.51.100.7:5060",
    from_tag: str = "f1",
    to_tag: str = "",
    call_id: str = "call-1",
    cseq: int = 1,
    contact: str = "<sip:alice@198.51.100.7:5060>",
    extra: tuple[tuple[str, str], ...] = (),
    body: str = "",
    kind: str = "application/sdp",
) -> bytes:
    headers = [
        ("Via", f"{via};branch=z9hG4bK{branch}"),
        ("Max-Forwards", "70"),
        ("From", f'"Alice" <sip:alice@example.com>;tag={from_tag}'),
        ("To", f"<{uri}>" + (f";tag={to_tag}" if to_tag else "")),
        ("Call-ID", call_id),
        ("CSeq", f"{cseq} {method}"),
    ]
    if contact:
        headers.append(("Contact", contact))
    return sip_text.write(f"{method} {uri} SIP/2.0", [*headers, *extra], body, kind=kind)


def invite(**changes) -> bytes:
    return request("INVITE", **{"body": OFFER, **changes})


@dataclass
class Established:
    """What a test needs of a confirmed call."""

    call: str
    to_tag: str


class Rig:
    """Feeds a user agent and reads what it says; ``now`` moves only when told to."""

    def __init__(self, settings: UaSettings | None = None) -> None:
        count = itertools.count(1)
        self.ua = UserAgent(settings or UaSettings(), lambda: f"t{next(count)}")
        self.now = 0.0
        self.outgoing: list[Outgoing] = []
        self._events: list[sip.SipEvent] = []

    def feed(self, data: bytes, flow: Flow = UDP) -> list[Message]:
        """Receive and return what was sent in reply."""
        self.ua.receive(data, flow, now=self.now)
        return self.sent()

    def sent(self) -> list[Message]:
        fresh = self.ua.to_send()
        self.outgoing += fresh
        return [sip_text.read(each.data) for each in fresh]

    def events(self) -> list[sip.SipEvent]:
        return self.ua.events()

    def advance(self, to: float) -> list[tuple[float, Message]]:
        """Fire every timer up to ``to``; return what was sent, with the time."""
        log: list[tuple[float, Message]] = []
        while (at := self.ua.next_timeout()) is not None and at <= to:
            self.now = max(self.now, at)
            self.ua.handle_timeout(now=self.now)
            log += [(self.now, message) for message in self.sent()]
        self.now = to
        return log

    def offered(self, data: bytes | None = None, flow: Flow = UDP) -> str:
        """Let a call come in; return its handle."""
        self.feed(data or invite(), flow)
        (event,) = [each for each in self.events() if isinstance(each, sip.CallOffered)]
        return event.call

    def answered(self, data: bytes | None = None, flow: Flow = UDP) -> Established:
        """Let a call come in and answer it; the 200 is out, the ACK is not here."""
        call = self.offered(data, flow)
        self.ua.answer(call, ANSWER, now=self.now)
        (ok,) = self.sent()
        return Established(call, ok.tag("to"))

    def confirmed(self, data: bytes | None = None, flow: Flow = UDP) -> Established:
        """Let a call come in, answer it and acknowledge."""
        made = self.answered(data, flow)
        call_id = sip_text.read(data or invite())["call-id"]
        self.feed(request("ACK", branch="ack1", to_tag=made.to_tag, call_id=call_id), flow)
        self.events()
        return made

    def response(self, to: Message, status: int, reason: str = "OK", **more) -> list[Message]:
        """Answer a request of ours."""
        return self.feed(sip_text.respond(to, status, reason, **more))


def statuses(messages: list[Message]) -> list[int]:
    return [message.status for message in messages]
