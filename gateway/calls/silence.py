"""
A caller who says nothing (no I/O, time is an argument): asked again, and in the end taken leave of.

Silence counts while neither side speaks, nothing is playing or due, no tool runs and the line is not on hold.
Speech, written words and keys of the caller begin it anew. The agent's own question does not: it only takes
its time, so the call of a caller who went away ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Act(Enum):
    NUDGE = "ask whether the caller is there"
    HANG_UP = "take leave and hang up"


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """
    Seconds of silence.

    Args:
        nudge_after: After which the caller is asked; ``None`` for never.
        nudges: How often.
        hang_up_after: After which the call is ended, all silences between the questions added up;
            ``None`` for never.
    """

    nudge_after: float | None
    nudges: int
    hang_up_after: float | None

    def stages(self) -> list[tuple[float, Act]]:
        """What is to be done, each after so much silence since the one before."""
        stages: list[tuple[float, Act]] = []
        passed = 0.0
        end = self.hang_up_after
        if self.nudge_after is not None:
            for _ in range(self.nudges):
                if end is not None and passed + self.nudge_after >= end:
                    break
                passed += self.nudge_after
                stages.append((self.nudge_after, Act.NUDGE))
        if end is not None:
            stages.append((end - passed, Act.HANG_UP))
        return stages


class CallerSilence:
    """Counts the silence of one call."""

    def __init__(self, limits: SilenceLimits, *, now: float) -> None:
        self._stages = limits.stages()
        self._next = 0
        self._quiet_since = now
        self._over = False

    def caller_active(self, *, now: float) -> None:
        """Note that the caller did something: all begins anew."""
        self._next = 0
        self._quiet_since = max(self._quiet_since, now)

    def active(self, *, now: float) -> None:
        """Note that something else happened, or goes on: a tool, the agent's voice, a hold."""
        self._quiet_since = max(self._quiet_since, now)

    def stop(self) -> None:
        """Count no more: the call ends, or somebody else has the caller."""
        self._over = True

    def resume(self, *, now: float) -> None:
        """Count again, from the beginning."""
        self._over = False
        self._next = 0
        self._quiet_since = now

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`; a time that lies too early is harmless."""
        if self._over or self._next >= len(self._stages):
            return None
        return self._quiet_since + self._stages[self._next][0]

    def handle_timeout(self, *, now: float) -> Act | None:
        """Say what is to be done now, if anything."""
        at = self.next_timeout()
        if at is None or now < at:
            return None
        _, act = self._stages[self._next]
        self._next += 1
        self._quiet_since = now
        return act
