"""
What a receiver counts about one source (RFC 3550 sections 6.4.1 and 8, appendices A.3 and A.8).
"""

from __future__ import annotations

from gateway.rtp.packet import sequence_delta
from gateway.rtp.rtcp import ReportBlock


class ReceptionStatistics:
    """What was lost of one SSRC."""

    __slots__ = (
        "_base",
        "_expected_before",
        "_highest",
        "_last_sr",
        "_last_sr_at",
        "_received_before",
        "received",
        "ssrc",
    )

    def __init__(self, ssrc: int, sequence: int) -> None:
        self.ssrc = ssrc
        self.received = 0
        """Packets, duplicates and late ones included."""
        self._base = sequence
        self._highest = sequence  # extended: it counts on beyond 65535
        self._expected_before = 0
        self._received_before = 0
        self._last_sr = 0
        self._last_sr_at = 0.0

    def note(self, sequence: int) -> None:
        """Count a packet."""
        self.received += 1
        ahead = sequence_delta(sequence, self._highest & 0xFFFF)
        if ahead > 0:
            self._highest += ahead

    def note_sender_report(self, middle_ntp: int, now: float) -> None:
        """Remember when the source's last report came."""
        self._last_sr = middle_ntp
        self._last_sr_at = now

    @property
    def expected(self) -> int:
        """Packets that should have come."""
        return self._highest - self._base + 1

    @property
    def lost(self) -> int:
        """Packets that did not come; negative when duplicates outnumber them."""
        return self.expected - self.received

    def take_block(self, now: float, *, jitter: float) -> ReportBlock:
        """Write the report block with a jitter in samples; the next one's fraction counts from here."""
        expected = self.expected - self._expected_before
        lost = expected - (self.received - self._received_before)
        self._expected_before = self.expected
        self._received_before = self.received
        return ReportBlock(
            ssrc=self.ssrc,
            fraction_lost=min(255, (lost << 8) // expected) if expected > 0 and lost > 0 else 0,
            cumulative_lost=self.lost,
            highest_sequence=self._highest,
            jitter=int(jitter),
            last_sr=self._last_sr,
            delay_since_last_sr=int((now - self._last_sr_at) * 65536) if self._last_sr else 0,
        )
