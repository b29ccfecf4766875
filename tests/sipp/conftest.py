"""One gateway for all scenarios that a worker runs: its start costs more than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.gateway import Gateway
from tests.kit.ports import Ports
from tests.sipp.agents import settings


@pytest.fixture(scope="session")
def ports() -> Iterator[Ports]:
    """Give ports from a few blocks: one that SIPp used over TCP cannot be had again for a minute."""
    with Ports() as ports:
        yield ports


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Give the gateway with an agent for each scene and a trunk for each address."""
    folder = tmp_path_factory.mktemp("gateway")
    with Ports() as ports, Gateway(settings(folder), ports, folder, hosts=("127.0.0.1", "::1")) as gateway:
        yield gateway
