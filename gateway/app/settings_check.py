"""The last pass over good settings: the scripts of fake providers, which only they can read."""

from __future__ import annotations

from config.errors import Marks, Problem
from config.models import Settings
from config.providers import FakeSettings
from providers.fakes.script import ScriptError, load_script


def check_settings(settings: Settings, marks: Marks) -> list[Problem]:
    """Check each script; handed to :func:`config.load.load`, so that a bad one never reaches a provider."""
    problems = []
    for name, entry in settings.providers.items():
        if isinstance(entry, FakeSettings) and entry.script is not None:
            try:
                load_script(entry.script)
            except ScriptError as error:
                path = ("providers", name, "script")
                said = " | ".join(error.problems)
                problems.append(marks.problem(path, f"the script cannot be used: {said}"))
    return problems
