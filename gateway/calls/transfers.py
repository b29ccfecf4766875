"""
How a caller is handed over to somebody else: by the trunk (REFER), or by a call of ours and a relay.

Whatever goes wrong comes back as an :class:`Outcome` with its reason, and the caller's line is as it was:
whoever asked goes on with the caller. Only a confirmed outcome counts as a transfer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from config.transfers import TransferMethod
from gateway.calls import events as ev
from gateway.calls.dialling import NotReached, Order, reach
from gateway.calls.joined import BRIDGE, Joined
from gateway.calls.report import Report
from gateway.legs.base import UNSUPPORTED, CallLeg, Dialler, TransferProgress, TransferState
from gateway.media.tones import ringback, tone

log = structlog.get_logger(__name__)

REFER = "refer"
"""The method of a transfer that the trunk does, as records and metrics name it."""


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """What an agent's and a trunk's settings say about one call's transfers."""

    method: TransferMethod
    trunk: str | None
    """The trunk for our own calls; ``None`` lets the dialler choose."""
    ours: str
    """Our number: whom the called party sees."""
    numbers: frozenset[str]
    """Everybody whom the agent may transfer to."""
    ring_s: float
    decide_s: float
    bridge_max_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a transfer ended."""

    confirmed: bool
    method: str
    status: int = 0
    reason: str = ""


class Transfers:
    """
    The transfers of one call, one at a time.

    Args:
        leg: The caller's line, answered.
        dialler: Makes our own calls.
        plan: The settings.
        report: Takes the call's events.
    """

    def __init__(self, *, leg: CallLeg, dialler: Dialler, plan: TransferPlan, report: Report) -> None:
        self.leg = leg
        self.plan = plan
        self.gone = asyncio.Event()
        """To be set when the caller is gone: then nobody is called any more."""
        self.joined: Joined | None = None
        """The two lines, once they are joined: whoever owns the call runs them to their end."""
        self._dialler = dialler
        self._report = report

    async def cold(self, number: str) -> Outcome:
        """Hand the caller over to a number or SIP URI, by the way that the settings say."""
        has_route = self._dialler.has_route(self.leg.info.trunk, self.plan.trunk)
        match self.plan.method:
            case "bridge":
                return await self._bridge(number)
            case "auto" if has_route and not self.leg.takes_transfer:
                return await self._bridge(number)
            case _:
                pass
        last = await self._refer(number)
        if last.state is TransferState.CONFIRMED:
            return Outcome(confirmed=True, method=REFER, status=last.status)
        refused = Outcome(confirmed=False, method=REFER, status=last.status, reason=last.reason)
        if last.reason != UNSUPPORTED:
            return self._told(number, refused)
        if self.plan.method == "auto" and has_route:
            log.info("call.refer_refused", status=last.status, then=BRIDGE)
            return await self._bridge(number)
        return self._told(number, refused)

    async def reach(self, number: str, gone: asyncio.Event, *, hold: bytes = b"") -> CallLeg | NotReached:
        """
        Call somebody for the caller, who hears ringing meanwhile.

        Args:
            number: Whom.
            gone: Set when there is no caller any more.
            hold: What the caller hears instead: one period, in the line's format.
        """
        order = Order(
            number=number,
            ours=self.plan.ours,
            trunk=self.plan.trunk,
            ring_s=self.plan.ring_s,
            sound=hold or tone(ringback(number), self.leg.format),
            early_media=not hold,
        )
        return await reach(order, caller=self.leg, dialler=self._dialler, gone=gone)

    def join(self, callee: CallLeg) -> None:
        """Join the caller and a colleague, at once."""
        self.joined = Joined(
            self.leg,
            callee,
            reach=self.reach,
            numbers=self.plan.numbers,
            report=self._report,
            limit_s=self.plan.bridge_max_s,
        )

    def tell(self, state: TransferState, number: str, method: str, status: int = 0, reason: str = "") -> None:
        """Report a step."""
        self._report(ev.TransferChanged, state.value, number, status, reason, method)

    async def _bridge(self, number: str) -> Outcome:
        self.tell(TransferState.REDIRECTING, number, BRIDGE)
        found = await self.reach(number, self.gone)
        if isinstance(found, NotReached):
            return self._told(number, Outcome(False, BRIDGE, found.status, found.reason))
        self.join(found)
        return self._told(number, Outcome(confirmed=True, method=BRIDGE, status=200))

    async def _refer(self, number: str) -> TransferProgress:
        """Let the line do it, report each step but a failure once, and return the last."""
        last, last_told = TransferProgress(TransferState.FAILED, reason="unknown"), None
        async for last in self.leg.transfer(number):
            if last.state is not last_told and last.state is not TransferState.FAILED:
                last_told = last.state
                self.tell(last.state, number, REFER, last.status, last.reason)
        return last

    def _told(self, number: str, outcome: Outcome) -> Outcome:
        state = TransferState.CONFIRMED if outcome.confirmed else TransferState.FAILED
        self.tell(state, number, outcome.method, outcome.status, outcome.reason)
        return outcome
