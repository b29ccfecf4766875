"""
One call's life: ring, open the session, answer, talk, end.

A :class:`Call` is one task of the switchboard's group; everything it opens is closed when
:meth:`Call.run` returns, on every path.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from config.agent_tools import TRANSFER_CALL
from config.recovery import shipped_prompt
from gateway.calls import events as ev
from gateway.calls.bridge import Bridge
from gateway.calls.budget import Budget
from gateway.calls.bus import EventBus
from gateway.calls.control import CallRequests
from gateway.calls.conversation import Conversation
from gateway.calls.cost import Account, dollars
from gateway.calls.ending import Ending
from gateway.calls.facts import other_spellings
from gateway.calls.greeting import Greeting, instructions, say_exactly
from gateway.calls.limits import Allowed
from gateway.calls.model import LiveModel
from gateway.calls.opening import Opened, Opener, Unavailable, open_session
from gateway.calls.plan import Plan
from gateway.calls.prompts import PromptError, Prompts
from gateway.calls.repair import Patience
from gateway.calls.report import Report
from gateway.calls.rounds import ToolRounds
from gateway.calls.silence import SilenceLimits
from gateway.calls.state import CallState, State
from gateway.calls.terms import BridgeSettings
from gateway.calls.transfers import Outcome, TransferPlan, Transfers
from gateway.calls.unavailable import turn_away
from gateway.calls.vigil import Vigil, VigilSettings
from gateway.dialogue.policy import CallPolicy
from gateway.legs.base import CallLeg, Dialler, HangupCause, HungUp, LegGone
from gateway.media.tones import WAITING, tone
from gateway.store.memory import MemoryLedger
from gateway.telemetry.logs import call_context
from providers.failover import Failover, History
from tools import CallInvocationContext, ToolDispatcher
from tools.dispatcher import ToolFailed
from tools.ports import AuditSink
from tools.types import AuditRecord, EndRequest, ToolStatus, TransferRequest

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """What all calls of the process share."""

    clock: Callable[[], float]
    bus: EventBus
    prompts: Prompts
    audit: AuditSink
    ledger: MemoryLedger
    dialler: Dialler
    failover: Failover


class Call:
    """
    One call, from its first ring.

    Args:
        leg: Ringing.
        plan: Who answers, and with what.
        services: What all calls share.
    """

    def __init__(self, leg: CallLeg, plan: Plan, services: Services) -> None:
        self._leg = leg
        self._plan = plan
        self._services = services
        self._state = CallState()
        self._policy = CallPolicy()
        self._report = Report(services.bus, leg.info.id, services.clock)
        info = leg.info
        self._context = CallInvocationContext(
            call_id=info.id,
            caller=info.caller,
            called=info.called,
            caller_spellings=other_spellings(info),
            parameters=info.parameters,
        )
        self._transfers = Transfers(
            leg=leg, dialler=services.dialler, plan=_transfer_plan(leg, plan), report=self._report
        )
        self._stopped = ""
        limits, prices = plan.agent.limits, plan.prices.on(datetime.now(UTC).date())
        self._budget = Budget(
            Account(prices, plan.models),
            Allowed(limits.max_duration_s, limits.max_cost_usd),
            self._report,
            services.clock,
        )
        self._vigil: Vigil | None = None

    async def stop(self, reason: str, cause: HangupCause) -> None:
        """End the call from outside; ``reason`` is what the record says."""
        self._stopped = reason
        await self._leg.hang_up(cause)

    async def run(self) -> None:
        """Serve the call to its end; raises only what nobody foresaw."""
        info, plan = self._leg.info, self._plan
        with call_context(info.id, info.trunk):
            log.info("call.ringing", caller=info.caller, called=info.called, agent=plan.agent_id)
            self._report(
                ev.CallStarted,
                time.time(),
                info.caller,
                info.called,
                info.trunk,
                plan.agent_id,
                self._leg.format,
                plan.organization_id,
                info.parameters,
            )
            reason, by = "failed", "gateway"
            try:
                reason, by = await self._serve()
            finally:
                if self._stopped:
                    reason, by = self._stopped, "gateway"
                self._state.enter(State.ENDED)
                self._services.ledger.forget(info.id)
                # The sessions are closed: this is the last word.
                bill = self._budget.settle()
                if (quality := self._leg.quality) is not None:
                    self._report(ev.MediaMeasured, quality)
                self._report(ev.CallEnded, reason, by)
                seconds = round(self._report.at, 3)
                log.info("call.ended", reason=reason, by=by, seconds=seconds, cost_usd=dollars(bill.total))

    async def _serve(self) -> tuple[str, str]:
        self._leg.listen_to_sent(self._frame_sent)
        self._state.enter(State.CONNECTING)
        services = self._services
        try:
            async with asyncio.TaskGroup() as group:
                name = self._leg.info.id[:8]
                opener = Opener(
                    self._plan.providers,
                    voices=self._plan.voices,
                    on_open=self._budget.follow,
                    failover=services.failover,
                    clock=services.clock,
                    group=group,
                    name=name,
                )
                try:
                    reason, by = await self._converse(opener)
                finally:
                    opener.close()
            # The sessions are closed by now: two people who were joined need no model.
            if self._transfers.joined is not None:
                log.info("call.joined", reason=reason)
                by = await self._transfers.joined.run()
        finally:
            if self._transfers.joined is not None:
                await self._transfers.joined.close()
        return reason, by

    async def _converse(self, opener: Opener) -> tuple[str, str]:
        opened = await self._unless_gone(opener)
        match opened:
            case HungUp():
                return opened.reason, "caller" if opened.by_caller else "gateway"
            case Unavailable():
                return await self._turn_away(opened)
            case Opened():
                return await self._talk(opened, opener)

    async def _unless_gone(self, opener: Opener) -> Opened | Unavailable | HungUp:
        """Open the session, but not for a caller who has given up meanwhile."""
        gone: list[HungUp] = []
        try:
            async with asyncio.timeout(None) as scope, asyncio.TaskGroup() as group:
                watch = group.create_task(self._watch(scope, gone), name=f"{self._leg.info.id[:8]} ringing")
                opened = await open_session(self._plan, self._leg.format, self._context, opener)
                watch.cancel()
        except TimeoutError:
            if not gone:
                raise
        return gone[0] if gone else opened

    async def _watch(self, scope: asyncio.Timeout, gone: list[HungUp]) -> None:
        async for event in self._leg.events():
            if isinstance(event, HungUp):
                gone.append(event)
                scope.reschedule(asyncio.get_running_loop().time())

    async def _turn_away(self, problem: Unavailable) -> tuple[str, str]:
        log.error("call.unavailable", reason=problem.reason, detail=problem.detail)
        try:
            outcome = await turn_away(
                self._leg,
                self._plan.agent.on_unavailable,
                self._services.prompts,
                self._report,
                self._transfers,
            )
        except LegGone:
            return await self._hung_up()
        if self._transfers.joined is not None:
            return f"unavailable_{outcome}", "gateway"
        _, by = await self._hung_up()
        return f"unavailable_{outcome}", "gateway" if outcome == "transferred" else by

    async def _hung_up(self) -> tuple[str, str]:
        """Say how the line went away; it has, or is about to."""
        async for event in self._leg.events():
            if isinstance(event, HungUp):
                return event.reason, "caller" if event.by_caller else "gateway"
        return "cancel", "caller"

    async def _talk(self, opened: Opened, opener: Opener) -> tuple[str, str]:
        try:
            settings = await self._bridge_settings()
            hold = await self._hold()
            await self._leg.answer()
        except LegGone:
            return await self._hung_up()
        self._state.enter(State.TALKING)
        first = opened.first
        self._report(ev.CallAnswered, first.provider)
        log.info("call.answered", provider=first.provider, setup_ms=round(self._report.at * 1000))
        model = LiveModel(first, opened.setup, History())
        self._vigil = Vigil(
            self._vigil_settings(),
            self._leg.format,
            first.session.capabilities,
            self._report,
            self._services.clock,
        )
        talk = Conversation(self._policy, self._plan.agent.max_tool_calls, model.output.bytes_per_ms)
        ending = Ending(
            leg=self._leg,
            model=model,
            policy=self._policy,
            state=self._state,
            report=self._report,
            transfers=self._transfers,
            hold=hold,
            on_transfer=self._audit_transfer,
            unheard_ms=lambda: talk.unheard_ms({item: self._leg.heard_ms(item) for item in talk.open_items}),
        )
        rounds = ToolRounds(self._dispatcher(opened), model, talk, ending, self._report)
        bridge = Bridge(
            leg=self._leg,
            model=model,
            opener=opener,
            rounds=rounds,
            talk=talk,
            ending=ending,
            budget=self._budget,
            vigil=self._vigil,
            settings=settings,
            report=self._report,
            clock=self._services.clock,
        )
        return self._outcome(await bridge.run(), ending)

    async def _bridge_settings(self) -> BridgeSettings:
        agent = self._plan.agent
        language = agent.language
        return BridgeSettings(
            greeting=await self._greeting(),
            recovery=agent.recovery,
            moment=await self._recording(agent.recovery.moment or shipped_prompt("moment", language)),
            apology=await self._recording(agent.apology or shipped_prompt("apology", language)),
            fallback=agent.on_unavailable.transfer,
            connecting=await self._recording(
                agent.recovery.connecting or shipped_prompt("connecting", language)
            ),
        )

    async def _greeting(self) -> Greeting | None:
        settings = self._plan.agent.greeting
        if settings is None:
            return None
        recording = b"" if settings.play is None else await self._recording(settings.play)
        # Where a recording cannot be read, which is told, the agent says its words.
        asked = instructions(settings) or say_exactly(settings.text or "")
        return Greeting(
            instructions=asked,
            recording=recording,
            text=settings.text or "",
            interruptible=settings.interruptible,
        )

    def _vigil_settings(self) -> VigilSettings:
        agent = self._plan.agent
        silence = agent.silence
        return VigilSettings(
            patience=Patience(reply=agent.reply_within_s),
            silence=SilenceLimits(silence.nudge_after_s, silence.nudges, agent.limits.silence_hangup_s),
            nudge=silence.nudge,
            farewell=silence.farewell,
        )

    def _frame_sent(self, frame: bytes) -> None:
        self._report.agent_audio(frame)
        if self._vigil is not None:
            self._vigil.frame_sent(frame)

    async def _hold(self) -> bytes:
        """Return what a caller hears who waits for a colleague's decision."""
        path = self._plan.agent.transfer.hold
        recording = b"" if path is None else await self._recording(path)
        return recording or tone(WAITING, self._leg.format)

    async def _recording(self, path: Path) -> bytes:
        """Load a recording; nothing where it cannot be read, which is told."""
        try:
            return await self._services.prompts.load(path, self._leg.format)
        except PromptError as error:
            log.error("prompt.unreadable", error=str(error))  # noqa: TRY400 - the sentence says it all
            return b""

    def _audit_transfer(self, request: TransferRequest, outcome: Outcome) -> None:
        """Record how a transfer ended, beside the record of the tool call that asked for it."""
        self._services.audit.record(
            AuditRecord(
                call_id=self._leg.info.id,
                tool_call_id=request.tool_call_id,
                tool=TRANSFER_CALL,
                version="1",
                status=ToolStatus.OK if outcome.confirmed else ToolStatus.FAILED,
                reason_code="transfer_confirmed" if outcome.confirmed else f"transfer_{outcome.reason}",
                attempts=1,
                duration_ms=0,
                evidence={
                    "destination": request.number,
                    "method": outcome.method,
                    "status": outcome.status,
                    "transfer_confirmed": outcome.confirmed,
                },
            )
        )

    def _dispatcher(self, opened: Opened) -> ToolDispatcher:
        return ToolDispatcher(
            opened.tools.tools,
            call=self._context,
            policy=self._policy,
            audit=self._services.audit,
            ledger=self._services.ledger,
            control=CallRequests(self._policy),
            clock=self._services.clock,
            transfer_numbers=opened.tools.transfer_numbers,
            on_failure=_tool_failed,
        )

    def _outcome(self, end: HungUp, ending: Ending) -> tuple[str, str]:
        """Say why the call ended and who ended it."""
        if ending.transferred:
            return (f"{ending.reason}_transferred", "gateway") if ending.reason else ("transferred", "agent")
        if end.by_caller:
            return end.reason, "caller"
        if end.reason != "local":
            return end.reason, "gateway"
        if ending.reason:
            return ending.reason, "gateway"
        if isinstance(self._policy.pending, EndRequest):
            return "end_call", "agent"
        return end.reason, "gateway"


def _transfer_plan(leg: CallLeg, plan: Plan) -> TransferPlan:
    """Put the settings of the agent and of the caller's trunk together."""
    settings = plan.agent.transfer
    return TransferPlan(
        method=settings.method or plan.trunk_methods.get(leg.info.trunk, "auto"),
        trunk=settings.trunk,
        ours=plan.number,
        numbers=plan.transfer_numbers,
        ring_s=settings.ring_s,
        decide_s=settings.decide_s,
        bridge_max_s=settings.bridge_max_s,
    )


def _tool_failed(failed: ToolFailed) -> None:
    log.error(
        "tool.failed",
        call_id=failed.call_id,
        tool_call_id=failed.tool_call_id,
        tool=failed.tool,
        reason_code=failed.reason_code,
        attempts=failed.attempts,
        error=repr(failed.error),
    )
