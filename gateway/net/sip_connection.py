"""
One connection for SIP: the socket, perhaps TLS, then a stream of messages (RFC 3261, section 18.3) or a
WebSocket (RFC 7118).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, cast

from gateway.net.sip_gate import Gate
from gateway.net.sip_websocket import WebSocketFramer
from gateway.net.tls import TlsFailure, TlsSession
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
    idle_after: float = 7200.0
    """
    Seconds without a byte from the peer; its keep-alives count. Long, because a telephone behind NAT cannot
    be reached without its connection, and one that is dead is found in another way.
    """
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


class Owner(Protocol):
    """Keeps connections, and knows what they have in common."""

    gate: Gate
    limits: ConnectionLimits
    on_message: Callable[[bytes, Flow], None]

    def now(self) -> float: ...

    def place(self, transport: Transport, remote: str, local: str, listener: Listener | None) -> Address:
        """Return the address by which a peer reaches us, from its own and that of our end."""
        ...

    def admit(self, connection: Connection, *, ours: bool) -> bool:
        """Take in a new connection, or not, before a byte of it is read."""
        ...

    def forget(self, connection: Connection) -> None: ...

    def call_later(self, after: float, what: Callable[[], None]) -> asyncio.TimerHandle: ...


class Connection(asyncio.Protocol):
    """
    One connection, whoever opened it.

    Args:
        owner: All connections.
        number: Its name in flows.
        listener: Where it came in; for one of ours, where peers reach us instead, if anywhere.
        ours: Whether we open it.
        tls: Its session, where there is one.
        websocket: Its framing, where it is one.
        domain: For one of ours with TLS: whose certificate was asked for.
    """

    def __init__(
        self,
        owner: Owner,
        number: int,
        transport: Transport,
        *,
        listener: Listener | None,
        ours: bool,
        tls: TlsSession | None,
        websocket: WebSocketFramer | None,
        domain: str = "",
    ) -> None:
        self._owner = owner
        self._listener = listener
        self.is_ours = ours
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
        if not self._owner.admit(self, ours=self.is_ours):
            self.abort()
            return
        if self._tls is not None and self.is_ours:
            self._run_tls(self._tls, start=True)
        elif self._tls is None and self._websocket is None:
            self.ready.set()

    def _identify(self, remote: Address, local: str) -> None:
        transport, listener = self.flow.transport, self._listener
        peer, ours = remote[0].partition("%")[0], local.partition("%")[0]  # SIP carries no scope
        here = self._owner.place(transport, peer, ours, listener)
        bound = "" if listener is None else listener.host
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
        if tls.established and not self.ready.is_set():
            self.flow = replace(self.flow, names=tls.peer_names)
            if self._websocket is None:
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
        elif self.is_ours:
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
