"""Every asynchronous test of this folder runs on both event loops."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from providers.types import PCMU
from tests.gateway.net.stream_line import Line


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def lines():
    opened: list[Line] = []

    async def open_line(audio_format=PCMU, **options) -> Line:
        opened.append(Line(audio_format))
        return await opened[-1].open(**options)

    yield open_line
    for line in opened:
        await line.close()


@pytest.fixture
async def line(lines):
    return await lines()
