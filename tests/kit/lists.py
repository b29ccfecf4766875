"""The lists that gate a run: text files with one entry a line; a line that starts with ``#`` is a comment."""

from __future__ import annotations

import json
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SHARED = TESTS.parents[1] / "shared"


def entries(path: Path) -> list[str]:
    """Return the lines of a list without comments and blanks; a missing file is an empty list."""
    if not path.exists():
        return []
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def allowed_skips(folder: Path = TESTS) -> dict[str, str]:
    """Return test id -> reason from ``allowed_skips.txt``, whose lines read ``test id | reason``."""
    rows = (line.rpartition(" | ") for line in entries(folder / "allowed_skips.txt"))
    return {test.strip(): reason.strip() for test, _, reason in rows}


def debian_packages(folder: Path = TESTS) -> list[tuple[str, str]]:
    """Return the Debian packages that tests need, each with a command or file that it brings."""
    rows = (line.split() for line in entries(folder / "kit" / "debian-packages.txt"))
    return [(package, command) for package, command in rows]


def requirements() -> list[str]:
    """Return the ids of the requirements that must have a passing test."""
    return [id_ for line in entries(TESTS / "requirements.txt") for id_ in line.split()]


def finished_reports() -> dict[str, list[str]]:
    """Return category -> ids of the field reports that must have a passing test."""
    rows = (line.partition(":") for line in entries(TESTS / "finished_reports.txt"))
    return {category.strip(): ids.split() for category, _, ids in rows}


def shared_reports() -> dict[str, list[str]]:
    """Return category -> ids from ``../shared`` where the workplace lays it, otherwise nothing."""
    path = SHARED / "field-reports" / "reports.jsonl"
    found: dict[str, list[str]] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            row = json.loads(line)
            found.setdefault(row["category"], []).append(row["id"])
    return found


def shared_requirements() -> list[str]:
    """Return every requirement id of ``../shared`` where the workplace lays it, otherwise nothing."""
    path = SHARED / "spec" / "requirements.md"
    return re.findall(r"^\| ([A-Z]-\d+) \|", path.read_text(), re.MULTILINE) if path.exists() else []
