"""
One incoming stream: from packets of a trusted source to frames in the caller's time.

Decides which SSRC is heard (RFC 3550 section 8.2, appendix A.1), puts packets in order, places them on the
caller's media clock, and fills silence where nothing comes, so that a listener always hears time pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.rtp.jitter import JitterBuffer, Slot
from gateway.rtp.packet import RtpPacket, sequence_delta, timestamp_delta
from gateway.rtp.statistics import ReceptionStatistics

CLOCK_RATE = 8000
SAMPLES_PER_MS = 8

_MAX_DROPOUT = 3000
_MAX_MISORDER = 100
_MAX_PAYLOAD = 200 * SAMPLES_PER_MS
_MAX_GAP = 1000 * SAMPLES_PER_MS
_FILL_MS = 20
_FILL_PATIENCE_MS = 60


class AudioFrame(NamedTuple):
    """A piece of the caller's time."""

    payload: bytes
    """G.711; empty where there is none."""
    at_ms: int
    """Position since the first packet."""
    duration_ms: int
    lost: bool = False
    """Audio is missing here and should be concealed; else an empty frame is silence."""


_NOTHING: tuple[AudioFrame, ...] = ()


class StreamReceiver:
    """Frames of the stream that is heard; one stream at a time."""

    def __init__(self) -> None:
        self.buffer = JitterBuffer()
        self.statistics: ReceptionStatistics | None = None
        self.ssrcs: list[int] = []
        """Every stream that was heard, the newest last; at most 16."""
        self.changes = 0
        """How often another stream, or the same one with other numbers, took over."""
        self._past_received = 0
        self._past_lost = 0
        self._ssrc: int | None = None
        self._candidate: RtpPacket | None = None
        # Position on the caller's clock, in samples.
        self._first_at: float | None = None
        self._next_timestamp = 0
        self._next_position = 0
        self._filled_to = 0
        self._lost_before = False  # packets are missing since the last audio
        # For filling.
        self._last_at = 0.0  # when audio came
        self._last_ms = 20
        self._quiet = False  # the sender said that it is silent

    @property
    def ssrc(self) -> int | None:
        """Whose packets are heard."""
        return self._ssrc

    @property
    def received(self) -> int:
        """Packets of all streams that were heard."""
        return self._past_received + (self.statistics.received if self.statistics else 0)

    @property
    def lost(self) -> int:
        """Packets that never came, of all streams that were heard."""
        return max(0, self._past_lost + (self.statistics.lost if self.statistics else 0))

    def follows(self, packet: RtpPacket) -> bool:
        """Whether a packet continues the present stream: its SSRC, and a little ahead."""
        expected = self.buffer.expected
        return (
            packet.ssrc == self._ssrc
            and expected is not None
            and 0 <= sequence_delta(packet.sequence, expected) < _MAX_DROPOUT
        )

    def forget_source(self) -> None:
        """Let the next packet begin a new stream, whoever sends it."""
        self._ssrc = None
        self._candidate = None

    def receive(self, packet: RtpPacket, now: float, *, is_audio: bool) -> Sequence[AudioFrame]:
        """
        Take a packet of a trusted source.

        Args:
            packet: Its payload counts only if ``is_audio``; it always has a place in the sequence.
            now: When it came.
            is_audio: False for events, comfort noise and payload types that were not agreed.
        """
        if packet.ssrc != self._ssrc:
            if self._ssrc is not None or not is_audio:
                return self._probe(packet, now) if is_audio else _NOTHING
            self._begin(packet, now)
        elif self._jumps(packet):
            return self._probe(packet, now) if is_audio else _NOTHING
        else:
            self._candidate = None
        return self._take(packet, now, is_audio=is_audio)

    def note_quiet(self) -> None:
        """The sender is silent on purpose (comfort noise, a key press): fill with silence at once."""
        self._quiet = True

    def expire(self, now: float) -> Sequence[AudioFrame]:
        """Give up packets that did not come in time."""
        ready = self.buffer.expire(now)
        return self._place_all(ready, now) if ready else _NOTHING

    def fill(self, now: float) -> Sequence[AudioFrame]:
        """Take a frame of silence, or of loss, if nothing has come for too long; call it every 20 ms."""
        if self._first_at is None or self.buffer.held:
            return _NOTHING
        patience_ms = _FILL_MS if self._quiet else self._last_ms + _FILL_PATIENCE_MS
        if (now - self._last_at) * 1000 + 0.5 < patience_ms:
            return _NOTHING
        position = max(self._filled_to, self._next_position)
        self._filled_to = position + _FILL_MS * SAMPLES_PER_MS
        return (AudioFrame(b"", position // SAMPLES_PER_MS, _FILL_MS, lost=not self._quiet),)

    # Which stream.

    def _jumps(self, packet: RtpPacket) -> bool:
        expected = self.buffer.expected
        if expected is None or packet.sequence == expected:
            return False
        delta = sequence_delta(packet.sequence, expected)
        if delta >= 0:
            return delta >= _MAX_DROPOUT
        # Old by its number but new by its time: the sender started again.
        return delta < -_MAX_MISORDER or timestamp_delta(packet.timestamp, self._next_timestamp) >= 0

    def _probe(self, packet: RtpPacket, now: float) -> Sequence[AudioFrame]:
        """Believe in a new stream when two packets in a row come and none of the old one between."""
        before, self._candidate = self._candidate, packet
        if before is None or before.ssrc != packet.ssrc or packet.sequence != (before.sequence + 1) & 0xFFFF:
            return _NOTHING
        self._begin(before, now)
        return [*self._take(before, now, is_audio=True), *self._take(packet, now, is_audio=True)]

    def _begin(self, packet: RtpPacket, now: float) -> None:
        if self._first_at is None:
            self._first_at = now
        else:
            self.changes += 1
        self._candidate = None
        if packet.ssrc != self._ssrc:
            self.ssrcs = [*[ssrc for ssrc in self.ssrcs if ssrc != packet.ssrc][-15:], packet.ssrc]
        self._ssrc = packet.ssrc
        if self.statistics is not None:
            self._past_received += self.statistics.received
            self._past_lost += self.statistics.lost
        self.statistics = ReceptionStatistics(packet.ssrc, packet.sequence)
        self.buffer.reset()
        self._lost_before = False
        self._next_timestamp = packet.timestamp
        self._next_position = self._clock(now)

    # Where in time.

    def _take(self, packet: RtpPacket, now: float, *, is_audio: bool) -> Sequence[AudioFrame]:
        assert self.statistics is not None
        self.statistics.note(packet.sequence)
        payload = b""
        if is_audio and packet.payload:
            payload = packet.payload[:_MAX_PAYLOAD]
            self.statistics.note_timing(packet.timestamp, now)
            self._last_at = now
            self._last_ms = len(payload) // SAMPLES_PER_MS
            self._quiet = False
        ready = self.buffer.insert(packet.sequence, packet.timestamp, payload, now)
        return self._place_all(ready, now) if ready else _NOTHING

    def _place_all(self, slots: Sequence[Slot], now: float) -> Sequence[AudioFrame]:
        frames: list[AudioFrame] = []
        for _, timestamp, payload, lost in slots:
            self._lost_before = self._lost_before or lost > 0
            if not payload:
                # Not audio. An event keeps the timestamp of its beginning while the audio goes on (RFC 4733,
                # section 2.2), so it has no place of its own; what is missing shows at the next audio.
                continue
            if timestamp != self._next_timestamp or self._lost_before:
                self._move(timestamp, now, frames, lost=self._lost_before)
                self._lost_before = False
            samples = len(payload)
            frames.append(
                AudioFrame(payload, self._next_position // SAMPLES_PER_MS, samples // SAMPLES_PER_MS)
            )
            self._next_timestamp = (timestamp + samples) & 0xFFFF_FFFF
            self._next_position += samples
        return frames

    def _move(self, timestamp: int, now: float, frames: list[AudioFrame], *, lost: bool) -> None:
        """Go to a packet that does not join its predecessor; put what is missing into ``frames``."""
        position = self._next_position + timestamp_delta(timestamp, self._next_timestamp)
        if abs(position - self._clock(now)) > CLOCK_RATE:
            position = self._clock(now)  # the sender's clock jumped
        missing_from = max(self._next_position, self._filled_to)
        missing = min(position - missing_from, _MAX_GAP)
        if missing >= SAMPLES_PER_MS:
            at_ms = (position - missing) // SAMPLES_PER_MS
            frames.append(AudioFrame(b"", at_ms, missing // SAMPLES_PER_MS, lost))
        self._next_timestamp = timestamp
        self._next_position = max(position, 0)

    def _clock(self, now: float) -> int:
        """The position that ``now`` has by our own clock."""
        assert self._first_at is not None
        return round((now - self._first_at) * CLOCK_RATE)
