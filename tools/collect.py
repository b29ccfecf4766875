"""
All tools of one agent: for the provider, for the prompt, and ready to run.

:func:`collect_agent_tools` asks every builder that the configuration switches on;
:meth:`ToolBuilders.prepare_call` also binds what was built to one call.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import BaseModel

from config.agent_tools import AgentToolConfig, QueryKnowledgeSettings, TransferCallSettings
from tools.builders import client_lookup, end_call, knowledge, transfer_call
from tools.context import CallInvocationContext
from tools.errors import AppError, ToolDefinitionError
from tools.registry import (
    BindContext,
    BuildContext,
    BuiltTool,
    NoSettings,
    RegisteredTool,
    ToolBinding,
    ToolBuilder,
    ToolRegistry,
)
from tools.runtime import RuntimeTool
from tools.schema import ClosedSchema, plain_json
from tools.sources import ToolSources
from tools.types import AgentToolDefinition

ADDENDUM_HEADING: Final = "## Available Tools"
_SECTION_HEADING: Final = re.compile(r"### \S")


def built_in_tools() -> tuple[RegisteredTool, ...]:
    """The four tools that every gateway has, in the order of their prompt sections (U-12)."""
    return (
        RegisteredTool(
            knowledge.NAME,
            knowledge.build_knowledge,
            knowledge.bind_knowledge,
            "Knowledge base",
            QueryKnowledgeSettings,
            built_in=True,
        ),
        RegisteredTool(
            client_lookup.NAME,
            client_lookup.build_client_lookup,
            client_lookup.bind_client_lookup,
            "Caller lookup",
            NoSettings,
            built_in=True,
        ),
        RegisteredTool(
            transfer_call.NAME,
            transfer_call.build_transfer_call,
            transfer_call.bind_transfer_call,
            "Call transfer",
            TransferCallSettings,
            built_in=True,
        ),
        RegisteredTool(
            end_call.NAME,
            lambda _context: end_call.build_end_call_tool_definition(),
            end_call.bind_end_call,
            "End the call",
            NoSettings,
            always_on=True,
            built_in=True,
        ),
    )


tool_registry: Final = ToolRegistry(built_in_tools())
"""The process's tools. Filled while modules are loaded, only read while calls run."""


def register_tool_builder(
    name: str,
    build: ToolBuilder,
    bind: ToolBinding,
    *,
    title: str = "",
    settings: type[BaseModel] = NoSettings,
) -> None:
    """Add a tool to :data:`tool_registry`; see :meth:`tools.registry.ToolRegistry.register`."""
    tool_registry.register(name, build, bind, title=title, settings=settings)


class CollectedTools(NamedTuple):
    """What a session is configured with."""

    definitions: tuple[AgentToolDefinition, ...]
    addendum: str
    """``## Available Tools`` and every section, in the order of the definitions."""


@dataclass(frozen=True, slots=True)
class CallTools:
    """The tools of one call: what the session learns, and what the dispatcher runs."""

    definitions: tuple[AgentToolDefinition, ...]
    addendum: str
    tools: tuple[RuntimeTool, ...]
    transfer_numbers: tuple[str, ...]
    """The only numbers that a tool of this call may ask to transfer to."""


class ToolBuilders:
    """
    The builders, joined to what they look things up in.

    Args:
        sources: Settings and services; asked anew for each call.
        registry: Which tools there are.
    """

    def __init__(self, sources: ToolSources, *, registry: ToolRegistry = tool_registry) -> None:
        self._sources = sources
        self._registry = registry

    def build_end_call_tool_definition(self) -> BuiltTool:
        """Build ``end_call``, which every agent has."""
        return end_call.build_end_call_tool_definition()

    async def build_client_lookup_tool_definition(self, organization_id: str) -> BuiltTool | None:
        """Build ``lookup_caller``, or nothing when the organization has no look-up URL."""
        return await client_lookup.build_client_lookup_tool_definition(organization_id, sources=self._sources)

    async def build_knowledge_tool_definition(self, agent_id: str) -> BuiltTool | None:
        """Build ``query_knowledge``, or nothing when the agent has no knowledge bases."""
        return await knowledge.build_knowledge_tool_definition(agent_id, sources=self._sources)

    def build_transfer_call_tool_definition(self, settings: TransferCallSettings | None) -> BuiltTool | None:
        """Build ``transfer_call``, or nothing without a valid number."""
        return transfer_call.build_transfer_call_tool_definition(settings)

    async def collect_agent_tools(
        self, agent_id: str, organization_id: str, tool_config: AgentToolConfig
    ) -> CollectedTools:
        """
        Build every tool that is enabled and whose prerequisites are met, and ``end_call``.

        Raises :exc:`AppError` when a builder cannot read what it needs: a call with silently
        missing tools must not be answered.
        """
        built = await self._build(BuildContext(agent_id, organization_id, tool_config, self._sources))
        return _collected([one for _, one in built])

    async def prepare_call(
        self,
        agent_id: str,
        organization_id: str,
        tool_config: AgentToolConfig,
        call: CallInvocationContext,
    ) -> CallTools:
        """Collect the tools of an agent and bind them to one call; raises :exc:`AppError`."""
        context = BuildContext(agent_id, organization_id, tool_config, self._sources)
        built = await self._build(context)
        tools = [
            await _bound(registered, BindContext(context, one.definition, call)) for registered, one in built
        ]
        numbers: tuple[str, ...] = ()
        if tool_config.is_tool_enabled(transfer_call.NAME):
            numbers = transfer_call.transfer_numbers(transfer_call.transfer_settings(context))
        definitions, addendum = _collected([one for _, one in built])
        return CallTools(definitions, addendum, tuple(tools), numbers)

    async def _build(self, context: BuildContext) -> list[tuple[RegisteredTool, BuiltTool]]:
        built = []
        for registered in self._registry:
            if not (registered.always_on or context.tool_config.is_tool_enabled(registered.name)):
                continue
            answer = registered.build(context)
            tool = await answer if inspect.isawaitable(answer) else answer
            if tool is not None:
                _check_built(registered.name, tool)
                built.append((registered, tool))
        return built


async def collect_agent_tools(
    agent_id: str, organization_id: str, tool_config: AgentToolConfig, *, sources: ToolSources
) -> CollectedTools:
    """Collect with the process's registry; see :meth:`ToolBuilders.collect_agent_tools`."""
    return await ToolBuilders(sources).collect_agent_tools(agent_id, organization_id, tool_config)


def _collected(built: Sequence[BuiltTool]) -> CollectedTools:
    sections = "\n\n".join(tool.section for tool in built)
    return CollectedTools(tuple(tool.definition for tool in built), f"{ADDENDUM_HEADING}\n\n{sections}")


def _check_built(name: str, tool: BuiltTool) -> None:
    if tool.definition.name != name:
        raise AppError(f"the builder of {name} built a tool named {tool.definition.name}")
    if _SECTION_HEADING.match(tool.section) is None:
        raise AppError(f"the prompt section of {name} must start with a ### heading")
    try:
        ClosedSchema(tool.definition.parameters)
    except ToolDefinitionError as error:
        raise AppError(f"the parameters of {name}: {error}") from error


async def _bound(registered: RegisteredTool, context: BindContext) -> RuntimeTool:
    try:
        answer = registered.bind(context)
        tool = await answer if inspect.isawaitable(answer) else answer
    except ToolDefinitionError as error:
        raise AppError(f"{registered.name} cannot be bound: {error}") from error
    definition = context.definition
    if tool.name != definition.name:
        raise AppError(f"{definition.name} was bound to a tool named {tool.name}")
    if tool.input != plain_json(definition.parameters):
        raise AppError(f"{definition.name} was bound to a tool that takes other arguments")
    if tool.description != definition.description:
        raise AppError(f"{definition.name} was bound to a tool with another description")
    return tool
