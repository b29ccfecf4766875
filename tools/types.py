"""
What tools, providers and calls say to each other about tools: data only.

Nothing here acts; the executable form of a tool is :class:`tools.runtime.RuntimeTool`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

JsonValue: TypeAlias = (
    "Mapping[str, JsonValue] | list[JsonValue] | tuple[JsonValue, ...] | str | int | float | bool | None"
)
JsonObject: TypeAlias = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class AgentToolDefinition:
    """What a tool does, for the provider; how to use it stands in the prompt section instead."""

    name: str
    description: str
    parameters: JsonObject
    """A closed JSON Schema: ``additionalProperties`` is false at every object level."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model made, as the provider sent it."""

    call_id: str
    name: str
    arguments: str
    """The arguments as JSON text, unchecked: the dispatcher parses and validates them."""
    response_id: str = ""


class ToolStatus(StrEnum):
    """The closed list of outcomes (requirements, section 4.3)."""

    OK = "ok"
    DENIED = "denied"
    INVALID_ARGUMENTS = "invalid_arguments"
    INVALID_OUTPUT = "invalid_output"
    FAILED = "failed"
    COMPLETION_UNKNOWN = "completion_unknown"
    NOT_CONFIGURED = "not_configured"
    STUBBED = "stubbed"
    CLARIFICATION_REQUIRED = "clarification_required"
    NO_ANSWER = "no_answer"
    LIMIT_REACHED = "limit_reached"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """
    The one answer to a tool call; safe to send to a model as it is.

    ``message_key`` names a sentence that may be said to the caller, ``reason_code`` is for
    programs. Exception texts never stand in either, nor in ``data``.
    """

    call_id: str
    tool: str
    status: ToolStatus
    data: JsonObject = field(default_factory=dict)
    message_key: str = ""
    reason_code: str = ""

    @property
    def ok(self) -> bool:
        return self.status is ToolStatus.OK

    def to_json(self) -> str:
        """Return the envelope of requirements section 4.3 as JSON text."""
        return json.dumps(
            {
                "ok": self.ok,
                "tool": self.tool,
                "status": self.status.value,
                "message_key": self.message_key,
                "reason_code": self.reason_code,
                "data": self.data,
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Hang up once the caller has heard the farewell."""

    tool_call_id: str


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """Transfer to a configured number once the caller has heard the announcement."""

    tool_call_id: str
    number: str
    label: str = ""
    warm: bool = False
    """Whether the colleague is asked first."""
    summary: str = ""
    """What a colleague who is asked should know of the caller's wish, in the model's words."""


TerminalRequest: TypeAlias = EndRequest | TransferRequest


@dataclass(frozen=True, slots=True)
class CallUpdate:
    """
    A change of a running call; parts that are ``None`` stay as they are (V-19, V-21).

    An empty ``tools`` clears the tools, which is not the same as leaving them unnamed.
    """

    expected_revision: int
    prompt: str | None = None
    language: str | None = None
    voice: str | None = None
    tools: tuple[AgentToolDefinition, ...] | None = None


@dataclass(frozen=True, slots=True)
class KnowledgePassage:
    """A piece of a document that answers a query."""

    document: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class KnowledgeBaseInfo:
    """A knowledge base as the tool's description names it (L-17)."""

    id: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One tool call for the audit: metadata always, values only along declared paths (C-20)."""

    call_id: str
    tool_call_id: str
    tool: str
    version: str
    status: ToolStatus
    reason_code: str
    attempts: int
    duration_ms: int
    evidence: JsonObject = field(default_factory=dict)
