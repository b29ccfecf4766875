"""``query_knowledge``: answers from the agent's documents (L-15 to L-19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tools.context import ToolContext
from tools.errors import AppError, ToolRefused
from tools.ports import PortError
from tools.registry import BindContext, BuildContext, BuiltTool
from tools.runtime import (
    RuntimeTool,
    ToolAuditPolicy,
    ToolEffect,
    ToolExecutionPolicy,
    ToolRetryPolicy,
)
from tools.sources import ToolSources
from tools.types import AgentToolDefinition, JsonObject, JsonValue, KnowledgeBaseInfo, ToolStatus

NAME: Final = "query_knowledge"
MAX_PASSAGES: Final = 4
_MAX_QUERY_CHARS: Final = 1_000

_SECTION: Final = """\
### Knowledge Base
- ALWAYS call `query_knowledge` before answering covered topics.
- Do NOT guess — use the tool."""

_OUTPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "passages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"document": {"type": "string"}, "text": {"type": "string"}},
                "required": ["document", "text"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["passages"],
    "additionalProperties": False,
}


async def build_knowledge_tool_definition(agent_id: str, *, sources: ToolSources) -> BuiltTool | None:
    """
    Build ``query_knowledge``; ``None`` when no knowledge base is linked to the agent.

    The description lists every base and document as they are now. Raises :exc:`AppError` when
    they cannot be read.
    """
    try:
        bases = await sources.knowledge_base_ids(agent_id)
        described = await sources.knowledge.describe(bases) if bases else ()
    except PortError as error:
        raise AppError(f"knowledge bases of agent {agent_id} cannot be read: {error}") from error
    if not bases:
        return None
    definition = AgentToolDefinition(
        name=NAME,
        description=_description(described),
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string", "description": "The question in natural language."}},
            "required": ["query"],
            "additionalProperties": False,
        },
    )
    return BuiltTool(definition, _SECTION)


async def build_knowledge(context: BuildContext) -> BuiltTool | None:
    """Build the tool for an agent's knowledge bases."""
    return await build_knowledge_tool_definition(context.agent_id, sources=context.sources)


async def bind_knowledge(context: BindContext) -> RuntimeTool:
    """Make the tool that searches the agent's knowledge bases."""
    sources = context.build.sources
    try:
        bases = tuple(await sources.knowledge_base_ids(context.build.agent_id))
    except PortError as error:
        raise AppError(f"knowledge bases of agent {context.build.agent_id}: {error}") from error

    async def query_knowledge(_tool: ToolContext, arguments: dict[str, JsonValue]) -> JsonObject:
        query = str(arguments["query"]).strip()[:_MAX_QUERY_CHARS]
        hits = await sources.knowledge.search(bases, query, limit=MAX_PASSAGES) if query else ()
        if not hits:
            raise ToolRefused(ToolStatus.NO_ANSWER, "no_relevant_kb_result")
        return {"passages": [{"document": hit.document, "text": hit.text} for hit in hits]}

    definition = context.definition
    return RuntimeTool(
        definition.name,
        "1",
        definition.parameters,
        _OUTPUT,
        query_knowledge,
        ToolExecutionPolicy(ToolEffect.READ_ONLY, ToolRetryPolicy(2), timeout_ms=5_000),
        ToolAuditPolicy(("output.passages.document",)),
        description=definition.description,
    )


def _description(bases: Sequence[KnowledgeBaseInfo]) -> str:
    lines = ["Searches the knowledge bases of this agent.", "Knowledge bases and their documents:"]
    for base in bases:
        titles = "; ".join(" ".join(title.split()) for title in base.documents)
        lines.append(f"- {base.id}: {titles or 'no documents'}")
    return "\n".join(lines)
