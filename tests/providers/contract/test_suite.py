"""What the suite promises of itself: each provider keeps nearly all of it, and none is excused by name."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers.contract.kinds import KINDS
from tests.providers.contract.needs import lacking

FOLDER = Path(__file__).parent
LEAST_KEPT = 60
MOST_SKIPPED = 24
"""Behaviours that one provider may lack, because of its turn model or because its far side has no wire."""


def behaviours() -> Iterator[tuple[str, tuple]]:
    """Yield each test of this folder that is asked of every provider, with what it needs."""
    for path in sorted(FOLDER.glob("test_*.py")):
        module = importlib.import_module(f"tests.providers.contract.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_") and "dial" in test.__code__.co_varnames[: test.__code__.co_argcount]:
                marks = getattr(test, "pytestmark", [])
                yield name, tuple(need for mark in marks if mark.name == "needs" for need in mark.args)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_every_provider_keeps_at_least_sixty_behaviours_and_lacks_few(kind) -> None:
    skipped = {name for name, needs in behaviours() if lacking(kind, needs)}
    kept = {name for name, _ in behaviours()} - skipped
    assert len(kept) >= LEAST_KEPT
    assert len(skipped) <= MOST_SKIPPED, sorted(skipped)


def test_every_behaviour_is_asked_of_somebody() -> None:
    assert [name for name, needs in behaviours() if all(lacking(kind, needs) for kind in KINDS)] == []


def test_no_behaviour_asks_for_a_name() -> None:
    names = {kind.name for kind in KINDS}
    for path in FOLDER.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in names, f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Attribute):
                assert not (node.attr == "name" and getattr(node.value, "attr", "") == "kind"), path.name


def test_every_trouble_that_a_far_side_can_make_is_asked_for() -> None:
    asked = {need for _, needs in behaviours() for need in needs}
    assert {trouble for kind in KINDS for trouble in kind.troubles} <= asked
