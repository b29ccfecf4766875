"""
The tool calls of a conversation: run those of one response, answer all of them, go on once.

The answers go to whatever session there is when they are ready (:mod:`gateway.calls.model`).
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from gateway.calls import events as ev
from gateway.calls.conversation import Conversation
from gateway.calls.ending import Ending
from gateway.calls.model import LiveModel
from gateway.calls.report import Report
from providers.types import ToolCallsRequested
from tools.dispatcher import Batch
from tools.types import ToolCall, ToolResult, ToolStatus, TransferRequest

DECIDE_S = 0.2
"""How long a barge-in waits for a round that was asked for just before it."""


class Tools(Protocol):
    """What is asked of the dispatcher."""

    async def run(self, calls: tuple[ToolCall, ...]) -> Batch: ...


class ToolRounds:
    """
    Runs a call's tools, one round for each response that asks for some.

    Args:
        tools: The call's dispatcher.
        model: Gets the answers, and is asked to go on.
        talk: Counts the rounds.
        ending: Takes a terminal request that won.
        report: Takes the events.
    """

    def __init__(
        self, tools: Tools, model: LiveModel, talk: Conversation, ending: Ending, report: Report
    ) -> None:
        self._tools = tools
        self._model = model
        self._talk = talk
        self._ending = ending
        self._report = report
        self._undecided = 0
        self._decided = asyncio.Event()
        self._decided.set()
        self._until = 0.0

    def begin(self) -> None:
        """Note at once that a round was asked for, for :meth:`answer` may begin later."""
        self._undecided += 1
        self._decided.clear()
        self._until = asyncio.get_running_loop().time() + DECIDE_S

    async def decided(self) -> None:
        """
        Wait a moment for a round that was asked for just now, because it may end the call.

        Who speaks right behind the request would else cut the goodbye of a call that ends all the same.
        """
        try:
            async with asyncio.timeout_at(self._until):
                await self._decided.wait()
        except TimeoutError:
            pass

    async def answer(self, request: ToolCallsRequested, *, over: asyncio.Event) -> None:
        """Run the calls in parallel; when ``over`` is set, nobody is there to go on with."""
        for call in request.calls:
            self._report(ev.ToolCalled, call.call_id, call.name, call.arguments)
        if self._talk.begin_tools():
            batch = await self._run(request.calls)
            tools = True
        else:
            batch = Batch(tuple(_too_many(call) for call in request.calls), None)
            tools = False
        if batch.terminal is not None:  # first of all: a provider that does not read cannot hold it up
            if self._talk.policy.consulting:
                self._ending.decided(accepted=isinstance(batch.terminal, TransferRequest))
            else:
                self._ending.begin(batch.terminal)
        self._undecided -= 1
        if not self._undecided:
            self._decided.set()
        for result in batch.results:
            self._report(
                ev.ToolAnswered, result.call_id, result.tool, result.status, result.reason_code, result.data
            )
            await self._model.send_tool_result(result)
        if batch.terminal is None and not self._talk.policy.silent and not over.is_set():
            await self._model.respond(tools=tools)

    async def _run(self, calls: tuple[ToolCall, ...]) -> Batch:
        try:
            return await self._tools.run(calls)
        except asyncio.CancelledError:  # the line is gone, and the grace is over
            for call in calls:
                self._report(
                    ev.ToolAnswered, call.call_id, call.name, ToolStatus.COMPLETION_UNKNOWN, "call_ended"
                )
            raise


def _too_many(call: ToolCall) -> ToolResult:
    return ToolResult(
        call.call_id,
        call.name,
        ToolStatus.LIMIT_REACHED,
        message_key="max_tool_calls_reached",
        reason_code="max_tool_calls_reached",
    )
