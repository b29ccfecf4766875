"""Running one tool: attempts, time limit, and what its effect allows when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from tools.context import RequestDesk, ToolContext
from tools.errors import ToolRefused
from tools.runtime import RuntimeTool, ToolEffect
from tools.schema import plain_json
from tools.types import JsonObject, JsonValue, ToolStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a tool call went, before it becomes a result."""

    status: ToolStatus
    reason_code: str = ""
    message_key: str = ""
    data: JsonObject = field(default_factory=dict)
    attempts: int = 0
    error: Exception | None = None
    """What to report to the operator; never shown to a model."""

    @property
    def ok(self) -> bool:
        return self.status is ToolStatus.OK


class TimedOut(Exception):
    """An attempt took longer than its tool allows."""


class BadOutput(Exception):
    """A handler returned something else than its output schema says."""


class HandlerCancelled(Exception):
    """A handler was cancelled by itself or by what it called, not by us."""


async def execute(
    tool: RuntimeTool, context: ToolContext, arguments: JsonObject, desk: RequestDesk
) -> Outcome:
    """
    Run a tool as often as its policy allows, until it answers.

    Arguments must have been checked. Only being cancelled from outside raises.
    """
    retry = tool.execution.retry
    attempt = 0
    while True:
        attempt += 1
        desk.restart()
        answer = await caught(_attempt(tool, context, arguments))
        match answer:
            case ToolRefused():
                return Outcome(
                    answer.status, answer.reason_code, answer.message_key, answer.data, attempts=attempt
                )
            case BadOutput():
                return failure("invalid_output", ToolStatus.INVALID_OUTPUT, answer, attempt)
            case Exception():
                if attempt >= retry.max_attempts:
                    return _gave_up(tool, answer, attempt)
                await asyncio.sleep(retry.backoff_ms / 1000)
            case _:
                return Outcome(ToolStatus.OK, data=answer, attempts=attempt)


async def caught(work: Awaitable[T]) -> T | Exception:
    """
    Return what ``work`` raises instead of raising it, so that one tool never hurts another.

    Handlers are the consumer's code and may raise anything. Our own cancellation passes through.
    """
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return HandlerCancelled("the handler was cancelled")
    except Exception as error:  # noqa: BLE001 - see above; the error is reported, not lost
        return error


def failure(reason_code: str, status: ToolStatus, error: Exception | None, attempts: int) -> Outcome:
    """Build the outcome of a fault: the same word for programs and for the caller's sentence."""
    return Outcome(status, reason_code, reason_code, attempts=attempts, error=error)


def interrupted(tool: RuntimeTool, attempts: int) -> Outcome:
    """What is known of a tool that was cancelled while it ran."""
    if tool.execution.effect is ToolEffect.READ_ONLY:
        return failure("cancelled", ToolStatus.FAILED, None, attempts)
    return failure("completion_unknown", ToolStatus.COMPLETION_UNKNOWN, None, attempts)


async def _attempt(tool: RuntimeTool, context: ToolContext, arguments: JsonObject) -> JsonObject:
    # Each attempt gets its own copy: a handler may change what it was given.
    own = dict(arguments)
    for name, value in own.items():
        own[name] = plain_json(value)
    output = await _limited(tool, context, own)
    return _checked(tool, output)


async def _limited(tool: RuntimeTool, context: ToolContext, arguments: dict[str, JsonValue]) -> object:
    limit = asyncio.timeout(tool.execution.timeout_ms / 1000)
    try:
        async with limit:
            output = await tool.handler(context, arguments)
    except Exception as error:
        # The handler may have turned the cancellation into an error of its own.
        if limit.expired():
            raise TimedOut(f"no answer in {tool.execution.timeout_ms} ms") from error
        raise
    if limit.expired():
        raise TimedOut(f"no answer in {tool.execution.timeout_ms} ms")
    return output


def _checked(tool: RuntimeTool, output: object) -> JsonObject:
    try:
        plain = plain_json(output)
    except ValueError as error:
        raise BadOutput(f"output is not JSON: {error}") from None
    violations = tool.output_schema.violations(plain)
    if violations or not isinstance(plain, dict):
        raise BadOutput("; ".join(f"{one.path or 'output'}: {one.problem}" for one in violations))
    return plain


def _gave_up(tool: RuntimeTool, error: Exception, attempts: int) -> Outcome:
    if not isinstance(error, TimedOut):
        return failure("tool_failed", ToolStatus.FAILED, error, attempts)
    if tool.execution.effect is ToolEffect.READ_ONLY:
        return failure("tool_timeout", ToolStatus.FAILED, error, attempts)
    return failure("completion_unknown", ToolStatus.COMPLETION_UNKNOWN, error, attempts)
