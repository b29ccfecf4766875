"""``end_call``: the agent hangs up. Always there, whatever the configuration says (L-6)."""

from __future__ import annotations

from typing import Final

from tools.context import ToolContext
from tools.errors import ToolRefused
from tools.registry import BindContext, BuiltTool
from tools.runtime import (
    RuntimeTool,
    ToolAuditPolicy,
    ToolEffect,
    ToolExecutionPolicy,
)
from tools.types import AgentToolDefinition, JsonObject, JsonValue, ToolStatus

NAME: Final = "end_call"

_SECTION: Final = """\
### Ending the Call
- Say goodbye and IMMEDIATELY call `end_call`.
- Do NOT wait for the caller to respond after your farewell.
- Do NOT announce that you are ending the call."""

_OUTPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {"state": {"const": "requested"}},
    "required": ["state"],
    "additionalProperties": False,
}


def build_end_call_tool_definition() -> BuiltTool:
    """Build ``end_call``; it has no prerequisites and no parameters."""
    definition = AgentToolDefinition(
        name=NAME,
        description="Ends the current phone call.",
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
    )
    return BuiltTool(definition, _SECTION)


def bind_end_call(context: BindContext) -> RuntimeTool:
    """Make the tool that asks its call to end; the caller hears the farewell first."""
    definition = context.definition
    return RuntimeTool(
        definition.name,
        "1",
        definition.parameters,
        _OUTPUT,
        _end_call,
        ToolExecutionPolicy(ToolEffect.NON_IDEMPOTENT),
        ToolAuditPolicy(("output.state",)),
        description=definition.description,
    )


async def _end_call(context: ToolContext, _arguments: dict[str, JsonValue]) -> JsonObject:
    answer = context.request_end()
    if not answer:
        raise ToolRefused(ToolStatus.DENIED, answer.value)
    return {"state": "requested"}
