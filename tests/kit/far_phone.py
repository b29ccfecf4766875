"""
The kit's phone at the far end of a bad network: it repeats its requests, presses keys slowly and reports.

What a telephone does about losses is RFC 3261 section 17.1 for requests and RFC 3550 section 6.4.2 for audio.
"""

from __future__ import annotations

import struct
import time
from itertools import pairwise

from tests.kit.phone import EVENT, KEYS, PAYLOAD, Audio, Phone
from tests.kit.ports import Ports
from tests.kit.relay import Link, Relay, Weather
from tests.kit.sip_text import Message
from tests.kit.sound import FRAME
from tests.kit.udp import Address

T1 = 0.5
T2 = 4.0
REPORTS = 3
"""The last words of RTCP are sent so often, for the network loses some."""


class FarPhone(Phone):
    """A phone whose signalling and audio go through a relay."""

    def __init__(
        self, gateway: Address, ports: Ports, relay: Relay, name: str, weather: Weather, *, called: str
    ) -> None:
        self.signalling: Link = relay.link(f"{name} sip", gateway, inward=weather, outward=weather)
        self.voice: Link = relay.link(f"{name} rtp", gateway, inward=weather, outward=weather)
        super().__init__(self.signalling.near, ports, called=called, caller=f"+1202556{int(name):04d}")
        self.contact, self.offered = self.signalling.far, self.voice.far
        self.repeated = 0

    # What a person does.

    def dial_digits(self, keys: str) -> None:
        """Press keys as a telephone sends them: a packet each 20 ms, the end three times, then a pause."""
        for key in keys:
            timestamp = self.timestamp
            for number in range(1, 9):
                body = struct.pack("!BBH", KEYS.index(key), (number > 5) << 7 | 10, min(number, 6) * FRAME)
                later, self.timestamp = self.timestamp, timestamp
                self._send_rtp(EVENT, body, marker=number == 1)
                self.timestamp = later
                self.listen(0.02)
            self.listen(0.1)

    def report(self) -> None:
        """Tell the gateway what was received of its voice (RFC 3550, section 6.4.2), on the audio port."""
        audio = [each for each in self.audio if each.kind in (PAYLOAD[self.codec], EVENT)]
        if not audio or self.media is None:
            return
        expected, highest = span(audio)
        lost = expected - len(audio)
        block = struct.pack("!IIIIII", audio[0].ssrc, lost & 0xFFFFFF, highest, int(jitter(audio)), 0, 0)
        for _ in range(REPORTS):
            self.rtp.sendto(struct.pack("!BBHI", 0x81, 201, 7, self.ssrc) + block, self.media)
            self.listen(0.02)

    # What the network makes necessary.

    def _acknowledge(self, response: Message) -> None:
        super()._acknowledge(response)
        if self.media is not None and self.media != self.voice.near:
            self.media = self.voice.aim(self.media)

    def _transmit(self, method: str, data: bytes) -> None:
        self.sip.sendto(data, self.gateway)
        if method in ("INVITE", "BYE", "CANCEL"):
            self._repeat(method, self.dialog.cseq if method == "BYE" else 1, data, T1)

    def _repeat(self, method: str, cseq: int, data: bytes, pause: float) -> None:
        """Send a request again and again until something answers it (timers A and E)."""

        def again() -> None:
            answers = (each.message for each in self.received if each.message.status)
            if not any(each.answers == method and each.cseq == cseq for each in answers):
                self.repeated += 1
                self.sip.sendto(data, self.gateway)
                self._repeat(method, cseq, data, min(2 * pause, T2))

        self.agenda.append((time.monotonic() + pause, again))


def span(audio: list[Audio]) -> tuple[int, int]:
    """Return how many packets there should be, and the highest sequence number with its wraps."""
    extended, first = audio[0].sequence, audio[0].sequence
    lowest = highest = extended
    for before, after in pairwise(audio):
        extended += (after.sequence - before.sequence + 0x8000) % 0x10000 - 0x8000
        lowest, highest = min(lowest, extended), max(highest, extended)
    return highest - min(lowest, first) + 1, highest & 0xFFFFFFFF


def jitter(audio: list[Audio]) -> float:
    """Return the interarrival jitter in samples (RFC 3550, appendix A.8)."""
    found = 0.0
    for before, after in pairwise(audio):
        step = (after.timestamp - before.timestamp + (1 << 31)) % (1 << 32) - (1 << 31)
        found += (abs((after.at - before.at) * 8000 - step) - found) / 16
    return found
