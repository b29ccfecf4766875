"""The second pass over the settings: each agent's tools against the tools that exist."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, JsonValue

from config import tool_checks
from config.errors import Marks, Problem
from tools import tool_registry


def known_tools() -> dict[str, type[BaseModel] | None]:
    """Each tool that may be configured, with the model of its settings."""
    return {toggle.name: toggle.settings for toggle in tool_registry.toggles()}


def check_tools(agent: str, tools: Mapping[str, JsonValue], marks: Marks) -> list[Problem]:
    """Check the ``tools`` mapping of one agent; handed to :func:`config.load.load`."""
    return tool_checks.check_tools(agent, tools, marks, known=known_tools())
