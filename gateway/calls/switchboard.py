"""
The switchboard: decides which calls come in, runs each in its own task, and drains.

It is the one place that catches whatever a call's code did not foresee: it says so once, with the
call id, and hangs up; no other call notices.
"""

from __future__ import annotations

import asyncio

import structlog

from gateway.calls.admission import Admission
from gateway.calls.call import Call, Services
from gateway.calls.plan import Plan
from gateway.calls.routing import NotRouted, Routed, Router
from gateway.legs.base import CallInfo, CallLeg, HangupCause
from gateway.legs.refusal import Refusal

log = structlog.get_logger(__name__)

RETRY_AFTER_S = 10


class Switchboard:
    """
    All calls of the process.

    Args:
        plans: What answers each number; :meth:`use` swaps it for the next call.
        admission: Counts calls.
        services: What all calls share.
    """

    def __init__(self, plans: Router[Plan], admission: Admission, services: Services) -> None:
        self._plans = plans
        self._admission = admission
        self._services = services
        self._calls: dict[str, Call] = {}
        self._group: asyncio.TaskGroup | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self._stop = asyncio.Event()

    def use(self, plans: Router[Plan], admission: Admission) -> None:
        """Serve the next call with a new configuration; running calls keep theirs."""
        admission.adopt(self._admission)
        self._plans = plans
        self._admission = admission

    @property
    def active(self) -> int:
        return self._admission.active

    def calls_on(self, trunk: str) -> int:
        """Calls now on one trunk, in both directions."""
        return self._admission.calls_on(trunk)

    def is_full(self, trunk: str) -> bool:
        """Whether a trunk carries as many calls as it may."""
        return self._admission.is_full(trunk)

    @property
    def draining(self) -> bool:
        return self._admission.draining

    def admit(self, info: CallInfo) -> Refusal | None:
        """Say whether a call may come in, before anything is allocated for it."""
        why = "starting" if self._group is None else self._admission.refusal(info.trunk)
        if why:
            return Refusal(503, "Service Unavailable", why, retry_after_s=RETRY_AFTER_S)
        route = self._route(info)
        if isinstance(route, NotRouted):
            log.warning("call.no_such_number", number=route.number, nearest=route.nearest, trunk=info.trunk)
            return Refusal(404, "Not Found", f"no agent for {route.number or 'a request without a number'}")
        return None

    def take(self, leg: CallLeg) -> None:
        """Serve a ringing leg that was admitted."""
        assert self._group is not None, "the switchboard is not running"
        route = self._route(leg.info)
        assert not isinstance(route, NotRouted), "admit() comes first"
        self._admission.enter(leg.info.trunk)
        call = self._calls[leg.info.id] = Call(leg, route.target, self._services)
        self._empty.clear()
        self._group.create_task(self._serve(leg.info, call), name=f"call {leg.info.id[:8]}")

    def _route(self, info: CallInfo) -> Routed[Plan] | NotRouted:
        """Find who answers: the number as it was dialled, in its one form, then whom the caller meant."""
        others = (info.parameters.get(name, "") for name in ("to", "registered_as"))
        return self._plans.route(info.parameters.get("called_raw", ""), info.called, *others)

    async def run(self) -> None:
        """Own the calls' tasks until :meth:`drain` is done."""
        async with asyncio.TaskGroup() as self._group:
            await self._stop.wait()

    async def drain(self, limit_s: float) -> None:
        """Take no more calls, let those that run finish, and end what is left after ``limit_s``."""
        self._admission.draining = True
        log.info("drain.began", calls=self.active, limit_s=limit_s)
        try:
            async with asyncio.timeout(limit_s):
                await self._empty.wait()
        except TimeoutError:
            await self.end_all()
        self._stop.set()
        log.info("drain.done")

    async def end_all(self) -> None:
        """Hang up every call now."""
        log.warning("drain.forced", calls=self.active)
        for call in list(self._calls.values()):
            await call.stop("drain", HangupCause.OVERLOADED)

    async def _serve(self, info: CallInfo, call: Call) -> None:
        try:
            await call.run()
        except Exception:
            # The safety net: a fault in one call ends that call, and is told once.
            log.exception("call.failed", call_id=info.id)
            await call.stop("failed", HangupCause.FAILED)
        finally:
            self._admission.leave(info.trunk)
            self._calls.pop(info.id, None)
            if not self._calls:
                self._empty.set()
