"""
A scripted telephone that is called: by the gateway, over a trunk whose address it is.

It is a :class:`~tests.kit.phone.Phone` with the other half of the dialog, and works in one thread with the
caller's: give both to :func:`together`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tests.kit import sip_text
from tests.kit.phone import EVENT, KEYS, Phone, Received
from tests.kit.ports import Ports
from tests.kit.sip_text import Message
from tests.kit.udp import Address

TAG = "colleague"


class Colleague(Phone):
    """
    A telephone that rings, and does with the call what its plan says.

    Args:
        ports: Where its ports come from.
        codec: The only codec that it speaks.
        plan: Statuses with their pauses in seconds; 183 comes with early media, 200 answers.
    """

    def __init__(
        self,
        ports: Ports,
        *,
        codec: str = "PCMU",
        plan: tuple[tuple[float, int], ...] = ((0.0, 180), (0.3, 200)),
    ) -> None:
        super().__init__(("127.0.0.1", 9), ports, called="nobody", codec=codec)
        self.plan = plan
        self.invite: Message | None = None
        self.source: Address | None = None
        self.acknowledged = False
        self.ended = False
        self.deaf_to_cancel = False
        """Whether a CANCEL is answered and not followed, as by a telephone that is answered just then."""
        self.next: Colleague | None = None

    @property
    def port(self) -> int:
        """Where it is called."""
        return int(self.sip.getsockname()[1])

    @property
    def address(self) -> str:
        return f"sip:127.0.0.1:{self.port}"

    # What a person does.

    def until_called(self, timeout: float = 15.0) -> Message:
        return self.wait_for(lambda message: message.method == "INVITE", timeout, "INVITE")

    def until_answered(self, timeout: float = 15.0) -> None:
        self.until(lambda: self.acknowledged, timeout, "the ACK")

    def pass_on(self, to: str) -> None:
        """Ask to connect the partner with somebody else."""
        self.dialog.cseq += 1
        self._send_request("REFER", extra=[("Refer-To", f"<{to}>")])

    def hand_over_to(self, other: Colleague) -> None:
        """Give further calls to another telephone, as the trunk that both belong to would."""
        self.next = other

    def reinvite(self, direction: str, *, host: str = "127.0.0.1") -> Message:
        """Change the session, and return the final answer, acknowledged."""
        self.dialog.cseq += 1
        cseq = self.dialog.cseq
        body = sip_text.offer(
            host, self.rtp.getsockname()[1], codecs=(self.codec,), direction=direction, version=cseq
        )
        self._send_request("INVITE", body=body)
        answer = self.wait_for(
            lambda message: message.answers == "INVITE" and message.cseq == cseq and message.status >= 200,
            5,
            "the answer to the re-INVITE",
        )
        self._send_request("ACK")
        return answer

    def keys(self) -> str:
        """The keys that were pressed for us (RFC 4733)."""
        pressed = {each.timestamp: KEYS[each.payload[0]] for each in self.audio if each.kind == EVENT}
        return "".join(pressed[at] for at in sorted(pressed))

    def notified(self) -> list[str]:
        """The sipfrags of all NOTIFYs."""
        return [each.message.body.strip() for each in self.received if each.message.method == "NOTIFY"]

    def methods(self) -> list[str]:
        return [each.message.method for each in self.received if each.message.method]

    # The wire.

    def _react(self, message: Message, source: Address) -> None:
        known = self.invite is None or message["call-id"] == self.invite["call-id"]
        if not known and self.next is not None:
            self.next.received.append(Received(time.time(), message))
            self.next._react(message, source)
            return
        match message.method:
            case "INVITE" if self.invite is None:
                self.invite, self.source = message, source
                self.gateway = source
                at = time.monotonic()
                for pause, status in self.plan:
                    at += pause
                    self.agenda.append((at, lambda status=status: self.say_status(status)))
            case "INVITE":
                pass  # a retransmission
            case "ACK":
                self.acknowledged = self.acknowledged or bool(message.tag("to"))
            case "CANCEL":
                self.sip.sendto(sip_text.respond(message, 200, "OK", tag=TAG), source)
                if not self.deaf_to_cancel:
                    self.say_status(487)
                    self.ended = True
                    self.agenda.clear()
            case "":
                pass
            case method:
                self.sip.sendto(sip_text.respond(message, 200, "OK"), source)
                self.ended = self.ended or method == "BYE"

    def say_status(self, status: int) -> None:
        """Answer the INVITE."""
        if self.invite is None or self.source is None or self.ended:
            return
        host, port = self.sip.getsockname()
        extra: tuple[tuple[str, str], ...] = (("Contact", f"<sip:colleague@{host}:{port}>"),)
        data = sip_text.respond(self.invite, status, "As planned", tag=TAG, extra=extra)
        if status in (183, 200):
            self.dialog.call_id = self.invite["call-id"]
            self.dialog.target = self.invite.uri("contact")
            media_host, media_port = self.rtp.getsockname()
            body = sip_text.offer(media_host, media_port, codecs=(self.codec,))
            data = data.replace(b"Content-Length: 0\r\n\r\n", _content(body))
            if not self.media:
                self.media = sip_text.media_address(self.invite.body)
                self.next_frame = time.monotonic()
        self.sip.sendto(data, self.source)

    def _send_request(
        self,
        method: str,
        *,
        branch: str = "",
        extra: Iterable[tuple[str, str]] = (),
        body: str = "",
        kind: str = "application/sdp",
    ) -> None:
        assert self.invite is not None
        host, port = self.sip.getsockname()
        invite = self.invite
        headers = [
            ("Via", f"SIP/2.0/UDP {host}:{port};rport;branch={branch or sip_text.branch()}"),
            ("Max-Forwards", "70"),
            ("From", f"{invite['to']};tag={TAG}"),
            ("To", invite["from"]),
            ("Call-ID", invite["call-id"]),
            ("CSeq", f"{self.dialog.cseq} {method}"),
            ("Contact", f"<sip:colleague@{host}:{port}>"),
            *extra,
        ]
        data = sip_text.write(f"{method} {self.dialog.target} SIP/2.0", headers, body, kind=kind)
        self.sip.sendto(data, self.gateway)


def _content(body: str) -> bytes:
    text = body.encode()
    return b"Content-Type: application/sdp\r\nContent-Length: %d\r\n\r\n" % len(text) + text


def number_in(message: Message) -> str:
    """The number that an INVITE calls."""
    found = re.match(r"INVITE sips?:([^@;]+)@", message.start)
    return found[1] if found else ""


@contextmanager
def together(*phones: Phone) -> Iterator[None]:
    """Let every waiting method of one of the phones work for all of them."""
    steps: list[Callable[[float], None]] = [phone._step for phone in phones]

    def step(end: float) -> None:
        for each in steps:
            each(min(end, time.monotonic() + 0.002))

    for phone in phones:
        phone._step = step  # type: ignore[method-assign]
    try:
        yield
    finally:
        for phone, own in zip(phones, steps, strict=True):
            phone._step = own  # type: ignore[method-assign]
