"""
Reordering with a limited wait.

The buffer adds no delay to packets that come in order: they pass at once. A packet that is ahead of its
time waits for the missing ones, 40 ms at first. A packet that came too late for that raises the wait up
to 60 ms; a long time without one lowers it again. What is still missing then is a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.rtp.packet import sequence_delta

MIN_WAIT_MS = 40
MAX_WAIT_MS = 60
MAX_HELD = 64
_STEP_MS = 5
_CALM_S = 10.0
_HISTORY = 64


class Slot(NamedTuple):
    """A packet whose turn it is."""

    sequence: int
    timestamp: int
    payload: bytes
    lost: int
    """Packets missing immediately before this one."""


_NOTHING: tuple[Slot, ...] = ()


class JitterBuffer:
    """Packets of one SSRC in the order in which they were sent."""

    def __init__(self) -> None:
        self.late = 0
        """Packets that came after their place had been given up."""
        self.duplicates = 0
        self.lost = 0
        """Packets given up; one that comes late after all is counted as late, too."""
        self.wait_ms = MIN_WAIT_MS
        self._expected: int | None = None
        self._held: dict[int, tuple[int, bytes, float]] = {}
        self._since = 0.0  # when the first packet behind the present gap came
        self._delivered = 0  # bit n: sequence number expected - 1 - n was delivered
        self._adapted_at = 0.0  # when the wait was changed last, or a packet was late

    @property
    def held(self) -> int:
        """How many packets wait behind a gap."""
        return len(self._held)

    @property
    def expected(self) -> int | None:
        """The sequence number whose turn it is, ``None`` before the first packet."""
        return self._expected

    def reset(self) -> None:
        """Forget the stream; the next packet begins a new one. Counters and the wait stay."""
        self._expected = None
        self._held.clear()
        self._delivered = 0

    def insert(self, sequence: int, timestamp: int, payload: bytes, now: float) -> Sequence[Slot]:
        """Take a packet and return what is ready, in order."""
        if self._expected is None:
            self._expected = sequence
        delta = sequence_delta(sequence, self._expected)
        if delta == 0:
            self._expected = (sequence + 1) & 0xFFFF
            self._delivered = (self._delivered << 1 | 1) & 0xFFFF_FFFF_FFFF_FFFF
            slot = Slot(sequence, timestamp, payload, 0)
            if not self._held:
                return (slot,)
            ready = [slot]
            self._drain(ready)
            return ready
        if delta < 0:
            self._note_old(-delta - 1, now)
            return _NOTHING
        if sequence in self._held:
            self.duplicates += 1
            return _NOTHING
        if not self._held:
            self._since = now
            self._relax(now)
        self._held[sequence] = (timestamp, payload, now)
        return self.expire(now)

    def expire(self, now: float) -> Sequence[Slot]:
        """Give up what did not come in time and return what waited behind it."""
        if not self._held:
            return _NOTHING
        ready: list[Slot] = []
        # Half a millisecond, so that a tick on the 20 ms grid does not miss the deadline by rounding.
        while self._held and (len(self._held) > MAX_HELD or (now - self._since) * 1000 + 0.5 >= self.wait_ms):
            self._give_up(ready)
        return ready

    def next_timeout(self) -> float | None:
        """When to call :meth:`expire`."""
        return self._since + self.wait_ms / 1000 if self._held else None

    def _give_up(self, ready: list[Slot]) -> None:
        assert self._expected is not None
        lost = min(sequence_delta(sequence, self._expected) for sequence in self._held)
        sequence = (self._expected + lost) & 0xFFFF
        timestamp, payload, _ = self._held.pop(sequence)
        self.lost += lost
        self._expected = (sequence + 1) & 0xFFFF
        self._delivered = (self._delivered << lost + 1 | 1) & 0xFFFF_FFFF_FFFF_FFFF if lost < _HISTORY else 1
        ready.append(Slot(sequence, timestamp, payload, lost))
        self._drain(ready)

    def _drain(self, ready: list[Slot]) -> None:
        assert self._expected is not None
        while (waiting := self._held.pop(self._expected, None)) is not None:
            ready.append(Slot(self._expected, waiting[0], waiting[1], 0))
            self._expected = (self._expected + 1) & 0xFFFF
            self._delivered = (self._delivered << 1 | 1) & 0xFFFF_FFFF_FFFF_FFFF
        if self._held:
            self._since = min(arrived for _, _, arrived in self._held.values())

    def _note_old(self, age: int, now: float) -> None:
        if age < _HISTORY and self._delivered >> age & 1:
            self.duplicates += 1
            return
        self.late += 1
        self._adapted_at = now
        self.wait_ms = min(self.wait_ms + _STEP_MS, MAX_WAIT_MS)

    def _relax(self, now: float) -> None:
        if self.wait_ms > MIN_WAIT_MS and now - self._adapted_at > _CALM_S:
            self._adapted_at = now
            self.wait_ms -= _STEP_MS
