"""
SIP over connections: TCP, TLS and WebSocket, of peers and our own, with caps on everything.

A connection is a stack: the socket, perhaps TLS, then a stream of messages (RFC 3261, section 18.3) or a
WebSocket (RFC 7118).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from gateway.net.sip_gate import Gate
from gateway.net.sip_udp import bound_socket
from gateway.net.sip_websocket import WebSocketFramer
from gateway.net.tls import TlsContexts, TlsFailure, TlsSession
from gateway.sip.flow import Address, Flow, Transport
from gateway.sip.stream import FramingError, StreamFramer

PING = b"\r\n\r\n"
"""Asks for a sign of life (RFC 5626, section 3.5.1)."""
PONG = b"\r\n"
"""Gives one."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
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
    """Seconds for a connection of ours, its TLS handshake included."""
    handshake_after: float = 5.0
    """Seconds for a peer's handshake."""
    ping_after: float = 50.0
    """Seconds of silence after which a connection of ours, or a WebSocket, is asked for a sign of life."""
    pong_after: float = 10.0
    """Seconds for that sign, where the peer has given one before (RFC 5626, section 4.4.1)."""
    max_message: int = 128 * 1024
    """Octets of a message on a WebSocket."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Where connections are taken."""

    transport: Transport
    host: str
    port: int


class Connection(asyncio.Protocol):
    """
    One connection, whoever opened it.

    Args:
        owner: All connections.
        number: Its name in flows.
        listener: Where it came in; ``None`` for one of ours.
        tls: Its session, where there is one.
        websocket: Its framing, where it is one.
        domain: For one of ours with TLS: whose certificate was asked for.
    """

    def __init__(
        self,
        owner: Connections,
        number: int,
        transport: Transport,
        *,
        listener: Listener | None,
        tls: TlsSession | None,
        websocket: WebSocketFramer | None,
        domain: str = "",
    ) -> None:
        self._owner = owner
        self._listener = listener
        self._tls = tls
        self._websocket = websocket
        self._welcome = False
        self._framer = StreamFramer()
        self._transport: asyncio.Transport | None = None
        self._resume: asyncio.TimerHandle | None = None
        self._pinged_at = 0.0
        self._unanswered_since: float | None = None
        self._pongs = False
        self.number = number
        self.domain = domain
        self.flow = Flow(transport, ("", 0), ("", 0), number)
        self.opened_at = self.heard_at = 0.0
        self.partial_since: float | None = None
        self.unread_since: float | None = None
        """Since when something waits to be written; ``None`` while nothing does."""
        self.ready = asyncio.Event()
        """Set when messages can be sent, and at the end."""
        self.failure = ""
        """Why there is no session."""
        self.closed = asyncio.Event()

    @property
    def is_ours(self) -> bool:
        """Whether we have opened it."""
        return self._listener is None

    @property
    def usable(self) -> bool:
        """Whether a message can be sent."""
        return self._transport is not None and not self._transport.is_closing() and self.ready.is_set()

    # The socket's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._transport.set_write_buffer_limits(high=0)  # so that we are told whenever something waits
        remote, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if not remote or not local:  # reset before we looked
            self.abort()
            return
        notice_death(transport.get_extra_info("socket"))
        self._identify(remote[:2], local[0])
        # Where a Contact led us to, somebody may answer our request; only who is allowed may ask.
        self._welcome = self._owner.gate.welcomes(remote[0])
        if not self._owner.admit(self, ours=self._listener is None):
            self.abort()
            return
        if self._tls is not None and self._listener is None:
            self._run_tls(self._tls, start=True)
        elif self._tls is None and self._websocket is None:
            self.ready.set()

    def _identify(self, remote: Address, local: str) -> None:
        owner, transport = self._owner, self.flow.transport
        # On a connection of ours the port is a passing one: peers reach us where we listen.
        port = owner.port_of(transport) if self._listener is None else self._listener.port
        peer, ours = remote[0].partition("%")[0], local.partition("%")[0]  # SIP carries no scope
        bound = "" if self._listener is None else self._listener.host
        here = (owner.advertise(peer, ours), port)
        self.flow = Flow(transport, (peer, remote[1]), here, self.number, self.domain, bound)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._resume is not None:
            self._resume.cancel()
        admitted = self.opened_at > 0
        if admitted and self._tls is not None and not self._tls.established and not self.failure:
            self._fail_tls("the peer closed the connection" if exc is None else str(exc))
        self.ready.set()
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
        if self._tls is not None:
            data = self._run_tls(self._tls, data)
        if self._unanswered_since is not None and data:
            self._unanswered_since, self._pongs = None, True
            data = self._without_pong(data)
        if self._websocket is not None:
            self._take_frames(self._websocket, data)
        else:
            self._take_stream(data)
        if self._tls is not None and self._tls.finished:
            self.close()

    def _without_pong(self, data: bytes) -> bytes:
        """Take off the answer to our ping: two of them in a row would look like a ping of the peer's."""
        if self._websocket is None and data.startswith(PONG) and not data.startswith(PING):
            return data[len(PONG) :]
        return data

    # TLS.

    def _run_tls(self, tls: TlsSession, data: bytes = b"", *, start: bool = False) -> bytes:
        """Give bytes to the session and return what was in them; a failure ends the connection."""
        try:
            if start:
                tls.start()
                said = b""
            else:
                said = tls.receive(data)
        except TlsFailure as failure:
            self._write(tls.to_send())
            self._fail_tls(str(failure))
            self.close()
            return b""
        self._write(tls.to_send())
        if tls.established and self._websocket is None:
            self.ready.set()
        return said

    def _fail_tls(self, why: str) -> None:
        self.failure = why
        self._owner.gate.refuse_tls(self.flow.remote[0], why)

    # Messages.

    def _take_stream(self, data: bytes) -> None:
        broken: FramingError | None = None
        try:
            self._framer.receive(data)
        except FramingError as error:
            broken = error
        if pong := self._framer.to_send():
            self._say(pong)
        for message in self._framer.messages():
            self._hand_on(message)
        if broken is not None and not self._welcome:
            self.abort()
        elif broken is not None:
            # The user agent refuses the head for the reason that broke the stream; its answer is
            # written before the connection closes.
            self._owner.on_message(broken.head, self.flow)
            self.close()
        self._note_partial(self._framer.partial)

    def _take_frames(self, websocket: WebSocketFramer, data: bytes) -> None:
        websocket.receive(data)
        self._say(websocket.to_send())
        if websocket.open:
            self.ready.set()
        for message in websocket.messages():
            self._hand_on(message)
        if websocket.failure:
            self._owner.gate.refuse_websocket(self.flow.remote[0], websocket.failure)
        if websocket.finished:
            self.close()
        self._note_partial(websocket.partial)

    def _note_partial(self, partial: bool) -> None:
        self.partial_since = (self.partial_since or self.heard_at) if partial else None

    def _hand_on(self, message: bytes) -> None:
        gate, host = self._owner.gate, self.flow.remote[0]
        if not (self._welcome or message.startswith(b"SIP/")) or gate.is_scan(host, message):
            return
        if (wait := gate.pause_for(host)) > 0:
            self._pause(wait)  # what was read already is served: a stream must not lose messages
        self._owner.on_message(message, self.flow)

    def _pause(self, wait: float) -> None:
        if self._transport is not None and self._resume is None:
            self._transport.pause_reading()
            self._resume = self._owner.call_later(wait, self._go_on)

    def _go_on(self) -> None:
        self._resume = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def send(self, data: bytes) -> bool:
        """Send one message; ``False`` when the connection is gone or the peer reads too slowly."""
        if not self.usable:
            return False
        if self._websocket is None:
            return self._say(data)
        return self._websocket.send(data) and self._say(self._websocket.to_send())

    def _say(self, data: bytes) -> bool:
        """Send bytes to the peer's framing, encrypted where this is TLS."""
        if self._tls is not None and data:
            if not self._tls.send(data):
                return False
            data = self._tls.to_send()
        return self._write(data)

    def _write(self, data: bytes) -> bool:
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if not data:
            return True
        if transport.get_write_buffer_size() + len(data) > self._owner.limits.write_buffer:
            self.abort()
            return False
        transport.write(data)
        return True

    # Life.

    def keep_alive(self, now: float) -> None:
        """Close what is dead, late or idle; ask for a sign of life where one is due."""
        limits = self._owner.limits
        if self.unread_since is not None and now - self.unread_since >= limits.stalled_after:
            self.abort()  # closing would wait for the peer to read
        elif not self.ready.is_set() and now - self.opened_at >= limits.handshake_after:
            self.give_up()
        elif self._pongs and now - (self._unanswered_since or now) >= limits.pong_after:
            self.abort()  # it used to answer
        elif now - self.heard_at >= limits.idle_after:
            self.close()
        elif self.partial_since is not None and now - self.partial_since >= limits.partial_after:
            self.abort()
        elif self.ready.is_set() and now - max(self.heard_at, self._pinged_at) >= limits.ping_after:
            self._ping(now)

    def _ping(self, now: float) -> None:
        if self._websocket is not None:
            self._websocket.ping()
            self._say(self._websocket.to_send())
        elif self._listener is None:
            self._say(PING)
        else:
            return  # the side that opened a connection keeps it alive
        self._pinged_at = now
        self._unanswered_since = self._unanswered_since or now

    def give_up(self) -> None:
        """End a handshake that took too long."""
        if self._transport is not None and self._tls is not None and not self._tls.established:
            self._fail_tls("the handshake took too long")
        self.abort()

    def close(self) -> None:
        """Close once everything is written."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._websocket is not None:
            self._websocket.close()
            self._say(self._websocket.to_send())
        if self._tls is not None and self._tls.established:
            self._tls.close()
            self._write(self._tls.to_send())
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def notice_death(sock: socket.socket | None) -> None:
    """Let the kernel find out within a minute and a half that the other end is gone without a word."""
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)


def unnoticed(flow: Flow) -> None:
    """For who has nothing to do when a connection is gone."""


class Connections:
    """
    All connections of an endpoint.

    Args:
        gate: Who may connect, and how much may be sent.
        advertise: Returns the address by which a peer reaches us, from its address and our end's.
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
        advertise: Callable[[str, str], str],
        on_message: Callable[[bytes, Flow], None],
        limits: ConnectionLimits,
        tls: TlsContexts,
        origins: Sequence[str] = (),
        on_lost: Callable[[Flow], None] = unnoticed,
    ) -> None:
        self._on_lost = on_lost
        self.gate = gate
        self.advertise = advertise
        self.on_message = on_message
        self.limits = limits
        self.tls = tls
        self._origins = tuple(origins)
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._ports: dict[Transport, int] = {}
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
        return self._ports.get(transport) or (5061 if transport in {"tls", "wss"} else 5060)

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
        self._ports.setdefault(transport, address[1])
        return address

    async def connect(
        self, transport: Transport, address: Address, *, domain: str = "", verify: bool = True
    ) -> Connection | None:
        """
        Open a TCP or TLS connection; ``None`` when that fails or takes too long, or there are too many.

        Args:
            transport: ``tcp`` or ``tls``; nobody can open a WebSocket to a browser.
            address: IP address and port.
            domain: Whose certificate the peer must show; the address's own by default.
            verify: Whether it must.
        """
        tls = self.tls.connect(domain or address[0], verify=verify) if transport == "tls" else None
        made = self._make(transport, None, tls, None, domain)
        try:
            async with asyncio.timeout(self.limits.connect_after):
                await self._loop.create_connection(lambda: made, *address)
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
        return self._make(listener.transport, listener, tls, websocket)

    def _make(
        self,
        transport: Transport,
        listener: Listener | None,
        tls: TlsSession | None,
        websocket: WebSocketFramer | None,
        domain: str = "",
    ) -> Connection:
        self._serial += 1
        return Connection(
            self, self._serial, transport, listener=listener, tls=tls, websocket=websocket, domain=domain
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
