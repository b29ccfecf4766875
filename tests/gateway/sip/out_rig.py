"""The peer of a call that we place: answers our INVITE by hand."""

from __future__ import annotations

from gateway.sip import events as sip
from gateway.sip.flow import Flow
from gateway.sip.target import Credentials, Target
from tests.gateway.sip.rig import ANSWER, OFFER, PEER, US, Rig
from tests.kit import sip_text
from tests.kit.sip_text import Message

SECOND = Flow("udp", ("198.51.100.8", 5060), US)
FIRST = Flow("udp", PEER, US)
CREDENTIALS = Credentials("gw", "s3cret-Word")
CONTACT = ("Contact", "<sip:bob@198.51.100.7:5070>")
SDP = OFFER  # what the peer says, as its answer


def target(*flows: Flow, credentials: Credentials | None = None, **more) -> Target:
    return Target(
        uri="sip:+12025550177@carrier.example",
        from_='"Sales" <sip:+12025550100@gw.example>',
        flows=flows or (FIRST,),
        credentials=credentials,
        **more,
    )


def answer(
    to: Message,
    status: int,
    reason: str = "OK",
    *,
    tag: str = "R1",
    extra: tuple[tuple[str, str], ...] = (CONTACT,),
    body: str = "",
) -> bytes:
    """Return a response to a request of ours, with a session description where there is one."""
    data = sip_text.respond(to, status, reason, tag=tag, extra=extra)
    if not body:
        return data
    head = data.decode().partition("\r\nContent-Length")[0]
    start, *lines = head.split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return sip_text.write(start, headers, body)


class OutRig(Rig):
    """Places calls; ``invite`` is the last INVITE that left."""

    call: str
    invite: Message

    def dial(self, to: Target | None = None, **more) -> Message:
        self.call = self.ua.invite(to or target(), ANSWER, now=self.now, **more)
        (self.invite,) = self.sent()
        return self.invite

    def reply(self, status: int, reason: str = "OK", *, to: Message | None = None, **more) -> list[Message]:
        """Answer the INVITE; return what that makes us send."""
        return self.feed(answer(to or self.invite, status, reason, **more))

    def accepted(self, to: Target | None = None, **more) -> Message:
        """Place a call that is answered at once; return our ACK."""
        self.dial(to)
        (ack,) = self.reply(200, body=SDP, **more)
        self.events()
        return ack

    def ends(self) -> list[sip.CallEnded]:
        return [each for each in self.events() if isinstance(each, sip.CallEnded)]

    def from_peer(
        self, method: str, cseq: int = 1, *, tag: str = "R1", body: str = "", branch: str = ""
    ) -> bytes:
        """Write a request of the peer in the dialog."""
        headers = [
            ("Via", f"SIP/2.0/UDP 198.51.100.7:5060;branch=z9hG4bK{branch or method + str(cseq) + tag}"),
            ("Max-Forwards", "70"),
            ("From", f"<sip:+12025550177@carrier.example>;tag={tag}"),
            ("To", f"<sip:+12025550100@gw.example>;tag={self.invite.tag('from')}"),
            ("Call-ID", self.invite["call-id"]),
            ("CSeq", f"{cseq} {method}"),
            ("Contact", "<sip:bob@198.51.100.7:5070>"),
        ]
        return sip_text.write(f"{method} sip:192.0.2.10 SIP/2.0", headers, body)


NOTHING = (0, 0, 0, None)


def idle(rig: OutRig) -> tuple[int, int, int, float | None]:
    """Let every timer run out; return what is left, :data:`NOTHING` where nothing is."""
    rig.advance(rig.now + 200.0)
    return rig.ua.active_calls, rig.ua.dialogs, rig.ua.transactions, rig.ua.next_timeout()
