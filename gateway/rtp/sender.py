"""
One outgoing stream: sequence numbers, timestamps on the absolute grid, telephone-events.
"""

from __future__ import annotations

from gateway.rtp.dtmf import CLOCK_RATE, DtmfSender
from gateway.rtp.packet import build
from gateway.rtp.rtcp import SenderInfo, ntp_time

_GAP_S = 0.03


class StreamSender:
    """
    Builds the packets of our stream; its SSRC, numbers and clock go on through every re-INVITE.

    Args:
        ssrc: Random, as the next two (RFC 3550 section 5.1).
        sequence: Of the first packet.
        timestamp: Of the first packet.
    """

    def __init__(self, *, ssrc: int, sequence: int, timestamp: int) -> None:
        self.ssrc = ssrc
        self.packets = 0
        self.octets = 0
        self.dtmf = DtmfSender()
        self._first = sequence
        self._sequence = sequence
        self._timestamp = timestamp  # at the epoch
        self._epoch: float | None = None
        self._last_at = 0.0
        self._event_timestamp = 0

    def build(self, payload_type: int, payload: bytes, at: float) -> bytes:
        """Build the packet that is due at ``at``; what was not sent before it leaves a gap in the time."""
        if self._epoch is None:
            self._epoch = at
            marker = True
        else:
            marker = at - self._last_at > _GAP_S
        self._last_at = at
        return self._pack(payload_type, self.timestamp(at), payload, marker=marker)

    def build_event(self, payload_type: int, at: float) -> bytes | None:
        """Build the event packet that is due at ``at``; ``None`` in the pause between two keys."""
        packet = self.dtmf.next_packet()
        if packet is None:
            return None
        if self._epoch is None:
            self._epoch = at
        self._last_at = at
        if packet.marker:
            self._event_timestamp = self.timestamp(at)
        return self._pack(payload_type, self._event_timestamp, packet.payload, marker=packet.marker)

    def timestamp(self, at: float) -> int:
        """The RTP timestamp of a moment."""
        elapsed = 0 if self._epoch is None else round((at - self._epoch) * CLOCK_RATE)
        return (self._timestamp + elapsed) & 0xFFFF_FFFF

    def expected(self, highest: int) -> int:
        """How many packets a receiver should have that reports this highest number (RFC 3550, A.3)."""
        return max(0, min(highest - self._first + 1, self.packets))

    def info(self, now: float, wall_clock: float) -> SenderInfo:
        """Write the sender's part of a report."""
        return SenderInfo(ntp_time(wall_clock), self.timestamp(now), self.packets, self.octets)

    def _pack(self, payload_type: int, timestamp: int, payload: bytes, *, marker: bool) -> bytes:
        sequence = self._sequence
        self._sequence = (sequence + 1) & 0xFFFF
        self.packets += 1
        self.octets += len(payload)
        return build(payload_type, sequence, timestamp, self.ssrc, payload, marker=marker)
