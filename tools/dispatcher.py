"""
From the calls of one response to exactly one result for each of them.

Every call is looked up in the ledger, checked against the policy and its schema, run in parallel
with the others, its output checked, audited and answered. Requests to end or to transfer the call
wait until all are done; then one of them wins (see :mod:`tools.terminal`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tools.arguments import BadArguments, parse_arguments
from tools.context import CallInvocationContext, RequestDesk, open_context
from tools.errors import ToolDefinitionError
from tools.evidence import project
from tools.execution import Outcome, caught, execute, failure, interrupted
from tools.ports import AuditSink, CallControl, CallLedger, PortError, ToolPolicy
from tools.runtime import RuntimeTool, ToolEffect
from tools.terminal import PENDING, Bid, judge
from tools.types import (
    AuditRecord,
    EndRequest,
    JsonObject,
    JsonValue,
    TerminalRequest,
    ToolCall,
    ToolResult,
    ToolStatus,
)

MAX_CALLS: Final = 32
"""Calls of one response that are run; the rest is answered with ``too_many_tool_calls``."""
_MAX_PROBLEMS: Final = 5


@dataclass(frozen=True, slots=True)
class Batch:
    """The answers to one response."""

    results: tuple[ToolResult, ...]
    """One for each call id, in call order."""
    terminal: TerminalRequest | None = None
    """The request that won; the model is not asked to speak again when there is one."""


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """A fault behind a tool call, for the operator's log; reported once for each call."""

    call_id: str
    tool_call_id: str
    tool: str
    reason_code: str
    attempts: int
    error: Exception


def _unreported(_failed: ToolFailed) -> None:
    """What happens to faults when nobody listens."""


@dataclass(slots=True)
class _Run:
    """One call on its way through the dispatcher."""

    call: ToolCall
    desk: RequestDesk
    tool: RuntimeTool | None
    started: float
    arguments: JsonObject = field(default_factory=dict)
    outcome: Outcome | None = None
    result: ToolResult | None = None
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def bid(self) -> Bid:
        """What the call asks for; an answer from the ledger asks for nothing again."""
        keeps = self.tool is not None and self.tool.failure_keeps_call
        if self.outcome is None:
            return Bid(None, ok=self.result is not None and self.result.ok, failure_keeps_call=keeps)
        return Bid(self.desk.terminal, ok=self.outcome.ok, failure_keeps_call=keeps)


class ToolDispatcher:
    """
    Runs the tools of one call.

    Args:
        tools: Everything that may run, each name once.
        call: What the handlers may know of the call.
        policy: What the call's present state allows.
        audit: Takes one record for each tool call.
        ledger: Tool calls that already ran.
        control: Where the winning terminal request and the updates go.
        clock: Seconds, monotonic.
        transfer_numbers: The only numbers that a tool may ask to transfer to.
        on_failure: Told of each fault, once; for the log.
    """

    def __init__(
        self,
        tools: Sequence[RuntimeTool],
        *,
        call: CallInvocationContext,
        policy: ToolPolicy,
        audit: AuditSink,
        ledger: CallLedger,
        control: CallControl,
        clock: Callable[[], float],
        transfer_numbers: Collection[str] = frozenset(),
        on_failure: Callable[[ToolFailed], None] = _unreported,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ToolDefinitionError("two tools of a call have the same name")
        self._call = call
        self._policy = policy
        self._audit = audit
        self._ledger = ledger
        self._control = control
        self._clock = clock
        self._transfer_numbers = frozenset(transfer_numbers)
        self._on_failure = on_failure
        self._running: dict[str, _Run] = {}

    async def run(self, calls: Sequence[ToolCall]) -> Batch:
        """
        Answer all calls of one response, in parallel; a call id that comes twice runs once.

        Cancelling this cancels the handlers, and returns when none is left.
        """
        runs: dict[str, _Run] = {}
        own: list[_Run] = []
        for call in calls:
            if call.call_id in runs:
                continue
            run = self._running.get(call.call_id)
            if run is None:
                run = self._running[call.call_id] = self._new_run(call)
                own.append(run)
            runs[call.call_id] = run
        settled = False
        try:
            async with asyncio.TaskGroup() as group:
                for position, run in enumerate(own):
                    group.create_task(self._perform(run, position), name=f"tool:{run.call.name}")
            terminal = self._settle(own)
            settled = True
        finally:
            for run in own:
                if not settled and run.bid.request is not None:
                    run.outcome = None  # it asked, but nobody will act on it any more
                self._finish(run)
                del self._running[run.call.call_id]
        # Of another response that still runs: its answer is this one's answer too.
        for run in runs.values():
            await run.finished.wait()
        return Batch(tuple(run.result for run in runs.values() if run.result is not None), terminal)

    def _new_run(self, call: ToolCall) -> _Run:
        desk = RequestDesk(call.call_id, control=self._control, transfer_numbers=self._transfer_numbers)
        return _Run(call, desk, self._tools.get(call.name), self._clock())

    async def _perform(self, run: _Run, position: int) -> None:
        answer = await caught(self._outcome(run, position))
        if isinstance(answer, ToolResult):
            run.result = answer
            run.finished.set()
            return
        if isinstance(answer, Exception):
            answer = failure("internal_error", ToolStatus.FAILED, answer, 0)
        run.outcome = answer
        run.desk.close()
        if not (answer.ok and run.desk.terminal):
            self._finish(run)

    async def _outcome(self, run: _Run, position: int) -> Outcome | ToolResult:
        tool = run.tool
        trouble: PortError | None = None
        try:
            remembered = self._ledger.seen(self._call.call_id, run.call.call_id)
        except PortError as error:
            # Reading twice does no harm; writing twice may.
            if tool is not None and tool.execution.effect is not ToolEffect.READ_ONLY:
                return failure("ledger_unavailable", ToolStatus.FAILED, error, 0)
            remembered, trouble = None, error
        if remembered is not None:
            return remembered
        outcome = await self._answer(run, tool, position)
        return replace(outcome, error=outcome.error or trouble)

    async def _answer(self, run: _Run, tool: RuntimeTool | None, position: int) -> Outcome:
        if position >= MAX_CALLS:
            return failure("too_many_tool_calls", ToolStatus.LIMIT_REACHED, None, 0)
        if tool is None:
            return failure("unknown_tool", ToolStatus.DENIED, None, 0)
        return self._refusal(run, tool) or await self._execute(run, tool)

    def _refusal(self, run: _Run, tool: RuntimeTool) -> Outcome | None:
        """Check policy and arguments; return the answer when the tool must not run."""
        denial = self._policy.denial(tool.name)
        if denial is not None:
            message_key, reason_code = denial
            return Outcome(ToolStatus.DENIED, reason_code, message_key)
        try:
            run.arguments = parse_arguments(run.call.arguments)
        except BadArguments as error:
            return _invalid([str(error)])
        violations = tool.input_schema.violations(run.arguments)
        for violation in violations:
            reason = tool.enum_reasons.get(violation.path)
            if reason is not None and violation.rule == "enum":
                return failure(reason, ToolStatus.DENIED, None, 0)
        return _invalid([str(violation) for violation in violations]) if violations else None

    async def _execute(self, run: _Run, tool: RuntimeTool) -> Outcome:
        context = open_context(self._call, run.call.call_id, run.desk)
        # Stands if we are cancelled from here on: the handler has begun.
        run.outcome = interrupted(tool, 1)
        return await execute(tool, context, run.arguments, run.desk)

    def _settle(self, runs: Sequence[_Run]) -> TerminalRequest | None:
        """Let one terminal request win and answer the others."""
        verdict = judge([run.bid for run in runs])
        winner = None if verdict.winner is None else runs[verdict.winner]
        request = None if winner is None else winner.desk.terminal
        if winner is not None and request is not None and not self._submit(request):
            _refuse(winner, PENDING)
            request = None
        for index, reason in verdict.refused.items():
            _refuse(runs[index], reason)
        return request

    def _submit(self, request: TerminalRequest) -> bool:
        if isinstance(request, EndRequest):
            return self._control.request_end(request)
        return self._control.request_transfer(request)

    def _finish(self, run: _Run) -> None:
        """Turn the outcome into the result: once, whatever happened to the batch."""
        if run.finished.is_set():
            return
        run.desk.close()
        outcome = run.outcome or failure("cancelled", ToolStatus.FAILED, None, 0)
        run.result = ToolResult(
            run.call.call_id,
            run.call.name,
            outcome.status,
            data=outcome.data,
            message_key=outcome.message_key,
            reason_code=outcome.reason_code,
        )
        self._record(run, outcome)
        try:
            self._ledger.remember(self._call.call_id, run.result)
        except PortError as error:
            outcome = replace(outcome, error=outcome.error or error)
        if outcome.error is not None:
            self._on_failure(
                ToolFailed(
                    self._call.call_id,
                    run.call.call_id,
                    run.call.name,
                    outcome.reason_code or "ledger_unavailable",
                    outcome.attempts,
                    outcome.error,
                )
            )
        run.finished.set()

    def _record(self, run: _Run, outcome: Outcome) -> None:
        tool = run.tool
        evidence: dict[str, JsonValue] = {}
        if tool is not None:
            values: JsonObject = {"arguments": run.arguments, "output": outcome.data}
            evidence = project(tool.audit.evidence_paths, values)
        self._audit.record(
            AuditRecord(
                call_id=self._call.call_id,
                tool_call_id=run.call.call_id,
                tool=run.call.name,
                version=tool.version if tool else "",
                status=outcome.status,
                reason_code=outcome.reason_code,
                attempts=outcome.attempts,
                duration_ms=round((self._clock() - run.started) * 1000),
                evidence=evidence,
            )
        )


def _invalid(problems: Sequence[str]) -> Outcome:
    """Tell the model what to correct."""
    return Outcome(
        ToolStatus.INVALID_ARGUMENTS,
        "invalid_arguments",
        "invalid_arguments",
        {"problems": list(problems[:_MAX_PROBLEMS])},
    )


def _refuse(run: _Run, reason: str) -> None:
    attempts = run.outcome.attempts if run.outcome else 0
    run.outcome = failure(reason, ToolStatus.DENIED, None, attempts)
