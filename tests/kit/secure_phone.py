"""
The kit's phone with SRTP by keys in its SDP (RFC 4568), for the far end of tests.

Its lines and its answers are read and written here, apart from the gateway; only libsrtp is the same.
"""

from __future__ import annotations

import base64
import re
import secrets

from pylibsrtp import Error, Policy, Session

from tests.kit import sip_text
from tests.kit.phone import Phone, read_rtp
from tests.kit.ports import Ports
from tests.kit.sip_text import Message
from tests.kit.udp import Address, drain

SUITES = {
    "AES_CM_128_HMAC_SHA1_80": (Policy.SRTP_PROFILE_AES128_CM_SHA1_80, 30),
    "AES_CM_128_HMAC_SHA1_32": (Policy.SRTP_PROFILE_AES128_CM_SHA1_32, 30),
    "AEAD_AES_128_GCM": (Policy.SRTP_PROFILE_AEAD_AES_128_GCM, 28),
    "AEAD_AES_256_GCM": (Policy.SRTP_PROFILE_AEAD_AES_256_GCM, 44),
}


class SecurePhone(Phone):
    """
    One telephone that protects its audio.

    Args:
        suites: What it offers, in this order, from tag 1 on.
        profile: The protocol of its audio line.
        lies: Whether it sends with another key than the one it offered.
        late: Whether it lets the gateway offer, and answers in its ACK.
    """

    def __init__(
        self,
        gateway: Address,
        ports: Ports,
        *,
        called: str,
        suites: tuple[str, ...] = ("AES_CM_128_HMAC_SHA1_80",),
        profile: str = "RTP/SAVP",
        lies: bool = False,
        late: bool = False,
        **options: object,
    ) -> None:
        super().__init__(gateway, ports, called=called, **options)
        self.profile, self.lies, self.late = profile, lies, late
        self.offered: dict[int, tuple[str, bytes]] = {}
        self.suite = ""
        self.keys = (b"", "")
        self.answer = ""
        self.undecryptable = 0
        self.out: Session | None = None
        self.into: Session | None = None
        self.version = 0
        self.renew(suites)

    def renew(self, suites: tuple[str, ...]) -> None:
        """Draw keys; the next offer carries them."""
        self.offered = {
            tag: (suite, secrets.token_bytes(SUITES[suite][1])) for tag, suite in enumerate(suites, 1)
        }

    def dial(self) -> None:
        self._send_request("INVITE", body="" if self.late else self.offer(), branch=self.invite_branch)

    def reinvite(self, *, timeout: float = 5.0) -> Message:
        """Offer again, with the keys that there are; return the final response."""
        self.dialog.cseq += 1
        cseq = self.dialog.cseq
        self._send_request("INVITE", body=self.offer(), cseq=cseq)
        return self.wait_for(
            lambda message: message.answers == "INVITE" and message.cseq == cseq and message.status >= 200,
            timeout,
        )

    def offer(self) -> str:
        """Write the offer: the usual one, with its profile changed and lines with keys added."""
        host, port = self.rtp.getsockname()
        self.version += 1
        text = sip_text.offer(host, port, codecs=(self.codec,), version=self.version)
        lines = [
            f"a=crypto:{tag} {suite} inline:{base64.b64encode(key).decode()}"
            for tag, (suite, key) in self.offered.items()
        ]
        return text.replace("RTP/AVP", self.profile) + "".join(line + "\r\n" for line in lines)

    def _acknowledge(self, response: Message) -> None:
        if response.status >= 300 or not self.late:
            if response.status < 300:
                self._take_keys(response.body)
            super()._acknowledge(response)
            return
        lines = {
            suite: (int(tag), key)
            for tag, suite, key in re.findall(
                r"^a=crypto:(\d+) (\S+) inline:(\S+)", response.body, re.MULTILINE
            )
        }
        ((suite, ours),) = self.offered.values()
        tag, key = lines[suite]
        self.offered = {tag: (suite, ours)}
        self._use(suite, ours, key)
        self.answer = self.offer()
        super()._acknowledge(response)

    def _send_request(self, method: str, **options: object) -> None:
        if method == "ACK" and self.answer:
            options["body"] = self.answer
        super()._send_request(method, **options)

    def _take_keys(self, sdp: str) -> None:
        """Read the one line of the answer; its number says which of ours is meant (RFC 4568, 5.1.2)."""
        found = re.findall(r"^a=crypto:(\d+) (\S+) inline:([^\s|]+)", sdp, re.MULTILINE)
        if not found:
            self.out = self.into = None
            return
        ((tag, suite, key),) = found
        offered, ours = self.offered[int(tag)]
        assert offered == suite, f"line {tag} was {offered}, answered as {suite}"
        self._use(suite, ours, key)

    def _use(self, suite: str, ours: bytes, key: str) -> None:
        if self.suite and self.keys == (ours, key):
            return  # the contexts go on with their counters
        self.suite, self.keys = suite, (ours, key)
        profile = SUITES[suite][0]
        sending = bytes(len(ours)) if self.lies else ours
        self.out = Session(Policy(sending, Policy.SSRC_ANY_OUTBOUND, srtp_profile=profile))
        self.into = Session(Policy(base64.b64decode(key), Policy.SSRC_ANY_INBOUND, srtp_profile=profile))

    def _on_rtp(self) -> None:
        for at, data, _ in drain(self.rtp):
            try:
                plain = self.into.unprotect(data) if self.into else data
            except Error:
                self.undecryptable += 1
                continue
            if (packet := read_rtp(at, plain)) is not None:
                self.audio.append(packet)

    def _send_packet(self, packet: bytes) -> None:
        super()._send_packet(self.out.protect(packet) if self.out else packet)
