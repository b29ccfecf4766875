"""
One incoming stream: from packets of a trusted source to frames in the caller's time.

Decides which SSRC is heard (RFC 3550 section 8.2, appendix A.1), puts packets in order, and lays them one
behind the other on an output clock that runs with ours:

* What comes in order passes at once. What is missing is given up when it is late by more than the target
  delay (:mod:`gateway.rtp.delay`), and then a frame says so.
* Audio that comes after its time was filled is still heard, and makes the output longer; silence is left
  out until the output is back on the clock. Half a second is the most that it may be ahead; beyond that
  audio is discarded. A sender whose clock is slow gets silence added, where there is silence.
* Nothing is ever heard twice or out of order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.rtp.delay import CLOCK_RATE, DEFAULT_LIMITS, DelayTracker, JitterLimits
from gateway.rtp.jitter import JitterBuffer, Slot
from gateway.rtp.level import is_quiet
from gateway.rtp.packet import RtpPacket, sequence_delta, timestamp_delta
from gateway.rtp.statistics import ReceptionStatistics

SAMPLES_PER_MS = 8

_MAX_DROPOUT = 3000
_MAX_MISORDER = 100
_MAX_PAYLOAD = 200 * SAMPLES_PER_MS
_MAX_GAP = 1000 * SAMPLES_PER_MS
_FILL_MS = 20
_FILL = _FILL_MS * SAMPLES_PER_MS
_FILLS = 2
"""Frames of one tick at most, when ticks were missed."""
_PATIENCE_S = 0.02
"""Nobody misses what is made up a little later, and our own stalls must not make anything up."""
_AHEAD = 80
"""Samples that the output may be ahead of our clock before silence is looked for that can be left out."""
_BEHIND = 320
_MAX_AHEAD = CLOCK_RATE // 2
_EARLY = CLOCK_RATE // 4
"""A packet so far ahead of our clock cannot be true: the sender's clock jumped."""
_REPEATED = CLOCK_RATE // 10
"""A timestamp that goes back so little repeats audio that was heard."""
_REPEATS = 5
"""So many in a row are no repeats: the sender's clock stands still or went back."""
_SETTLING_S = 2.0
_ROUNDING_S = 0.0005


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
    """
    Frames of the stream that is heard; one stream at a time.

    Args:
        limits: How long what is missing is waited for.
    """

    def __init__(self, limits: JitterLimits = DEFAULT_LIMITS) -> None:
        self.buffer = JitterBuffer()
        self.delay = DelayTracker(limits)
        self.statistics: ReceptionStatistics | None = None
        self.quiet_codes = b""
        """The bytes of quiet samples in the present codec; without them no silence is found in audio."""
        self.ssrcs: list[int] = []
        """Every stream that was heard, the newest last; at most 16."""
        self.changes = 0
        """How often another stream, or the same one with other numbers, took over."""
        self.repeated = 0
        """Packets with a number of their own and the timestamp of another."""
        self.discarded = 0
        """Packets thrown away because too much had come at once."""
        self.concealed = 0
        """Samples that were missing or came too late, for which something was made up."""
        self.shortened = 0
        """Samples of silence left out, to be on the clock again."""
        self.lengthened = 0
        """Samples of silence added for the same reason."""
        self._past_received = 0
        self._past_lost = 0
        self._ssrc: int | None = None
        self._candidate: RtpPacket | None = None
        self._lost_before = False  # packets are missing since the last audio
        self._quiet = False  # the sender said that it is silent
        self._was_quiet = False  # the last audio was
        self._repeat = (0, 0)  # where on the sender's clock something was repeated, and how often
        # The sender's clock: samples since the first packet, and the timestamp that stands for it.
        self._next_timestamp = 0
        self._media = 0
        # The output clock, in samples: what was handed out, the end of which was made up in advance.
        self._position = 0
        self._filled = 0
        self._first_at: float | None = None
        self._origin = 0.0  # when position 0 was due at the earliest
        self._settled_at = 0.0  # when that is known well enough

    @property
    def ssrc(self) -> int | None:
        """Whose packets are heard."""
        return self._ssrc

    @property
    def received(self) -> int:
        """Packets of all streams that were heard."""
        return self._past_received + (self.statistics.received if self.statistics else 0)

    @property
    def expected(self) -> int:
        """Packets that should have come, of all streams that were heard."""
        return self.received - self.buffer.duplicates + self.lost

    @property
    def lost(self) -> int:
        """Packets that never came, of all streams; RFC 3550 counts duplicates against them, this does not."""
        lost = self._past_lost + (self.statistics.lost if self.statistics else 0)
        return max(0, lost + self.buffer.duplicates)

    @property
    def position_ms(self) -> int:
        """How much of the caller's time was handed out."""
        return self._position // SAMPLES_PER_MS

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
        elif packet.sequence != self.buffer.expected and self._jumps(packet):
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
        """Take frames of silence, or of loss, for what has not come in time; call it every 20 ms."""
        if self._first_at is None or self.buffer.held:
            return _NOTHING
        patience_s = 0.0 if self._quiet else self.delay.target + _PATIENCE_S
        due = self._origin + self._position / CLOCK_RATE + patience_s
        if now + _ROUNDING_S < due:
            return _NOTHING
        frames: list[AudioFrame] = []
        while now + _ROUNDING_S >= due and len(frames) < _FILLS:
            frames.append(self._made_up(_FILL, lost=not self._quiet))
            self._filled += _FILL
            due += _FILL / CLOCK_RATE
        return frames

    # Which stream.

    def _jumps(self, packet: RtpPacket) -> bool:
        expected = self.buffer.expected
        if expected is None:
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
            self._first_at = self._origin = now
            self._settled_at = now + _SETTLING_S
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
        self.delay.restart()
        self._lost_before = False
        self._next_timestamp = packet.timestamp
        # What waited or was filled before belongs to the old stream; the new one stands at our own clock.
        self._filled = 0
        self._media = max(self._position, self._clock(now))
        if self._media - self._position > _MAX_GAP:
            self._position = self._media

    # Where in time.

    def _take(self, packet: RtpPacket, now: float, *, is_audio: bool) -> Sequence[AudioFrame]:
        assert self.statistics is not None
        _, _, sequence, timestamp, _, payload, _ = packet
        self.statistics.note(sequence)
        delay = self.delay
        wait_s = delay.target
        if is_audio and payload:
            payload = payload[:_MAX_PAYLOAD]
            ahead = (
                0 if timestamp == self._next_timestamp else timestamp_delta(timestamp, self._next_timestamp)
            )
            late_s = delay.note(self._media + ahead, now)
            wait_s = delay.target - late_s
            self._quiet = False
            if not late_s and now < self._settled_at:
                self._settle()
        else:
            payload = b""
        buffer = self.buffer
        if buffer.passes(sequence):
            if not payload:
                return _NOTHING
            if timestamp == self._next_timestamp and not self._filled and not self._lost_before:
                return self._hand_out(payload)
            return self._place_all((Slot(sequence, timestamp, payload, 0),), now)
        ready = buffer.insert(sequence, timestamp, payload, now, wait_s)
        return self._place_all(ready, now) if ready else _NOTHING

    def _settle(self) -> None:
        """Let the output clock begin with the fastest of the first packets, if the very first was slow."""
        base = self.delay.base
        if self._position == self._media and self._origin - _SETTLING_S / 4 < base < self._origin:
            self._origin = base

    def _place_all(self, slots: Sequence[Slot], now: float) -> Sequence[AudioFrame]:
        frames: list[AudioFrame] = []
        for _, timestamp, payload, lost in slots:
            self._lost_before = self._lost_before or lost > 0
            if not payload:
                # Not audio. An event keeps the timestamp of its beginning while the audio goes on (RFC 4733,
                # section 2.2), so it has no place of its own; what is missing shows at the next audio.
                continue
            if (timestamp != self._next_timestamp or self._filled or self._lost_before) and not self._move(
                timestamp, now, frames
            ):
                continue
            frames += self._hand_out(payload)
        return frames

    def _hand_out(self, payload: bytes) -> Sequence[AudioFrame]:
        """Hand audio out behind all before it, unless the output is not on the clock."""
        samples = len(payload)
        position = self._position
        ahead = position - self._media + (self._origin - self.delay.base) * CLOCK_RATE
        self._media += samples
        self._next_timestamp = (self._next_timestamp + samples) & 0xFFFF_FFFF
        if not -_BEHIND < ahead < _AHEAD:
            return self._adjust(payload, samples, ahead)
        self._position = position + samples
        return (AudioFrame(payload, position // SAMPLES_PER_MS, samples // SAMPLES_PER_MS),)

    def _adjust(self, payload: bytes, samples: int, ahead: float) -> Sequence[AudioFrame]:
        """Leave silence out, or add some, or discard what is far too much."""
        was_quiet, self._was_quiet = self._was_quiet, is_quiet(payload, self.quiet_codes)
        quiet = was_quiet and self._was_quiet
        if quiet and ahead >= samples:
            self.shortened += samples
            return _NOTHING
        if ahead > _MAX_AHEAD:
            self.discarded += 1
            return _NOTHING
        frames: list[AudioFrame] = []
        if quiet and ahead <= -_BEHIND:
            frames.append(self._made_up(_FILL, lost=False))
            self.lengthened += _FILL
        at_ms = self._position // SAMPLES_PER_MS
        self._position += samples
        frames.append(AudioFrame(payload, at_ms, samples // SAMPLES_PER_MS))
        return frames

    def _move(self, timestamp: int, now: float, frames: list[AudioFrame]) -> bool:
        """
        Go to a packet that does not join its predecessor; put what is missing into ``frames``.

        Returns:
            Whether the packet is to be heard; one that repeats what was heard is not.
        """
        hole = timestamp_delta(timestamp, self._next_timestamp)
        if -_REPEATED <= hole < 0 and self._repeats(_REPEATS):
            self.repeated += 1
            return False
        lost, self._lost_before = self._lost_before, False
        filled, self._filled = self._filled, 0
        self._next_timestamp = timestamp
        self._media += hole
        if hole < 0 or self._position - filled + hole > self._clock(now) + _EARLY:
            self.delay.restart()  # the sender's clock jumped: its packet stands where we are
            self.delay.note(self._media, now)
        elif hole > filled:
            self._leave(hole - filled, frames, lost=lost)
        else:  # the output becomes longer by what came after its time was filled
            self.concealed += filled - hole
        if lost:
            self.concealed += min(max(hole, 0), filled)
        return True

    def _repeats(self, most: int) -> bool:
        """Count a repeat; ``False`` when nothing else comes any more."""
        at, count = self._repeat
        self._repeat = (self._media, count + 1 if at == self._media else 1)
        return self._repeat[1] <= most

    def _leave(self, missing: int, frames: list[AudioFrame], *, lost: bool) -> None:
        """Make up for what did not come: for all that was lost, for silence as far as the clock says."""
        if lost:
            self.concealed += missing
        else:
            behind = self._media - self._position + (self.delay.base - self._origin) * CLOCK_RATE
            kept = min(missing, max(0, round(behind)))
            self.shortened += missing - kept
            missing = kept
        if missing > _MAX_GAP:
            self._position += missing - _MAX_GAP
            missing = _MAX_GAP
        if missing >= SAMPLES_PER_MS:
            frames.append(self._made_up(missing, lost=lost))

    def _made_up(self, samples: int, *, lost: bool) -> AudioFrame:
        at_ms = self._position // SAMPLES_PER_MS
        self._position += samples
        return AudioFrame(b"", at_ms, samples // SAMPLES_PER_MS, lost)

    def _clock(self, now: float) -> int:
        """The position that ``now`` has by our own clock."""
        return round((now - self._origin) * CLOCK_RATE)
