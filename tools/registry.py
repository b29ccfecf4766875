"""
The list of tools that an agent may be given: built in, and registered by others.

To add a tool, write a builder and a binding and register both; the collected definitions, the
prompt, the check of the configuration and the console's list of switches follow from that::

    register_tool_builder("opening_hours", build_opening_hours, bind_opening_hours)
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from config.agent_tools import AgentToolConfig
from tools.context import CallInvocationContext
from tools.errors import ToolDefinitionError
from tools.runtime import TOOL_NAME, RuntimeTool
from tools.sources import ToolSources
from tools.types import AgentToolDefinition


class BuiltTool(NamedTuple):
    """What a builder returns: what the tool does, and how the agent must use it."""

    definition: AgentToolDefinition
    """For the provider; facts only."""
    section: str
    """For the system prompt: markdown that starts with a ``###`` heading."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Whose tools are collected, from what."""

    agent_id: str
    organization_id: str
    tool_config: AgentToolConfig
    sources: ToolSources


@dataclass(frozen=True, slots=True)
class BindContext:
    """A collected tool that is to become executable on one call."""

    build: BuildContext
    definition: AgentToolDefinition
    call: CallInvocationContext


ToolBuilder: TypeAlias = Callable[[BuildContext], BuiltTool | Awaitable[BuiltTool | None] | None]
ToolBinding: TypeAlias = Callable[[BindContext], RuntimeTool | Awaitable[RuntimeTool]]


class NoSettings(BaseModel):
    """The settings of a tool that has none but its switch."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class ToolToggle:
    """One switch of the console's tool page."""

    name: str
    title: str
    always_on: bool
    settings: type[BaseModel]


@dataclass(frozen=True, slots=True)
class ToolConfigProblem:
    """Something in an agent's ``tools`` mapping that no tool understands."""

    path: tuple[str | int, ...]
    """Keys and indexes below ``tools``."""
    message: str


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A builder and its binding under the tool's name."""

    name: str
    build: ToolBuilder
    bind: ToolBinding
    title: str
    settings: type[BaseModel]
    always_on: bool = False
    built_in: bool = False


class ToolRegistry:
    """
    Tools by name, in the order of their prompt sections.

    ``end_call`` stands last whatever was registered after it: the prompt ends with how to end.
    """

    def __init__(self, built_in: tuple[RegisteredTool, ...] = ()) -> None:
        self._tools: dict[str, RegisteredTool] = {}
        for tool in built_in:
            self._add(tool)

    def register(
        self,
        name: str,
        build: ToolBuilder,
        bind: ToolBinding,
        *,
        title: str = "",
        settings: type[BaseModel] = NoSettings,
    ) -> None:
        """
        Add a tool; it is offered where the configuration enables ``name``.

        Args:
            name: What the model calls it, and the key in the configuration.
            build: ``build(BuildContext)``, sync or async; ``None`` when a prerequisite is missing.
            bind: ``bind(BindContext)``, sync or async; the tool that it returns must have the
                definition's name, description and schema, which is checked on every call.
            title: The console's label; made from the name when empty.
            settings: What may stand beside ``enabled`` in the configuration.

        Raises :exc:`tools.errors.ToolDefinitionError`; a name that is taken is never replaced.
        """
        self._add(RegisteredTool(name, build, bind, title or _title(name), settings))

    def remove(self, name: str) -> None:
        """Take a registered tool out again; built-in tools stay."""
        tool = self._tools.get(name)
        if tool is None or tool.built_in:
            raise ToolDefinitionError(f"tool {name!r} is not one that was registered")
        del self._tools[name]

    def __iter__(self) -> Iterator[RegisteredTool]:
        return iter(sorted(self._tools.values(), key=lambda tool: tool.always_on))

    def toggles(self) -> tuple[ToolToggle, ...]:
        """List what the console shows, in the order of the prompt."""
        return tuple(ToolToggle(tool.name, tool.title, tool.always_on, tool.settings) for tool in self)

    def check(self, tool_config: AgentToolConfig) -> tuple[ToolConfigProblem, ...]:
        """Find unknown tools and settings that their tools do not take; all at once."""
        problems: list[ToolConfigProblem] = []
        for name in tool_config.names:
            tool = self._tools.get(name)
            if tool is None:
                problems.append(ToolConfigProblem((name,), self._unknown(name)))
                continue
            try:
                tool_config.get_tool_settings(tool.settings, name)
            except ValidationError as error:
                problems += [ToolConfigProblem((name, *one["loc"]), one["msg"]) for one in error.errors()]
        return tuple(problems)

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._tools, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"unknown tool {name!r}: choose from {', '.join(tool.name for tool in self)}{hint}"

    def _add(self, tool: RegisteredTool) -> None:
        if TOOL_NAME.fullmatch(tool.name) is None:
            raise ToolDefinitionError(
                f"tool name {tool.name!r} must be 1 to 64 letters, digits, underscores or hyphens"
            )
        if tool.name in self._tools:
            raise ToolDefinitionError(f"a tool named {tool.name!r} exists already")
        for role, function in (("build", tool.build), ("bind", tool.bind)):
            _check_takes_one(tool.name, role, function)
        self._tools[tool.name] = tool


def _check_takes_one(name: str, role: str, function: object) -> None:
    if not callable(function):
        raise ToolDefinitionError(f"{name}: {role} is not callable")
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        raise ToolDefinitionError(f"{name}: {role} must accept one context") from None


def _title(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").title()
