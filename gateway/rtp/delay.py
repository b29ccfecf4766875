"""
How late packets come, and how long one that is missing is worth waiting for (no I/O).

A packet's transit is its arrival less its place on the sender's clock. The fastest packet of the last
seconds is the base, so that a clock that drifts or a route that changed is followed; what another packet
takes longer is its delay. The target is the longest delay of the last ten seconds with a margin: it grows
with the packet that shows the need, and shrinks a little every two seconds.
"""

from __future__ import annotations

from typing import NamedTuple

CLOCK_RATE = 8000

TURN_S = 2.0
_PEAKS = 5
"""Turns whose longest delay counts."""
_MARGIN_S = 0.01
_SHRINK_S = 0.01
"""What the target loses at most in one turn."""
_JUMP_S = 1.0
_EARLY_S = 0.25
"""No packet is so much faster than all others: the sender's clock jumped."""


class JitterLimits(NamedTuple):
    """What the target stays within, in ms."""

    min_ms: int = 40
    max_ms: int = 200


DEFAULT_LIMITS = JitterLimits()


class DelayTracker:
    """
    Delay and jitter of one stream.

    Args:
        limits: Of the target.
    """

    __slots__ = (
        "_before",
        "_fewest",
        "_longest",
        "_low",
        "_peak",
        "_peaks",
        "_transit",
        "_turn_at",
        "base",
        "count",
        "jitter",
        "target",
        "total",
    )

    def __init__(self, limits: JitterLimits) -> None:
        self._fewest = limits.min_ms / 1000
        self._longest = limits.max_ms / 1000
        self.target = self._fewest
        """How long after the fastest packet the one of the same moment is given up, in seconds."""
        self.jitter = 0.0
        """Interarrival jitter in samples (RFC 3550, section 6.4.1)."""
        self.total = 0.0
        """Sum of all delays, in seconds."""
        self.count = 0
        self.restart()

    def restart(self) -> None:
        """Begin with another clock of the sender; the target stays."""
        self.base = self._low = self._before = float("inf")
        """Transit of the fastest packet."""
        self._transit: float | None = None
        self._peak = 0.0
        self._peaks: tuple[float, ...] = ()
        self._turn_at = float("inf")

    def note(self, position: int, now: float) -> float:
        """Take an audio packet by its place in samples; return its delay in seconds."""
        transit = now - position / CLOCK_RATE
        previous = self._transit
        self._transit = transit
        if previous is not None:
            distance = transit - previous if transit > previous else previous - transit
            if distance >= _JUMP_S or transit < self.base - _EARLY_S:
                self.restart()  # a jump of the sender's clock is no jitter
                self._transit = transit
            else:
                self.jitter += (distance * CLOCK_RATE - self.jitter) / 16
        if now >= self._turn_at:
            self._turn(now)
        if transit < self._low:
            self._low = transit
            if transit < self.base:
                self._turn_at = min(self._turn_at, now + TURN_S)
                self.base = transit
        delay = transit - self.base
        if delay > self._peak:
            self._note_peak(delay)
        self.total += delay
        self.count += 1
        return delay

    @property
    def mean_s(self) -> float:
        """The mean delay of all packets."""
        return self.total / self.count if self.count else 0.0

    def _note_peak(self, delay: float) -> None:
        if delay > self._longest:
            return  # nothing could wait so long; if it lasts, it becomes the base
        self._peak = delay
        if delay + _MARGIN_S > self.target:
            self.target = min(delay + _MARGIN_S, self._longest)

    def _turn(self, now: float) -> None:
        self.base = min(self._low, self._before)
        self._before, self._low = self._low, float("inf")
        self._peaks = (*self._peaks, self._peak)[-_PEAKS:]
        self._peak = 0.0
        self._turn_at = now + TURN_S
        needed = max(max(self._peaks) + _MARGIN_S, 2 * self.jitter / CLOCK_RATE, self._fewest)
        if needed < self.target:
            self.target = max(needed, self.target - _SHRINK_S)
