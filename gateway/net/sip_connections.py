"""All connections for SIP: TCP, TLS and WebSocket, of peers and our own, with caps on everything."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from gateway.net.sip_connection import Connection, ConnectionLimits, Listener
from gateway.net.sip_gate import Gate
from gateway.net.sip_udp import bound_socket, is_wildcard
from gateway.net.sip_websocket import WebSocketFramer
from gateway.net.tls import TlsContexts, TlsFailure, TlsSession
from gateway.sip.flow import Address, Flow, Transport


def unnoticed(flow: Flow) -> None:
    """For who has nothing to do when a connection is gone."""


class Connections:
    """
    All connections of an endpoint.

    Args:
        gate: Who may connect, and how much may be sent.
        advertise: Returns the address by which a peer reaches us, from the listener that stands for the
            connection, the peer's address and that of our end.
        on_message: Gets one whole message and its flow.
        limits: Caps and time-outs.
        tls: What TLS sessions are made from; may be replaced at any time, for new ones.
        origins: Web sites whose pages may open a WebSocket.
        on_lost: Hears of each connection of ours that is gone, whoever ended it.
    """

    def __init__(
        self,
        *,
        gate: Gate,
        advertise: Callable[[Listener | None, str, str], str],
        on_message: Callable[[bytes, Flow], None],
        limits: ConnectionLimits,
        tls: TlsContexts,
        origins: Sequence[str] = (),
        on_lost: Callable[[Flow], None] = unnoticed,
    ) -> None:
        self._on_lost = on_lost
        self.gate = gate
        self._advertise = advertise
        self.on_message = on_message
        self.limits = limits
        self.tls = tls
        self._origins = tuple(origins)
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._listeners: list[Listener] = []
        self._open: dict[int, Connection] = {}
        self._serial = 0
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def now(self) -> float:
        return self._loop.time()

    def call_later(self, after: float, what: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(after, what)

    def port_of(self, transport: Transport) -> int:
        """Where we listen for a transport; its default port where we do not."""
        listener = self._listener_of(transport)
        return listener.port if listener else (5061 if transport in {"tls", "wss"} else 5060)

    def place(self, transport: Transport, remote: str, local: str, listener: Listener | None) -> Address:
        """Return the address by which a peer reaches us, from its own and that of our end."""
        # On a connection of ours the port is a passing one: peers reach us where we listen.
        port = self.port_of(transport) if listener is None else listener.port
        return self._advertise(listener, remote, local), port

    async def listen(self, transport: Transport, host: str, port: int) -> Address:
        """Listen on an IP address and return where; raise ``OSError``, also where TLS has no certificate."""
        if transport in {"tls", "wss"} and not self.tls.can_accept:
            raise OSError(errno.EINVAL, "there is no certificate for it")
        sock = bound_socket(socket.SOCK_STREAM, host, port)
        address: Address = sock.getsockname()[:2]
        listener = Listener(transport, *address)
        try:
            server = await self._loop.create_server(lambda: self._accepted(listener), sock=sock)
        except OSError:
            sock.close()
            raise
        self._servers.append(server)
        self._listeners.append(listener)
        return address

    async def connect(
        self,
        transport: Transport,
        address: Address,
        *,
        local: Address | None = None,
        domain: str = "",
        verify: bool = True,
        within: float | None = None,
    ) -> Connection | None:
        """
        Open a TCP or TLS connection; ``None`` when that fails or takes too long, or there are too many.

        Args:
            transport: ``tcp`` or ``tls``; nobody can open a WebSocket to a browser.
            address: IP address and port.
            local: By which the peer is to reach us: the connection then comes from that listener's address,
                which the peer may have in a list of its own.
            domain: Whose certificate the peer must show; the address's own by default.
            verify: Whether it must.
            within: Seconds; ``None`` takes those of the limits.
        """
        try:
            tls = self.tls.connect(domain or address[0], verify=verify) if transport == "tls" else None
        except TlsFailure as failure:
            self.gate.refuse_tls(address[0], str(failure))
            return None
        listener = self._listener_of(transport, local, ipv6=":" in address[0])
        made = self._make(transport, listener, tls, None, ours=True, domain=domain)
        source = _source(listener, address[0])
        try:
            async with asyncio.timeout(within or self.limits.connect_after):
                await self._loop.create_connection(lambda: made, *address, local_addr=source)
                await made.ready.wait()
        except TimeoutError:
            made.give_up()
            return None
        except OSError:
            return None
        return made if made.usable else None

    def find(self, flow: Flow) -> Connection | None:
        """Return the connection of a flow; for a flow without id, any usable one that leads to its peer."""
        if flow.id:
            return self._open.get(flow.id)
        return next((each for each in self._open.values() if each.usable and _leads_to(each, flow)), None)

    def admit(self, connection: Connection, *, ours: bool) -> bool:
        """Take in a new connection, or not, before a byte of it is read."""
        if not ours and not self.gate.admit_connection(connection.flow.remote[0]):
            return False
        if len(self._open) >= self.limits.max_connections:
            self.gate.refuse_full(connection.flow.remote[0])
            return False
        connection.opened_at = connection.heard_at = self.now()
        self._open[connection.number] = connection
        if self._sweep is None:
            self._arm_sweep()
        return True

    def forget(self, connection: Connection) -> None:
        """Take a connection out that is gone; called once for each, also for those that were not let in."""
        if self._open.pop(connection.number, None) is not None and connection.is_ours:
            self._on_lost(connection.flow)

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

    def _accepted(self, listener: Listener) -> Connection:
        tls = self.tls.accept() if listener.transport in {"tls", "wss"} else None
        websocket = None
        if listener.transport in {"ws", "wss"}:
            websocket = WebSocketFramer(self._origins, max_size=self.limits.max_message)
        return self._make(listener.transport, listener, tls, websocket, ours=False)

    def _listener_of(
        self, transport: Transport, local: Address | None = None, *, ipv6: bool | None = None
    ) -> Listener | None:
        """Return the listener that stands for a connection of ours: that which ``local`` names, else any."""
        fitting = [
            each
            for each in self._listeners
            if each.transport == transport and ipv6 in {None, ":" in each.host}
        ]
        if local is not None:
            fitting.sort(key=lambda each: (each.port != local[1], each.host != local[0]))
        return fitting[0] if fitting else None

    def _make(
        self,
        transport: Transport,
        listener: Listener | None,
        tls: TlsSession | None,
        websocket: WebSocketFramer | None,
        *,
        ours: bool,
        domain: str = "",
    ) -> Connection:
        self._serial += 1
        return Connection(
            self,
            self._serial,
            transport,
            listener=listener,
            ours=ours,
            tls=tls,
            websocket=websocket,
            domain=domain,
        )

    def _arm_sweep(self) -> None:
        limits = self.limits
        times = (
            limits.idle_after,
            limits.partial_after,
            limits.stalled_after,
            limits.handshake_after,
            limits.ping_after,
            limits.pong_after,
        )
        self._sweep = self._loop.call_later(min(times) / 2, self._look_after)

    def _look_after(self) -> None:
        now = self.now()
        for connection in list(self._open.values()):
            connection.keep_alive(now)
        self._sweep = None
        if self._open:
            self._arm_sweep()


def _leads_to(connection: Connection, flow: Flow) -> bool:
    """Whether a connection can be taken for a flow: with TLS, only if it was made for the same domain."""
    there = connection.flow
    if there.transport != flow.transport or there.remote != flow.remote:
        return False
    return not flow.domain or not flow.secure or connection.domain == flow.domain


def _source(listener: Listener | None, remote: str) -> Address | None:
    """Return the address that a connection of ours comes from; ``None`` leaves it to the routing table."""
    if listener is None or is_wildcard(listener.host):
        return None
    if ip_address(listener.host).is_loopback != ip_address(remote).is_loopback:
        return None
    return listener.host, 0
