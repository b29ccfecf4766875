"""A telephone that does what it should not, or what few do: the kit's phone for tests of the odd caller."""

from __future__ import annotations

import os
import selectors
import time
from dataclasses import dataclass

from tests.kit import sip_text
from tests.kit.phone import PAYLOAD, Phone
from tests.kit.ports import Ports
from tests.kit.sip_text import Message
from tests.kit.udp import Address, udp


@dataclass(frozen=True, slots=True)
class Manner:
    """How the caller behaves."""

    acknowledges: bool = True
    sends_audio: bool = True
    frame_ms: int = 20
    copies: int = 1
    """How often each packet is sent, under sequence numbers of its own."""
    late_offer: bool = False
    garbage: int = 0
    """Random datagrams for the RTP port beside each packet."""


class Rogue(Phone):
    """A phone with manners of its own."""

    def __init__(
        self,
        gateway: Address,
        ports: Ports,
        *,
        called: str,
        caller: str = "+12025550123",
        codec: str = "PCMU",
        manner: Manner | None = None,
    ) -> None:
        super().__init__(gateway, ports, called=called, caller=caller, codec=codec)
        self.manner = manner or Manner()
        self.direction = "sendrecv"
        self.last_offer = 0
        """The CSeq of the last INVITE that had an offer of ours."""
        self.pending = b""

    def dial(self) -> None:
        if self.manner.late_offer:
            self._send_request("INVITE", branch=self.invite_branch)
        else:
            self.last_offer = 1
            super().dial()

    def re_invite(self, direction: str = "sendrecv", *, offers: bool = True, codec: str = "") -> Message:
        """Ask for another session and return the answer; without an offer ours comes in the ACK."""
        self.codec = codec or self.codec
        self.direction = direction
        self.dialog.cseq += 1
        cseq = self.dialog.cseq
        if offers:
            self.last_offer = cseq
        self._send_in_dialog("INVITE", cseq, self._description() if offers else "")
        return self.wait_for(
            lambda message: message.answers == "INVITE" and message.cseq == cseq and message.status >= 200,
            5,
            f"the answer to a re-INVITE with {direction}",
        )

    def move_audio(self, port: int) -> None:
        """Send and receive audio on another port from now on, without a word about it."""
        self.selector.unregister(self.rtp)
        self.rtp.close()
        self.rtp = udp(port)
        self.selector.register(self.rtp, selectors.EVENT_READ, self._on_rtp)

    def send_bye(self) -> None:
        """Hang up without waiting for the answer."""
        self.dialog.cseq += 1
        self._send_in_dialog("BYE", self.dialog.cseq)

    def _description(self) -> str:
        host, port = self.rtp.getsockname()
        version = self.dialog.cseq
        return sip_text.offer(host, port, codecs=(self.codec,), direction=self.direction, version=version)

    def _send_in_dialog(self, method: str, cseq: int, body: str = "") -> None:
        host, port = self.sip.getsockname()
        dialog = self.dialog
        headers = [
            ("Via", f"SIP/2.0/UDP {host}:{port};rport;branch={sip_text.branch()}"),
            ("Max-Forwards", "70"),
            ("From", f"<sip:{self.caller}@{host}>;tag={dialog.local_tag}"),
            ("To", f"<sip:{self.called}@{self.gateway[0]}:{self.gateway[1]}>;tag={dialog.remote_tag}"),
            ("Call-ID", dialog.call_id),
            ("CSeq", f"{cseq} {method}"),
            ("Contact", f"<sip:phone@{host}:{port}>"),
        ]
        self.sip.sendto(sip_text.write(f"{method} {dialog.target} SIP/2.0", headers, body), self.gateway)

    def _acknowledge(self, response: Message) -> None:
        if response.status >= 300:
            super()._acknowledge(response)
            return
        self.dialog.remote_tag = response.tag("to")
        self.dialog.target = response.uri("contact")
        if not self.manner.acknowledges:
            return
        if not self.media:
            self.media = sip_text.media_address(response.body)
            self.next_frame = time.monotonic()
        ours = response.cseq != self.last_offer  # they offered, so we answer
        self._send_in_dialog("ACK", response.cseq, self._description() if ours else "")

    def _send_frame(self, now: float) -> None:
        manner = self.manner
        self.next_frame += manner.frame_ms / 1000
        if now - self.next_frame > 0.5:  # the machine slept: go on from now, without a burst
            self.next_frame = now
        if not manner.sends_audio:
            return
        size = manner.frame_ms * 8
        while len(self.pending) < size:
            self.pending += self.queue.popleft() if self.queue else self._silence()
        frame, self.pending = self.pending[:size], self.pending[size:]
        for _ in range(manner.copies):
            self._send_rtp(PAYLOAD[self.codec], frame)
        self.timestamp += size
        if self.media:
            for _ in range(manner.garbage):
                self.rtp.sendto(os.urandom(1 + os.urandom(1)[0]), self.media)
