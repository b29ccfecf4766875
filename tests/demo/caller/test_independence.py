"""The caller shares nothing with what it tests."""

import ast
import subprocess
import sys
from pathlib import Path

import deploy.demo.caller

OURS = {"gateway", "providers", "tools", "config"}
FOLDER = Path(deploy.demo.caller.__file__).parent


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_no_file_of_the_caller_imports_the_gateway():
    files = [*FOLDER.rglob("*.py"), FOLDER.parent / "stub.py"]
    names = {(path.name, name) for path in files for name in imported(path)}

    assert len(files) > 5
    assert not {(file, name) for file, name in names if name.split(".")[0] in OURS}


def test_a_running_caller_has_no_module_of_the_gateway_loaded():
    program = (
        "import sys, deploy.demo.caller.__main__ as caller, deploy.demo.stub\n"
        "caller.options_of(['--gateway', '127.0.0.1:1', '--to', '1', '--out', '.'])\n"
        f"print(sorted(name for name in sys.modules if name.split('.')[0] in {OURS!r}))"
    )
    root = FOLDER.parents[2]
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"


def test_a_file_of_the_caller_has_at_most_500_lines():
    assert all(path.read_text().count("\n") <= 500 for path in FOLDER.rglob("*.py"))
