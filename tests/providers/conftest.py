"""What touches a socket here runs on both event loops, as in the folders of the vendors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvloop


def pytest_asyncio_loop_factories(config, item):
    if item.path.parent == Path(__file__).parent:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
