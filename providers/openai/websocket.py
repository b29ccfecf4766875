"""The WebSocket under the SDK's connection: a short way for audio, and an end that does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.protocol import State

CLOSE_TIMEOUT = 1.0
"""Seconds; a call's end does not wait longer for the server."""


class Socket(ClientConnection):
    """
    What ``websockets`` makes for the SDK, through its documented hook ``create_connection``.

    Args:
        opened: Is given the new socket; the SDK keeps its own reference to itself.
        protocol: And the rest: as for the base class.
    """

    def __init__(
        self,
        protocol: ClientProtocol,
        *,
        opened: Callable[[Socket], None],
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
            await self.drain()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close within :data:`CLOSE_TIMEOUT`, also when the server does not read any more."""
        # The library's own limit begins only when the close frame has been written.
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await super().close(code, reason)
        except TimeoutError:
            self.transport.abort()
            await self.wait_closed()
