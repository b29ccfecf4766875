"""
``python -m tests.kit.tree``: what no linter of ours checks about the tree, one line for each fault.

Sizes of files and functions, words that mean unfinished work, paths of one machine, links between the
documents, and that ``requirements.lock`` answers ``pyproject.toml``.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES = 500
FUNCTION_LINES = 60
PRODUCT = ("gateway/", "providers/", "tools/", "config/", "deploy/", "docs/", "Makefile", "README.md")
UNFINISHED = re.compile(
    r"raise NotImplementedError|\bTODO\b|\bFIXME\b|\bXXX\b|not implemented|placeholder|coming soon|for now|"
    r"simplified"
)
ONE_MACHINE = re.compile(r"/(?:root|home/[a-z]+|tmp/[a-z]+)/")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+?)(?:\s*;\s*(.+?))?\s*\\?$", re.MULTILINE)
ADDRESS = re.compile(r"https?://|--(?:extra-)?index-url|--find-links")


def files(root: Path) -> list[Path]:
    """Return every file that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [root / name for name in names.split("\0") if name and (root / name).is_file()]


def too_long(path: Path, text: str) -> Iterator[str]:
    """Yield a fault for a file or a function above the ceilings of CONTRIBUTING."""
    if path.suffix != ".py":
        return
    if (lines := text.count("\n")) > FILE_LINES:
        yield f"{lines} lines, {FILE_LINES} are allowed"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{node.name}() has {lines} lines, {FUNCTION_LINES} are allowed"


def unfinished(name: str, text: str) -> Iterator[str]:
    """Yield a fault for each word in the product that means that something is left to do."""
    if name.startswith(PRODUCT) and not name.startswith("docs/evidence/"):
        for found in UNFINISHED.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"line {line} says {found.group()!r}"


def one_machine(name: str, text: str) -> Iterator[str]:
    for found in ONE_MACHINE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"line {line} names a path of one machine: {found.group()}"


def dead_links(path: Path, text: str) -> Iterator[str]:
    """Yield a fault for each relative Markdown link whose file is not there."""
    if path.suffix == ".md":
        for target in LINK.findall(text):
            file = target.partition("#")[0]
            if file and ":" not in file and not (path.parent / file).exists():
                yield f"links to {target}, which is not there"


def lock_faults(project: str, lock: str) -> list[str]:
    """
    Return where a lock does not answer a ``pyproject.toml``; both are given as text.

    Every requirement of the project and its extras must be pinned to a version that it allows, every pin must
    carry a hash, every direct pin must still be asked for, and no address may stand in the file.
    """
    table = tomllib.loads(project)["project"]
    lines = [*table["dependencies"], *(r for group in table["optional-dependencies"].values() for r in group)]
    wanted = {canonicalize_name(r.name): r for r in map(Requirement, lines)}
    pins: dict[str, list[str]] = {}
    for name, version, _marker in PIN.findall(lock):
        pins.setdefault(canonicalize_name(name), []).append(version)
    faults = [f"has an address: {found}" for found in ADDRESS.findall(lock)]
    for name, requirement in wanted.items():
        if not any(
            requirement.specifier.contains(version, prereleases=True) for version in pins.get(name, ())
        ):
            faults.append(f"pins {name} {pins.get(name, 'nowhere')}, wanted {requirement}: make lock")
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        found = PIN.match(block)
        if found and "--hash=sha256:" not in block:
            faults.append(f"has no hash for {found[1]}")
        direct = re.search(rf"#\s+(?:via\s+)?{re.escape(table['name'])} \(pyproject", block)
        if found and direct and canonicalize_name(found[1]) not in wanted:
            faults.append(f"pins {found[1]}, which pyproject.toml does not ask for any more: make lock")
    return faults


def faults(root: Path) -> list[str]:
    """Return every fault of the tree as ``file: what is wrong``."""
    found = []
    for path in files(root):
        name = str(path.relative_to(root))
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # audio, pictures and torture messages are not ours to read
        own = "tests/kit/" in name and path.name in ("tree.py", "test_tree.py")
        checks = [too_long(path, text), dead_links(path, text), unfinished(name, text)]
        if not own:
            checks.append(one_machine(name, text))
        found += [f"{name}: {fault}" for check in checks for fault in check]
    project, lock = (root / "pyproject.toml").read_text(), (root / "requirements.lock").read_text()
    return found + [f"requirements.lock: {fault}" for fault in lock_faults(project, lock)]


if __name__ == "__main__":
    problems = faults(ROOT)
    print("\n".join(problems) or "tree: sizes, words, links and the lock are as they should be")
    sys.exit(1 if problems else 0)
