"""
``transfer_call``: a transfer to configured numbers only (L-20 to L-24, L-38).

All is as the requirements have it while every number is cold. A warm number says so in its line, and the
model then also writes what the colleague should know.
"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from config.agent_tools import TransferCallSettings, TransferNumber
from tools.context import ToolContext
from tools.errors import AppError, ToolRefused
from tools.registry import BindContext, BuildContext, BuiltTool
from tools.runtime import (
    RuntimeTool,
    ToolAuditPolicy,
    ToolEffect,
    ToolExecutionPolicy,
)
from tools.types import AgentToolDefinition, JsonObject, JsonValue, ToolStatus

NAME: Final = "transfer_call"
_SUMMARY: Final = 2000
"""Characters of a summary that are kept."""

_OUTPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {"state": {"const": "requested"}, "transfer_confirmed": {"const": False}},
    "required": ["state", "transfer_confirmed"],
    "additionalProperties": False,
}


def build_transfer_call_tool_definition(settings: TransferCallSettings | None) -> BuiltTool | None:
    """
    Build ``transfer_call`` from the configured numbers; ``None`` without a valid one.

    The model learns numbers and labels; a number that has two labels is one choice with two lines.
    """
    destinations = _destinations(settings)
    if not destinations:
        return None
    warm = _warm(settings)
    parameters: dict[str, JsonValue] = {
        "phone_number": {
            "type": "string",
            "description": "The configured number of the destination.",
            "enum": list(dict.fromkeys(number for number, _ in destinations)),
        }
    }
    if warm:
        parameters["summary"] = {
            "type": "string",
            "description": "One or two sentences for the colleague: who calls, and what they need.",
        }
    definition = AgentToolDefinition(
        name=NAME,
        description="Transfers the current call to another phone number (cold transfer).",
        parameters={
            "type": "object",
            "properties": parameters,
            "required": ["phone_number"],
            "additionalProperties": False,
        },
    )
    section = "\n".join(
        (
            "### Call Transfer (CONFIRMATION_FIRST)",
            "- Transfer destinations:",
            *(_line(number, label, warm=number in warm) for number, label in destinations),
            "- ALWAYS confirm with the caller before transferring.",
        )
    )
    return BuiltTool(definition, section)


def build_transfer_call(context: BuildContext) -> BuiltTool | None:
    """Build the tool from the agent's own settings."""
    return build_transfer_call_tool_definition(transfer_settings(context))


def bind_transfer_call(context: BindContext) -> RuntimeTool:
    """Make the tool that asks its call for a transfer; what comes of it is known only later."""
    labels: dict[str, str] = {}
    for number, label in _destinations(transfer_settings(context.build)):
        labels.setdefault(number, label)

    warm = _warm(transfer_settings(context.build))

    async def transfer_call(tool: ToolContext, arguments: dict[str, JsonValue]) -> JsonObject:
        number = str(arguments["phone_number"])
        summary = str(arguments.get("summary", ""))[:_SUMMARY]
        answer = tool.request_transfer(number, labels.get(number, ""), warm=number in warm, summary=summary)
        if not answer:
            raise ToolRefused(ToolStatus.DENIED, answer.value)
        return {"state": "requested", "transfer_confirmed": False}

    definition = context.definition
    return RuntimeTool(
        definition.name,
        "1",
        definition.parameters,
        _OUTPUT,
        transfer_call,
        ToolExecutionPolicy(ToolEffect.NON_IDEMPOTENT),
        ToolAuditPolicy(("arguments.phone_number", "output.state")),
        description=definition.description,
        enum_reasons={"phone_number": "phone_number_not_configured"},
        failure_keeps_call=True,
    )


def transfer_numbers(settings: TransferCallSettings | None) -> tuple[str, ...]:
    """The numbers that a call may be transferred to: valid, trimmed, each once."""
    return tuple(dict.fromkeys(number for number, _ in _destinations(settings)))


def transfer_settings(context: BuildContext) -> TransferCallSettings | None:
    """Read the agent's transfer settings; raises :exc:`AppError` when they are of another shape."""
    try:
        return context.tool_config.get_tool_settings(TransferCallSettings, NAME)
    except ValidationError as error:
        raise AppError(f"transfer_call of agent {context.agent_id}: {error}") from error


def _warm(settings: TransferCallSettings | None) -> frozenset[str]:
    """The numbers whose first entry is warm."""
    first: dict[str, TransferNumber] = {}
    for one in settings.valid_numbers if settings else ():
        first.setdefault(one.number.strip(), one)
    return frozenset(number for number, one in first.items() if one.is_warm)


def _line(number: str, label: str, *, warm: bool) -> str:
    named = f"  - {number} — {label}" if label else f"  - {number}"
    return f"{named} (warm: the colleague is asked first, while the caller waits)" if warm else named


def _destinations(settings: TransferCallSettings | None) -> list[tuple[str, str]]:
    """Numbers and labels as the model reads them: trimmed, one line each, no line twice."""
    valid = settings.valid_numbers if settings else ()
    pairs = ((one.number.strip(), " ".join(one.label.split())) for one in valid)
    return list(dict.fromkeys(pairs))
