"""
Reordering with a limited wait.

The buffer adds no delay to packets that come in order: they pass at once, because what listens to them
is no loudspeaker. A packet that is ahead of its turn waits for the missing ones until it is due itself,
which its owner says; what is still missing then is a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.rtp.packet import sequence_delta

MAX_HELD = 64
_HISTORY = 64
_BITS = (1 << _HISTORY) - 1
_ROUNDING_S = 0.0005
"""So that a tick on the 20 ms grid does not miss a moment by rounding."""


class Slot(NamedTuple):
    """A packet whose turn it is."""

    sequence: int
    timestamp: int
    payload: bytes
    lost: int
    """Packets missing immediately before this one."""


class _Held(NamedTuple):
    timestamp: int
    payload: bytes
    arrived: float
    due: float


_NOTHING: tuple[Slot, ...] = ()


class JitterBuffer:
    """Packets of one SSRC in the order in which they were sent."""

    def __init__(self) -> None:
        self.late = 0
        """Packets that came after their place had been given up."""
        self.duplicates = 0
        self.lost = 0
        """Packets given up; one that comes late after all is counted as late, too."""
        self.gaps = 0
        """In how many pieces they were given up."""
        self.waited_s = 0.0
        """How long packets have waited for others, all together."""
        self.expected: int | None = None
        """The sequence number whose turn it is, ``None`` before the first packet."""
        self._held: dict[int, _Held] = {}
        self._due = 0.0  # of the packet that is due first
        self._delivered = 0  # bit n: sequence number expected - 1 - n was delivered

    @property
    def held(self) -> int:
        """How many packets wait behind a gap."""
        return len(self._held)

    def reset(self) -> None:
        """Forget the stream; the next packet begins a new one. Counters stay."""
        self.expected = None
        self._held.clear()
        self._delivered = 0

    def passes(self, sequence: int) -> bool:
        """Let a packet through whose turn it is and behind which nothing waits: the usual one."""
        if sequence != self.expected or self._held:
            return False
        self.expected = (sequence + 1) & 0xFFFF
        self._delivered = (self._delivered << 1 | 1) & _BITS
        return True

    def insert(
        self, sequence: int, timestamp: int, payload: bytes, now: float, wait_s: float
    ) -> Sequence[Slot]:
        """Take a packet, which waits for others at most ``wait_s``, and return what is ready, in order."""
        if self.expected is None:
            self.expected = sequence
        if self.passes(sequence):
            return (Slot(sequence, timestamp, payload, 0),)
        delta = sequence_delta(sequence, self.expected)
        if delta < 0:
            self._note_old(-delta - 1)
            return _NOTHING
        if delta == 0:
            self.expected = (sequence + 1) & 0xFFFF
            self._delivered = (self._delivered << 1 | 1) & _BITS
            ready = [Slot(sequence, timestamp, payload, 0)]
            self._drain(ready, now)
            return ready
        if sequence in self._held:
            self.duplicates += 1
            return _NOTHING
        due = now + max(wait_s, 0.0)
        self._due = min(self._due, due) if self._held else due
        self._held[sequence] = _Held(timestamp, payload, now, due)
        return self.expire(now)

    def expire(self, now: float) -> Sequence[Slot]:
        """Give up what did not come in time and return what waited behind it."""
        if not self._held:
            return _NOTHING
        ready: list[Slot] = []
        while self._held and (len(self._held) > MAX_HELD or now + _ROUNDING_S >= self._due):
            self._give_up(ready, now)
        return ready

    def next_timeout(self) -> float | None:
        """When to call :meth:`expire`."""
        return self._due if self._held else None

    def _give_up(self, ready: list[Slot], now: float) -> None:
        assert self.expected is not None
        lost = min(sequence_delta(sequence, self.expected) for sequence in self._held)
        sequence = (self.expected + lost) & 0xFFFF
        held = self._held.pop(sequence)
        self.waited_s += now - held.arrived
        self.lost += lost
        self.gaps += 1
        self.expected = (sequence + 1) & 0xFFFF
        self._delivered = (self._delivered << lost + 1 | 1) & _BITS if lost < _HISTORY else 1
        ready.append(Slot(sequence, held.timestamp, held.payload, lost))
        self._drain(ready, now)

    def _drain(self, ready: list[Slot], now: float) -> None:
        assert self.expected is not None
        while (held := self._held.pop(self.expected, None)) is not None:
            self.waited_s += now - held.arrived
            ready.append(Slot(self.expected, held.timestamp, held.payload, 0))
            self.expected = (self.expected + 1) & 0xFFFF
            self._delivered = (self._delivered << 1 | 1) & _BITS
        if self._held:
            self._due = min(held.due for held in self._held.values())

    def _note_old(self, age: int) -> None:
        if age < _HISTORY and self._delivered >> age & 1:
            self.duplicates += 1
        else:
            self.late += 1
