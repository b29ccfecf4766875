"""The last pass over good settings: files of providers that only their own readers can judge."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

from config.errors import Marks, Problem
from config.models import Settings
from config.providers import FakeSettings, GeminiSettings
from providers.fakes.script import ScriptError, load_script

_ACCOUNT_KEYS = ("client_email", "private_key", "token_uri")


def check_settings(settings: Settings, marks: Marks) -> list[Problem]:
    """Check each file; handed to :func:`config.load.load`, so that a bad one never reaches a provider."""
    problems = []
    for name, entry in settings.providers.items():
        path = ("providers", name)
        match entry:
            case FakeSettings(script=Path() as script) if fault := _script_fault(script):
                problems.append(marks.problem((*path, "script"), f"the script cannot be used: {fault}"))
            case GeminiSettings():
                problems += _gemini_problems(entry, path, marks)
            case _:
                pass
    return problems


def _gemini_problems(entry: GeminiSettings, path: tuple[str, str], marks: Marks) -> list[Problem]:
    problems = []
    if entry.ca_file is not None and not _holds_certificates(entry.ca_file):
        problems.append(
            marks.problem((*path, "ca_file"), "holds no certificate", "write the path of a PEM file")
        )
    if entry.vertex is not None and (file := entry.vertex.credentials) is not None and not _is_account(file):
        problems.append(
            marks.problem(
                (*path, "vertex", "credentials"),
                "is no key of a service account",
                "write the path of the JSON file that Google gave out for it",
            )
        )
    return problems


def _script_fault(script: Path) -> str:
    try:
        load_script(script)
    except ScriptError as error:
        return " | ".join(error.problems)
    return ""


def _holds_certificates(file: Path) -> bool:
    try:
        ssl.create_default_context(cafile=file)
    except (ssl.SSLError, OSError):
        return False
    return True


def _is_account(file: Path) -> bool:
    try:
        held = json.loads(file.read_bytes())
    except (ValueError, OSError):
        return False
    return isinstance(held, dict) and all(isinstance(held.get(key), str) for key in _ACCOUNT_KEYS)
