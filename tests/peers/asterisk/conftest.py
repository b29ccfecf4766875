"""Asterisk is a large download: these tests are collected only by `make peers`, which names the folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.asterisk import Asterisk
from tests.kit.gateway import Gateway
from tests.kit.office import recording
from tests.kit.ports import Ports
from tests.sipp.agents import settings

FOLDER = os.environ.get("ASTERISK_DIR", "")
if not FOLDER:
    collect_ignore_glob = ["test_*.py"]

Start = Callable[..., Asterisk]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Give a gateway with an agent for each thing that it can do."""
    folder = tmp_path_factory.mktemp("gateway")
    with Ports() as ports, Gateway(settings(folder), ports, folder) as gateway:
        yield gateway


@pytest.fixture
def start(gateway: Gateway, ports: Ports, tmp_path: Path) -> Iterator[Start]:
    """Give what starts an Asterisk before that gateway, or before another one."""
    with ExitStack() as stack:

        def start_asterisk(**options: object) -> Asterisk:
            arguments = {"gateway": gateway.sip, "words": recording("caller_thanks"), **options}
            return stack.enter_context(Asterisk(Path(FOLDER), ports, tmp_path / "asterisk", **arguments))

        yield start_asterisk
