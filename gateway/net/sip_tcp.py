"""SIP over TCP: connections of peers and our own, with caps on everything (RFC 3261, section 18)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from gateway.net.sip_udp import bound_socket
from gateway.sip.flow import Address, Flow
from gateway.sip.stream import FramingError, StreamFramer


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """What connections may cost."""

    max_connections: int = 512
    write_buffer: int = 256 * 1024
    """Octets that may wait for a slow peer; then its connection is cut."""
    idle_after: float = 900.0
    """Seconds without a byte from the peer; its keep-alives count."""
    partial_after: float = 30.0
    """Seconds that an incomplete message may take."""
    stalled_after: float = 6.0
    """Seconds that octets may wait for a peer that reads nothing, also when it has closed its own side."""
    connect_after: float = 5.0


class TcpConnection(asyncio.Protocol):
    """One connection, whoever opened it."""

    def __init__(self, owner: TcpConnections, number: int, *, ours: bool) -> None:
        self._owner = owner
        self._ours = ours
        self._welcome = False
        self._framer = StreamFramer()
        self._transport: asyncio.Transport | None = None
        self.number = number
        self.flow = Flow("tcp", ("", 0), ("", 0), number)
        self.heard_at = 0.0
        self.partial_since: float | None = None
        self.unread_since: float | None = None
        """Since when something waits to be written; ``None`` while nothing does."""
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._transport.set_write_buffer_limits(high=0)  # so that we are told whenever something waits
        remote, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if not remote or not local:  # reset before we looked
            self.abort()
            return
        # On a connection of ours the port is a passing one: peers reach us where we listen.
        port = (self._owner.listening_port if self._ours else None) or local[1]
        self.flow = Flow("tcp", remote[:2], (local[0], port), self.number)
        # Where a Contact led us to, somebody may answer our request; only who is allowed may ask.
        self._welcome = self._owner.allowed(self.flow.remote[0])
        if not self._owner.admit(self, denied=not self._welcome and not self._ours):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self.closed.set()
        self._owner.forget(self)

    def pause_writing(self) -> None:
        self.unread_since = self._owner.now()

    def resume_writing(self) -> None:
        self.unread_since = None

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self.heard_at = self._owner.now()
        broken: FramingError | None = None
        try:
            self._framer.receive(data)
        except FramingError as error:
            broken = error
        if pong := self._framer.to_send():
            self.send(pong)
        for message in self._framer.messages():
            if self._welcome or message.startswith(b"SIP/"):
                self._owner.on_message(message, self.flow)
        if broken is not None and not self._welcome:
            self.abort()
        elif broken is not None:
            # The user agent refuses the head for the reason that broke the stream; its answer is
            # written before the connection closes.
            self._owner.on_message(broken.head, self.flow)
            self.close()
        self.partial_since = (self.partial_since or self.heard_at) if self._framer.partial else None

    def send(self, data: bytes) -> bool:
        """Write; ``False`` when the connection is gone or the peer reads too slowly."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if transport.get_write_buffer_size() + len(data) > self._owner.limits.write_buffer:
            self.abort()
            return False
        transport.write(data)
        return True

    def close(self) -> None:
        """Close once everything is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class TcpConnections:
    """
    All TCP connections of an endpoint.

    Args:
        allowed: Whether a peer, known by its IP address alone, may connect.
        on_denied: Hears of those that may not.
        on_message: Gets one whole message and its flow.
        limits: Caps and time-outs.
    """

    def __init__(
        self,
        *,
        allowed: Callable[[str], bool],
        on_denied: Callable[[str], None],
        on_message: Callable[[bytes, Flow], None],
        limits: TcpLimits,
    ) -> None:
        self.allowed = allowed
        self._on_denied = on_denied
        self.on_message = on_message
        self.limits = limits
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._open: dict[int, TcpConnection] = {}
        self._serial = 0
        self._sweep: asyncio.TimerHandle | None = None
        self.listening_port: int | None = None
        """Of the first address that we listen on."""

    def __len__(self) -> int:
        return len(self._open)

    def now(self) -> float:
        return self._loop.time()

    async def listen(self, host: str, port: int) -> Address:
        """Listen on an IP address and return where; raise ``OSError``."""
        sock = bound_socket(socket.SOCK_STREAM, host, port)
        try:
            server = await self._loop.create_server(lambda: self._make(ours=False), sock=sock)
        except OSError:
            sock.close()
            raise
        self._servers.append(server)
        address: Address = sock.getsockname()[:2]
        self.listening_port = self.listening_port or address[1]
        return address

    async def connect(self, address: Address) -> TcpConnection | None:
        """Open a connection; ``None`` when that fails or takes too long, or there are too many."""
        try:
            async with asyncio.timeout(self.limits.connect_after):
                _, connection = await self._loop.create_connection(lambda: self._make(ours=True), *address)
        except (OSError, TimeoutError):
            return None
        return connection if connection.number in self._open else None

    def by_flow(self, flow: Flow) -> TcpConnection | None:
        """Return the connection of a flow; for a flow without id, any connection to its remote address."""
        if flow.id:
            return self._open.get(flow.id)
        return next((each for each in self._open.values() if each.flow.remote == flow.remote), None)

    def admit(self, connection: TcpConnection, *, denied: bool) -> bool:
        """Take in a new connection, or not, before a byte of it is read."""
        if denied:
            self._on_denied(connection.flow.remote[0])
            return False
        if len(self._open) >= self.limits.max_connections:
            return False
        connection.heard_at = self.now()
        self._open[connection.number] = connection
        if self._sweep is None:
            self._arm_sweep()
        return True

    def forget(self, connection: TcpConnection) -> None:
        self._open.pop(connection.number, None)

    async def close(self) -> None:
        """Cut all connections and stop listening."""
        if self._sweep is not None:
            self._sweep.cancel()
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        connections = list(self._open.values())
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.closed.wait()
        for server in servers:
            await server.wait_closed()

    def _make(self, *, ours: bool) -> TcpConnection:
        self._serial += 1
        return TcpConnection(self, self._serial, ours=ours)

    def _arm_sweep(self) -> None:
        limits = self.limits
        after = min(limits.idle_after, limits.partial_after, limits.stalled_after) / 2
        self._sweep = self._loop.call_later(after, self._close_idle)

    def _close_idle(self) -> None:
        now = self.now()
        for connection in list(self._open.values()):
            stuck, unread = connection.partial_since, connection.unread_since
            if unread is not None and now - unread >= self.limits.stalled_after:
                connection.abort()  # closing would wait for the peer to read
            elif now - connection.heard_at >= self.limits.idle_after:
                connection.close()
            elif stuck is not None and now - stuck >= self.limits.partial_after:
                connection.abort()
        self._sweep = None
        if self._open:
            self._arm_sweep()
