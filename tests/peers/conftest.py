"""Offices for tests with real peers; see tests/kit/office.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.office import Office, make_office
from tests.kit.ports import Ports


@pytest.fixture
def ports() -> Iterator[Ports]:
    with Ports() as ports:
        yield ports


@pytest.fixture(params=["fake", "openai", "openai-live"])
def office(request: pytest.FixtureRequest, ports: Ports, tmp_path: Path) -> Iterator[Office]:
    """Give an office of each provider in turn."""
    yield from make_office(request.param, ports, tmp_path)


@pytest.fixture
def fake_office(ports: Ports, tmp_path: Path) -> Iterator[Office]:
    """Give an office with the fake provider alone, for what no provider changes."""
    yield from make_office("fake", ports, tmp_path)


@pytest.fixture
def openai_office(ports: Ports, tmp_path: Path) -> Iterator[Office]:
    yield from make_office("openai", ports, tmp_path)


@pytest.fixture
def live_office(ports: Ports, tmp_path: Path) -> Iterator[Office]:
    yield from make_office("openai-live", ports, tmp_path)


@pytest.fixture
def gemini_office(ports: Ports, tmp_path: Path) -> Iterator[Office]:
    yield from make_office("gemini", ports, tmp_path)
