"""
When a call has lasted or cost enough (no I/O, time is an argument).

Both limits end a call the same way: a while before, :class:`LimitNear` tells those who watch; then the agent
is asked for a goodbye (:class:`LimitReached`); if it has not come after :data:`GOODBYE_S`, the call ends
without it (:class:`GoodbyeMissing`). The limit that is reached first counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

NEAR = 0.8
"""The part of a limit at which it is near."""
NEAR_S = 60.0
"""The duration is near its limit at most so long before."""
GOODBYE_S = 20.0
"""How long the agent may take to say goodbye."""
TIME_IS_OVER = (
    "The time of this call is over. Say goodbye in one short sentence, in the language of the conversation."
)
"""How it is asked to."""
MOMENT_S = 4.0
"""How long it may take when the answer before it is complete, or the two were one."""


class Limit(StrEnum):
    """A limit of a call; the value is the reason in its record."""

    DURATION = "duration_limit"
    COST = "cost_limit"


@dataclass(frozen=True, slots=True)
class LimitNear:
    """A limit will be reached soon."""

    limit: Limit
    used: float
    """Seconds, or US dollars."""
    allowed: float


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The call is to end now: ask for a goodbye."""

    limit: Limit
    used: float
    allowed: float


@dataclass(frozen=True, slots=True)
class GoodbyeMissing:
    """The call is over, goodbye or not."""

    limit: Limit


LimitEvent: TypeAlias = LimitNear | LimitReached | GoodbyeMissing


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a call may use; ``None`` for no limit."""

    max_duration_s: float | None
    """From the answer on."""
    max_cost_usd: Decimal | None
    """What the models may cost."""


class LimitWatch:
    """
    Watches both limits of one call.

    Args:
        allowed: The limits.
        now: When the call was answered.
    """

    def __init__(self, allowed: Allowed, *, now: float) -> None:
        self._duration = duration = allowed.max_duration_s
        self._cost = allowed.max_cost_usd
        self._began = now
        self._near_at = now + max((duration or 0.0) * NEAR, (duration or 0.0) - NEAR_S)
        self._told: set[Limit] = set()
        self._reached: Limit | None = None
        self._over_at: float | None = None
        self._events: list[LimitEvent] = []

    @property
    def reached(self) -> Limit | None:
        """The limit for which the agent was asked to say goodbye."""
        return self._reached

    def spend(self, cost: Decimal, *, now: float) -> None:
        """Take what the call has cost so far, as far as it is known."""
        if self._cost is None or self._reached is not None:
            return
        if cost >= self._cost:
            self._reach(Limit.COST, float(cost), float(self._cost), now)
        elif float(cost) >= NEAR * float(self._cost):
            self._near(Limit.COST, float(cost), float(self._cost))

    def handle_timeout(self, *, now: float) -> None:
        """Fire what is due; calling early is harmless."""
        if self._reached is not None and self._over_at is not None and now >= self._over_at:
            self._over_at = None
            self._events.append(GoodbyeMissing(self._reached))
        if self._duration is None or self._reached is not None:
            return
        used = round(now - self._began, 3)
        if now >= self._began + self._duration:
            self._reach(Limit.DURATION, used, self._duration, now)
        elif now >= self._near_at:
            self._near(Limit.DURATION, used, self._duration)

    def expect_goodbye(self, *, now: float) -> None:
        """Wait for the goodbye only a moment longer: it may have been said together with an answer."""
        if self._over_at is not None:
            self._over_at = min(self._over_at, now + MOMENT_S)

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        if self._reached is not None:
            return self._over_at
        if self._duration is None:
            return None
        return self._began + self._duration if Limit.DURATION in self._told else self._near_at

    def events(self) -> list[LimitEvent]:
        """Take what happened."""
        events, self._events = self._events, []
        return events

    def _reach(self, limit: Limit, used: float, allowed: float, now: float) -> None:
        self._reached, self._over_at = limit, now + GOODBYE_S
        self._events.append(LimitReached(limit, used, allowed))

    def _near(self, limit: Limit, used: float, allowed: float) -> None:
        if limit not in self._told:
            self._told.add(limit)
            self._events.append(LimitNear(limit, used, allowed))
