"""
From a YAML file to :class:`Settings`, or to everything that is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue, ValidationError

from config.checks import (
    cross_references,
    mapping_at,
    shared_networks,
    trunk_certificates,
    trunk_listeners,
    warnings_of,
)
from config.errors import ConfigError, Marks, Problem, problems_of
from config.models import Settings
from config.price_checks import price_problems, price_warnings
from config.source import Source, read_source
from config.tool_checks import check_entries
from config.voices import voice_problems, voice_warnings

ToolCheck: TypeAlias = Callable[[str, Mapping[str, JsonValue], Marks], list[Problem]]
"""Checks the ``tools`` mapping of an agent: the agent's name, the mapping, where its keys stand."""

SettingsCheck: TypeAlias = Callable[[Settings, Marks], list[Problem]]
"""Checks settings that are good by themselves against what only the caller knows."""


@dataclass(frozen=True)
class Loaded:
    """
    A configuration that can be used.

    Attributes:
        settings: The frozen settings.
        marks: Where each key stands.
        warnings: What is probably not meant, in the form of problems.
        files: Every other file that the settings were read from (prompts, secrets, scripts).
    """

    settings: Settings
    marks: Marks = field(repr=False)
    warnings: tuple[Problem, ...] = ()
    files: frozenset[Path] = frozenset()


def load(
    path: str | Path,
    *,
    check_tools: ToolCheck | None = None,
    check_settings: SettingsCheck | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """
    Read a configuration file.

    Args:
        path: The YAML file; relative paths in it start in its folder.
        check_tools: Second pass over each agent's tools, made of the tool registry.
        check_settings: Last pass over settings that have no problem so far.
        environ: Environment of ``${env:X}``; the process's own when left out.

    Raises :exc:`ConfigError` with all problems at once, in the order of the file.
    """
    path = Path(path)
    files: set[Path] = set()
    source = read_source(path, os.environ if environ is None else environ, files)
    if source.data is None and source.problems:
        raise ConfigError(source.problems, files)
    problems = list(source.problems)
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(source.data, context={"base": path.parent, "files": files})
    except ValidationError as error:
        problems += problems_of(error, model=Settings, marks=source.marks)
    problems += cross_references(source.data, source.marks)
    problems += shared_networks(source.data, source.marks)
    problems += trunk_certificates(source.data, source.marks)
    problems += trunk_listeners(source.data, source.marks)
    problems += voice_problems(source.data, source.marks)
    problems += price_problems(source.data, source.marks)
    problems += _check_tools(source, check_tools)
    if settings is not None and not problems and check_settings is not None:
        problems += check_settings(settings, source.marks)
    if problems or settings is None:
        raise ConfigError(_first_of_each(problems), files)
    warnings = [
        *warnings_of(settings, source.marks),
        *voice_warnings(source.data, source.marks),
        *price_warnings(settings, source.marks, datetime.now(UTC).date()),
    ]
    return Loaded(settings, source.marks, tuple(sorted(warnings)), frozenset(files))


def _check_tools(source: Source, check: ToolCheck | None) -> list[Problem]:
    problems = []
    for agent in mapping_at(source.data, "agents"):
        tools = mapping_at(source.data, "agents", agent, "tools")
        problems += check_entries(agent, tools, source.marks)
        if check is not None:
            problems += check(agent, tools, source.marks)
    return problems


def _first_of_each(problems: list[Problem]) -> list[Problem]:
    """Keep one problem for each key: the later ones only follow from the first."""
    seen: dict[tuple[int, str], Problem] = {}
    for problem in problems:
        seen.setdefault((problem.line, problem.path), problem)
    return sorted(seen.values())
