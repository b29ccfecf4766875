"""
Carries frames and time between one WebSocket connection and a session that has neither.

Every server of this package runs its sessions so: a session computes, the pump waits.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

_SMALL_BUFFER = 4096


@dataclass(frozen=True, slots=True)
class Close:
    """How the connection is to end; 1006 is a cut without a close frame."""

    code: int
    reason: str = ""


class Session(Protocol):
    """What a pump drives; ``closing`` ends the connection once everything was sent."""

    closing: Close | None

    def receive(self, frame: str | bytes, now: float) -> None: ...

    def handle_timeout(self, now: float) -> None: ...

    def next_timeout(self) -> float | None: ...

    def to_send(self) -> list[bytes]: ...


class Pump:
    """
    One connection and its session.

    Args:
        text: Whether frames leave as text frames; as binary ones else.
        read_delay: Seconds to wait after each frame that was read, with a small socket buffer.
    """

    def __init__(
        self, connection: ServerConnection, session: Session, *, text: bool, read_delay: float = 0.0
    ) -> None:
        self._connection = connection
        self._session = session
        self._text = text
        self._read_delay = read_delay
        self._changed = asyncio.Event()

    async def run(self) -> None:
        if self._read_delay:
            transport_socket = self._connection.transport.get_extra_info("socket")
            transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        try:
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(self._read(), name="fake-read")
                await self._write()
                reader.cancel()
        except* ConnectionClosed:
            pass  # the client left; its session stays for the tests to look at

    async def _read(self) -> None:
        async for frame in self._connection:
            self._session.receive(frame, now())
            self._changed.set()
            if self._read_delay:
                await self._dawdle()
        await self._connection.wait_closed()
        self._changed.set()

    async def _dawdle(self) -> None:
        """Wait before the next frame is read, but for nobody who has left."""
        try:
            async with asyncio.timeout(self._read_delay):
                await self._connection.wait_closed()
        except TimeoutError:
            pass

    async def _write(self) -> None:
        """Send what there is, wait for more or for the time; return when the connection is over."""
        while True:
            self._changed.clear()
            self._session.handle_timeout(now())
            for frame in self._session.to_send():
                await self._connection.send(frame, text=self._text)
            if self._session.closing:
                await self._close(self._session.closing)
                return
            if self._connection.close_code is not None:
                return
            due = self._session.next_timeout()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - now())):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _close(self, close: Close) -> None:
        if close.code == 1006:
            self._connection.transport.abort()
        else:
            await self._connection.close(close.code, close.reason)


def now() -> float:
    """Return the loop's time."""
    return asyncio.get_running_loop().time()


def hold_pongs(connection: ServerConnection, after: float | None) -> None:
    """Make the protocol answer pings only after so many seconds, or never; there is no option for that."""
    protocol = connection.protocol
    send_frame = protocol.send_frame
    loop = asyncio.get_running_loop()

    def send_late(frame: Frame) -> None:
        if connection.close_code is None and not connection.transport.is_closing():
            send_frame(frame)
            connection.transport.write(b"".join(protocol.data_to_send()))

    def send_all_but_pongs(frame: Frame) -> None:
        if frame.opcode is not Opcode.PONG:
            send_frame(frame)
        elif after is not None:
            loop.call_later(after, send_late, frame)

    setattr(protocol, "send_frame", send_all_but_pongs)  # noqa: B010  (mypy forbids the plain assignment)
