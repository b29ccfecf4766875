"""
What a running call may still use: reads the sessions' usage and obeys the limits.

The sums are made by :mod:`gateway.calls.cost`, the decisions by :mod:`gateway.calls.limits`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gateway.calls import events as ev
from gateway.calls.cost import Account, Bill
from gateway.calls.limits import Allowed, LimitEvent, LimitNear, LimitReached, LimitWatch
from gateway.calls.report import Report
from providers.base import ProviderSession

LOOK_S = 2.0
"""How often usage is read where the provider does not say that it has changed."""


class Budget:
    """
    Watches one call.

    Args:
        account: Sums what its sessions consume.
        allowed: How much is enough.
        report: Takes the call's events.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, account: Account, allowed: Allowed, report: Report, clock: Callable[[], float]
    ) -> None:
        self._account = account
        self._allowed = allowed
        self._limits: LimitWatch | None = None
        self._report = report
        self._clock = clock
        self._told = Bill()
        self._changed = asyncio.Event()

    def follow(self, provider: str, session: ProviderSession) -> None:
        """Count a session from now on, also when it is closed."""
        self._account.follow(provider, lambda: session.usage)

    def look(self) -> None:
        """Say that usage has probably changed."""
        self._changed.set()

    def expect_goodbye(self) -> None:
        """Say that the goodbye comes soon, or was said already."""
        if self._limits is not None:
            self._limits.expect_goodbye(now=self._clock())
            self._changed.set()

    def settle(self) -> Bill:
        """Publish what the call has consumed, if that is more than was published, and return it."""
        bill = self._account.bill()
        if bill != self._told:
            self._report(ev.CostChanged, bill, bill.since(self._told))
            self._told = bill
        return bill

    async def run(self, act: Callable[[LimitEvent], Awaitable[None]]) -> None:
        """Watch from now on, for ever; ``act`` carries out what a limit asks for."""
        limits = self._limits = LimitWatch(self._allowed, now=self._clock())
        while True:
            self._changed.clear()
            self.settle()
            now = self._clock()
            limits.spend(self._told.known, now=now)
            limits.handle_timeout(now=now)
            for event in limits.events():
                if isinstance(event, LimitNear | LimitReached):
                    reached = isinstance(event, LimitReached)
                    self._report(ev.LimitTold, str(event.limit), reached, event.used, event.allowed)
                await act(event)
            await self._pause(limits.next_timeout())

    async def _pause(self, due: float | None) -> None:
        wait = LOOK_S if due is None else min(max(due - self._clock(), 0.0), LOOK_S)
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            pass
