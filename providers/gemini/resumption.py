"""
When a session moves to another connection, and when it cannot.

A connection of Gemini Live lasts about ten minutes, and its session any number of them: the server gives
handles, says ``goAway`` about a minute before it closes, and another connection goes on with the latest
handle. It accepts one only when the old socket is closed (else 1011), and some hard limits are not announced
at all (fault 27): so a session also has an age at which it asks for a successor.

Computes only: time comes in as ``now``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Limits in seconds."""

    before_deadline: float = 5.0
    """How long before the end of a connection it is left in any case."""
    warning: float = 45.0
    """What a ``goAway`` without a time is taken for."""
    budget: float = 30.0
    """How long resuming is tried while nobody waits for an answer."""
    urgent_budget: float = 1.5
    """The same while the caller waits: then another session is sooner there."""
    first_wait: float = 0.5
    longest_wait: float = 4.0
    stay: float = 5.0
    """A connection that resumed a session is kept for so long: a server may send away each one at once."""
    refusals: int = 2
    """Handles are refused for good after so many times."""
    losses: int = 3
    """Connections of one session may break so often ..."""
    losses_within: float = 60.0
    """... in so many seconds; then it is the session that breaks them (fault 24)."""
    hand_over_within: float = 60.0
    """How long before its limit a session asks for a successor."""


class Resumption:
    """
    The handle of a session, the end of its connection, and the attempts to go on.

    Args:
        limit: Age in seconds at which the session should be over.
        plan: The other limits.
    """

    def __init__(self, limit: float, plan: Plan | None = None) -> None:
        self.handle = ""
        """The latest that the server said it can resume."""
        self._plan = plan or Plan()
        self._limit = limit
        self._hand_over_at: float | None = None
        self._deadline: float | None = None
        self._wanted = False
        self._told = False
        self._stays_until: float | None = None
        self._doubted = False
        self._until = 0.0
        self._wait = 0.0
        self._refused = 0
        self._urgent = False
        self._losses: deque[float] = deque(maxlen=self._plan.losses)

    # What the server says.

    def begin(self, now: float) -> None:
        """Note that the session began."""
        self._hand_over_at = now + max(0.0, self._limit - self._plan.hand_over_within)

    def update(self, handle: str, *, resumable: bool) -> bool:
        """Take a handle; one that is not resumable says only that the last one still is the best."""
        if resumable and handle:
            self.handle = handle
            return True
        return False

    def go_away(self, after: float | None, now: float) -> None:
        """Note that the connection will be closed."""
        self._deadline = now + (self._plan.warning if after is None else after)

    def want(self) -> None:
        """Ask for another connection at the next quiet moment, though this one lives."""
        self._wanted = True

    # When to move.

    @property
    def moving(self) -> bool:
        """Whether another connection is wanted as soon as it may be."""
        return self._wanted or self._deadline is not None

    def due(self, now: float, *, quiet: bool) -> bool:
        """Say whether to leave this connection now, for a new one of the same session."""
        if self._stays_until is not None:
            if now < self._stays_until:
                return False
            self._stays_until = None
        if not self.handle:
            return False
        if self._deadline is not None and now >= self._deadline - self._plan.before_deadline:
            return True
        return quiet and self.moving

    def ending(self, now: float) -> float | None:
        """Return, once, after how many seconds the session will be over and cannot be resumed."""
        if self._told:
            return None
        if self._hand_over_at is not None and now >= self._hand_over_at:
            self._told = True
            return self._plan.hand_over_within
        if self._deadline is not None and not self.handle:
            self._told = True
            return max(0.0, self._deadline - now)
        return None

    def next_timeout(self) -> float | None:
        """When :meth:`due` or :meth:`ending` may have changed by time alone."""
        times: list[float] = []
        if self._hand_over_at is not None and not self._told:
            times.append(self._hand_over_at)
        if self.moving and self._stays_until is not None:
            times.append(self._stays_until)
        elif self._deadline is not None and self.handle:
            times.append(self._deadline - self._plan.before_deadline)
        return min(times, default=None)

    # The attempts.

    def may_resume(self, now: float) -> bool:
        """Note that a connection broke; say whether the session is worth another one."""
        self._losses.append(now)
        often = len(self._losses) == self._plan.losses
        return bool(self.handle) and not (often and now - self._losses[0] < self._plan.losses_within)

    def start(self, now: float, *, urgent: bool) -> None:
        """Begin to look for another connection; ``urgent`` when somebody waits for words."""
        self._urgent = urgent
        self._until = now + (self._plan.urgent_budget if urgent else self._plan.budget)
        self._wait = self._plan.first_wait
        self._refused = 0

    def patience(self, now: float, most: float) -> float:
        """How long the next attempt may take, where ``most`` is what is usual."""
        return max(0.05, min(most, self._until - now))

    def failed(self, now: float, *, refused: bool) -> float | None:
        """
        Say how long to wait before the next attempt, or ``None`` to give up.

        Args:
            now: Seconds.
            refused: Whether the server refused the handle, and did not just fail to answer.
        """
        self._refused += refused
        if self._urgent or self._refused >= self._plan.refusals or now + self._wait >= self._until:
            return None
        wait, self._wait = self._wait, min(self._wait * 2, self._plan.longest_wait)
        return wait

    def doubt(self, now: float) -> float | None:
        """Return, once, for how many seconds it is tried, when the first attempt has failed."""
        if self._doubted:
            return None
        self._doubted = True
        return max(0.0, self._until - now)

    def opened(self, now: float) -> None:
        """Note that another connection stands."""
        self._stays_until = now + self._plan.stay
        self._deadline = None
        self._wanted = False
        self._doubted = False
