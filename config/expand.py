"""
``${env:NAME}`` and ``${file:PATH}`` inside the strings of a configuration file.

``$${`` stands for a literal ``${``. What comes out may be a secret: nothing here shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_REFERENCE = re.compile(r"\$(?P<escape>\$\{)|\$\{(?P<body>[^{}]*)\}|(?P<open>\$\{)")
_MAX_BYTES = 64 << 10

Fault = tuple[str, str]
"""What is wrong, what to write."""


class Expander:
    """
    Replaces references.

    Args:
        base: Folder where relative paths start.
        environ: Environment variables.
        files: Gets the path of every file that was read.
    """

    def __init__(self, base: Path, environ: Mapping[str, str], files: set[Path]) -> None:
        self._base = base
        self._environ = environ
        self._files = files

    def expand(self, text: str) -> tuple[str, list[Fault]]:
        """Return the text with its references replaced, and what is wrong with them."""
        if "${" not in text:
            return text, []
        faults: list[Fault] = []

        def replace(match: re.Match[str]) -> str:
            if match["escape"]:
                return "${"
            if match["open"]:
                faults.append(
                    ("a ${ is not closed", "write ${env:NAME} or ${file:PATH}, or $${ for a literal ${")
                )
                return ""
            value = self._look_up(match["body"])
            if isinstance(value, str):
                return value
            faults.append(value)
            return ""

        return _REFERENCE.sub(replace, text), faults

    def _look_up(self, body: str) -> str | Fault:
        kind, _, name = body.partition(":")
        match kind:
            case "env" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                value = self._environ.get(name, "")
                return value or (
                    f"the environment variable {name} is not set" if name not in self._environ
                    else f"the environment variable {name} is empty",
                    f"set {name} before the start, or write another reference",
                )  # fmt: skip
            case "file" if name.strip():
                return self._read(name)
            case _:
                return (
                    f"${{{body}}} is not a reference",
                    "write ${env:NAME} or ${file:PATH}, or $${ for a literal ${",
                )

    def _read(self, name: str) -> str | Fault:
        path = self._base / name
        self._files.add(path)
        try:
            with path.open("rb") as file:
                raw = file.read(_MAX_BYTES + 1)
            text = raw.decode("utf-8")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            return (
                f"the file {name} cannot be read: {why}",
                f"write a path relative to {self._base.absolute()}",
            )
        if len(raw) > _MAX_BYTES:
            return f"the file {name} is larger than 64 KiB", "name a file that holds the secret alone"
        return text.rstrip("\r\n") or (f"the file {name} is empty", "put the secret into it")
