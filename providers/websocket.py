"""The WebSocket under the SDK's connection: a short way for audio, and an end that does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.protocol import State

CLOSE_TIMEOUT = 1.0
"""Seconds; a call's end does not wait longer for the server."""
STALLED_AFTER = 10.0
"""Seconds that a full socket may stay full: then the server has stopped reading, and the session is lost."""


class Socket(ClientConnection):
    """
    What ``websockets`` makes for the SDK, through its documented hook ``create_connection``.

    Args:
        opened: Is given the new socket; the SDK keeps its own reference to itself.
        stalled_after: :data:`STALLED_AFTER`; another value is for tests.
        protocol: And the rest: as for the base class.
    """

    def __init__(
        self,
        protocol: ClientProtocol,
        *,
        opened: Callable[[Socket], None],
        stalled_after: float = STALLED_AFTER,
        ping_interval: float | None,
        ping_timeout: float | None,
        close_timeout: float | None,
        max_queue: int | tuple[int | None, int | None] | None,
        write_limit: int | tuple[int, int | None],
    ) -> None:
        super().__init__(
            protocol,
            ping_interval=ping_interval,
            ping_timeout=ping_timeout,
            close_timeout=close_timeout,
            max_queue=max_queue,
            write_limit=write_limit,
        )
        self._stalled_after = stalled_after
        opened(self)

    async def send_text(self, payload: bytes) -> None:
        """
        Send one text frame; waits while the socket is full.

        The same as ``send(payload, text=True)`` for a quarter of the CPU: fifty frames a
        second of each call go this way.
        """
        if self.protocol.state is not State.OPEN or self.send_in_progress is not None:
            await self.send(payload, text=True)
            return
        self.protocol.send_text(payload)
        self.send_data()
        if self.paused:
            try:
                await self.drain()
            except OSError:
                await self.wait_closed()  # as from ``send``: the reader hears why

    async def drain(self) -> None:
        """
        Wait for room, but not for ever; every send comes through here, the library's pings too.

        Without a limit a ping would wait for the room that it is to watch over, and the session would hang.

        Raises:
            OSError: The connection broke, or was cut because the server does not read any more.
        """
        try:
            async with asyncio.timeout(self._stalled_after):
                await super().drain()
        except TimeoutError:
            self.transport.abort()
            raise ConnectionAbortedError("the server has stopped reading") from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close within :data:`CLOSE_TIMEOUT`, also when the server does not read any more."""
        # The library's own limit begins only when the close frame has been written.
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await super().close(code, reason)
        except TimeoutError:
            self.transport.abort()
            await self.wait_closed()
