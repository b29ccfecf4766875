"""
The second pass: the settings of an agent's tools, checked by whoever knows the tools.

``config`` does not know which tools exist. ``gateway.app`` hands :func:`check_tools` the tool
registry's names and settings models, so a new tool needs no change here.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, JsonValue, ValidationError

from config.agent_tools import TRANSFER_CALL, AgentToolConfig
from config.destinations import destination_fault
from config.errors import KeyPath, Marks, Problem, problems_of
from config.fields import did_you_mean


def check_tools(
    agent: str,
    tools: Mapping[str, JsonValue],
    marks: Marks,
    *,
    known: Mapping[str, type[BaseModel] | None],
) -> list[Problem]:
    """
    Check the ``tools`` mapping of one agent.

    Args:
        agent: Name of the agent.
        tools: The mapping as it stands in the file.
        marks: Where its keys stand.
        known: For each tool that exists its settings model, or ``None`` where it has no settings.
    """
    problems = []
    base = ("agents", agent, "tools")
    for name, entry in tools.items():
        if name not in known:
            near = did_you_mean(name, known) or f"known tools: {', '.join(known)}"
            problems.append(marks.problem((*base, name), "there is no such tool", near))
        elif isinstance(entry, dict):
            problems += _check_settings((*base, name), entry, known[name], marks)
    if not problems:
        problems += _check_transfer((*base, TRANSFER_CALL), tools, marks)
    return problems


def check_entries(agent: str, tools: Mapping[str, JsonValue], marks: Marks) -> list[Problem]:
    """Check what all tools have in common: each is a mapping, and ``enabled`` is true or false."""
    try:
        AgentToolConfig.model_validate(dict(tools))
    except ValidationError as error:
        return problems_of(error, model=AgentToolConfig, marks=marks, prefix=("agents", agent, "tools"))
    return []


class NoSettings(BaseModel, extra="forbid"):
    """A tool that can only be switched on and off."""


def _check_settings(
    path: KeyPath, entry: Mapping[str, JsonValue], model: type[BaseModel] | None, marks: Marks
) -> list[Problem]:
    settings = {key: value for key, value in entry.items() if key != "enabled"}
    model = model or NoSettings
    try:
        model.model_validate(settings)
    except ValidationError as error:
        return problems_of(error, model=model, marks=marks, prefix=path)
    return []


def _check_transfer(path: KeyPath, tools: Mapping[str, JsonValue], marks: Marks) -> list[Problem]:
    """Apply the rule of L-31, and apart from it that each number can be dialled (C-22)."""
    try:
        config = AgentToolConfig.model_validate(dict(tools))
    except ValidationError:
        return []  # reported by the first pass
    if sentence := config.validation_error():
        return [
            marks.problem(path, sentence.rstrip("."), 'add numbers: [{number: "+12125551234", label: Sales}]')
        ]
    entry = tools.get(TRANSFER_CALL)
    numbers = entry.get("numbers") if isinstance(entry, dict) else None
    problems = []
    for index, row in enumerate(numbers if isinstance(numbers, list) else []):
        number = row.get("number") if isinstance(row, dict) else None
        if isinstance(number, str) and number.strip() and (fault := destination_fault(number.strip())):
            problems.append(marks.problem((*path, "numbers", index, "number"), *fault))
    return problems
