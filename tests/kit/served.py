"""
A fake model's server in a thread of the test, so that it can be asked what it was told.

``trunkline serve`` talks to it over sockets as it does in life. The servers share no code with the providers.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from types import TracebackType


class Served:
    """
    A server that runs while the ``with`` block does.

    Args:
        server: Any of the fakes' servers.
    """

    def __init__(self, server: AbstractAsyncContextManager[object]) -> None:
        self._server = server
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="model", daemon=True)

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._server:
            self._ready.set()
            await self._stop.wait()
