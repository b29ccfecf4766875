"""A mistake of the product must not be shared by its fakes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import providers.fakes

FOLDER = Path(providers.fakes.__file__).parent
OURS = ("gateway", "providers", "tools", "config")
ALLOWED = ("providers.fakes", "providers.types", "providers.errors", "tools.types")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_the_fakes_import_only_the_seam(path):
    ours = [name for name in imports(path) if name.split(".")[0] in OURS]
    assert [name for name in ours if not name.startswith(ALLOWED)] == []


@pytest.mark.parametrize(
    "module",
    [
        "providers.fakes.voice",
        "providers.fakes.cli",
        "providers.fakes.gemini_cli",
        "providers.fakes.live_cli",
    ],
)
def test_neither_the_provider_nor_the_command_line_loads_an_sdk(module):
    sdks = ("openai", "google.genai")
    code = f"import sys, {module}; print([name for name in sys.modules if name.startswith({sdks})])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
