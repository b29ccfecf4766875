"""
The one executable form of every tool: built-in, HTTP, MCP or the consumer's own.

A handler owns authorization, idempotency, domain checks and side effects; everything around it
(checking, policy, parallel running, retries, audit) is the dispatcher's.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import FunctionType
from typing import Final, TypeAlias

from tools.context import ToolContext
from tools.errors import ToolDefinitionError
from tools.schema import ClosedSchema, plain_json
from tools.types import AgentToolDefinition, JsonObject, JsonValue

ToolHandler: TypeAlias = Callable[[ToolContext, dict[str, JsonValue]], Awaitable[JsonObject]]

TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What both providers take as the name of a function."""


class ToolEffect(StrEnum):
    """What running a tool changes outside, and so what may be done when it fails."""

    READ_ONLY = "read_only"
    """Nothing: it may run again."""
    IDEMPOTENT = "idempotent"
    """A write that the service knows by ``tool_call_id``: it may run again with the same id."""
    NON_IDEMPOTENT = "non_idempotent"
    """A write that must not run twice: whether a broken one was completed stays unknown."""


@dataclass(frozen=True, slots=True)
class ToolRetryPolicy:
    """How often a tool runs in total, and how long to wait between two attempts."""

    max_attempts: int = 1
    backoff_ms: int = field(default=100, kw_only=True)

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ToolDefinitionError("max_attempts counts the first attempt too: write 1 or more")
        if self.backoff_ms < 0:
            raise ToolDefinitionError("backoff_ms must not be negative")


@dataclass(frozen=True, slots=True)
class ToolExecutionPolicy:
    """Effect, retries and the time that one attempt may take."""

    effect: ToolEffect
    retry: ToolRetryPolicy = ToolRetryPolicy()
    timeout_ms: int = field(default=10_000, kw_only=True)

    def __post_init__(self) -> None:
        if self.effect is ToolEffect.NON_IDEMPOTENT and self.retry.max_attempts > 1:
            raise ToolDefinitionError("a non-idempotent tool is never repeated: max_attempts must be 1")
        if self.timeout_ms <= 0:
            raise ToolDefinitionError("timeout_ms must be positive")


@dataclass(frozen=True, slots=True)
class ToolAuditPolicy:
    """
    Which values may stand in the audit; by default none.

    A path starts with ``arguments`` or ``output`` and names properties: ``output.passages.document``
    takes that property of every element of a list.
    """

    evidence_paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in self.evidence_paths:
            root, _, rest = path.partition(".")
            if root not in {"arguments", "output"} or not all(rest.split(".")):
                raise ToolDefinitionError(f"evidence path {path!r} must be arguments.<name> or output.<name>")


@dataclass(frozen=True, slots=True, eq=False)
class RuntimeTool:
    """
    A tool that can run. Raises :exc:`tools.errors.ToolDefinitionError` when it is not sound.

    Args:
        name: What the model calls it.
        version: For the audit; the provider never sees it.
        input: Closed JSON Schema of the arguments.
        output: Closed JSON Schema of what the handler returns.
        handler: ``async def handler(context, arguments)`` with exactly these two parameters.
        execution: Effect, retries and time limit.
        audit: What the audit may record.
        description: What it does, for the provider (C-29).
        enum_reasons: By argument: the reason code of the denial when a value is outside the
            ``enum``, for enumerations that guard something (V-14).
        failure_keeps_call: When this tool did not succeed, an ``end_call`` after it in the same
            response does not hang up (BR-102).
    """

    name: str
    version: str
    input: JsonObject
    output: JsonObject
    handler: ToolHandler
    execution: ToolExecutionPolicy
    audit: ToolAuditPolicy
    description: str = field(default="", kw_only=True)
    enum_reasons: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    failure_keeps_call: bool = field(default=False, kw_only=True)
    input_schema: ClosedSchema = field(init=False, repr=False, compare=False)
    output_schema: ClosedSchema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if TOOL_NAME.fullmatch(self.name) is None:
            raise ToolDefinitionError(
                f"tool name {self.name!r} must be 1 to 64 letters, digits, underscores or hyphens"
            )
        if not self.version:
            raise ToolDefinitionError(f"{self.name}: version is missing")
        _check_handler(self.name, self.handler)
        object.__setattr__(self, "input_schema", self._closed(self.input, "input"))
        object.__setattr__(self, "output_schema", self._closed(self.output, "output"))

    @property
    def definition(self) -> AgentToolDefinition:
        """The tool as a provider learns of it."""
        return AgentToolDefinition(self.name, self.description, self.input)

    def _closed(self, schema: JsonObject, side: str) -> ClosedSchema:
        try:
            closed = ClosedSchema(schema)
        except ToolDefinitionError as error:
            raise ToolDefinitionError(f"{self.name}: {side} {error}") from None
        object.__setattr__(self, side, plain_json(schema))  # the caller's copy may change, ours not
        return closed


def _check_handler(name: str, handler: object) -> None:
    if not callable(handler):
        raise ToolDefinitionError(f"{name}: handler is not callable")
    target = handler if inspect.isroutine(handler) else getattr(handler, "func", type(handler).__call__)
    if not inspect.iscoroutinefunction(target):
        raise ToolDefinitionError(f"{name}: handler must be an async function")
    if not _takes_two(handler):
        raise ToolDefinitionError(f"{name}: handler must accept exactly (context, arguments)")


def _takes_two(handler: Callable[..., object]) -> bool:
    """Whether a handler takes two positional arguments; of a plain function its code says so."""
    if isinstance(handler, FunctionType) and not hasattr(handler, "__wrapped__"):
        code = handler.__code__
        stars = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        return code.co_argcount == 2 and not code.co_kwonlyargcount and not stars
    parameters = inspect.signature(handler).parameters.values()
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return len(parameters) == 2 and all(parameter.kind in positional for parameter in parameters)
