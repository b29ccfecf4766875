"""
Whether a peer is alive, judged by its answers to OPTIONS (RFC 3261, section 11; no I/O).

The owner asks :meth:`Qualification.next_timeout`, sends an OPTIONS when :meth:`handle_timeout` says so, and
reports the answer. Any final answer shows that somebody is there, also a 404 or a 403; only a 503, which
means "send nothing here" (section 21.5.4), and silence count against the peer.

One lost packet is no outage: a state changes only after several answers that agree, and while it is in
doubt the peer is asked more often.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias


class Reach(StrEnum):
    """What is known of a peer."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Reached:
    """The peer answers; ``latency_ms`` of the answer that decided."""

    latency_ms: float


@dataclass(frozen=True, slots=True)
class Lost:
    """The peer does not answer, or says that it cannot serve; ``status`` is 408 for silence."""

    status: int
    reason: str


ReachEvent: TypeAlias = Reached | Lost

AGREE: Final = 2
"""Answers in a row that change a known state."""
DOUBT_S: Final = 5.0
"""Pause between questions while an answer contradicts the state."""


class Qualification:
    """
    One peer.

    Args:
        every: Seconds between questions.
        now: When to begin: the first question is due at once.
    """

    def __init__(self, *, every: float, now: float) -> None:
        self.state = Reach.UNKNOWN
        self.latency_ms: float | None = None
        """Of the last answer; ``None`` while there is none."""
        self._every = every
        self._against = 0
        self._due: float | None = now
        self._asked = now
        self._events: list[ReachEvent] = []

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`; ``None`` while an answer is awaited."""
        return self._due

    def handle_timeout(self, *, now: float) -> bool:
        """Return whether to ask now."""
        if self._due is None or now < self._due:
            return False
        self._due, self._asked = None, now
        return True

    def answered(self, status: int, reason: str, *, now: float) -> None:
        """Take the final answer to the question; 408 stands for none."""
        if self._due is not None:
            return  # an answer to a question that was given up
        if status in {408, 503}:
            self.latency_ms = None
            self._judge(Reach.DOWN, Lost(status, reason), now)
        else:
            self.latency_ms = (now - self._asked) * 1000
            self._judge(Reach.UP, Reached(self.latency_ms), now)

    def events(self) -> list[ReachEvent]:
        """Take the changes of state."""
        ready, self._events = self._events, []
        return ready

    def _judge(self, seen: Reach, event: ReachEvent, now: float) -> None:
        self._against = self._against + 1 if seen is not self.state else 0
        if self._against >= (1 if self.state is Reach.UNKNOWN else AGREE):
            self.state, self._against = seen, 0
            self._events.append(event)
        self._due = now + (min(self._every, DOUBT_S) if self._against else self._every)
