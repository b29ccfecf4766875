"""
The shell of the SIP user agent: sockets, one timer, and nothing that decides.

Everything that changes the user agent ends in :meth:`SipEndpoint.settle`, so that there is never an
unread event, an unsent message or a stale timer between two turns of the event loop.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from gateway.net import stun
from gateway.net.lookup import Dns
from gateway.net.public_address import Bound, PublicAddresses, SeenByStun
from gateway.net.resolver import Place, Resolver
from gateway.net.sip_connection import ConnectionLimits, Listener
from gateway.net.sip_connections import Connections, unnoticed
from gateway.net.sip_gate import Gate, GateLimits
from gateway.net.sip_outbox import Outbox
from gateway.net.sip_udp import UdpSocket, bound_socket, is_wildcard
from gateway.net.tls import TlsContexts, TlsFiles
from gateway.sip.events import SipEvent
from gateway.sip.flow import Address, Flow, Outgoing, Transport
from gateway.sip.ua import UserAgent
from gateway.sip.uri import SipUri


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """What the configuration says about the network."""

    public_address: str = "auto"
    """An IP address, ``auto``, ``auto:INTERFACE`` or ``stun:HOST:PORT``."""
    public_addresses: Mapping[Bound, str] = field(default_factory=dict)
    """The same for single listeners, as they are configured."""
    dns: tuple[Address, ...] = ()
    """Name servers; none takes the system's."""
    tls: TlsFiles | None = None
    origins: tuple[str, ...] = ()
    """Web sites whose pages may open a WebSocket."""
    tcp_above: int | None = 1300
    """Octets above which a request of ours goes by TCP in place of UDP (RFC 3261, section 18.1.1)."""
    gate: GateLimits = field(default_factory=GateLimits)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)


def _draw(top: int) -> int:
    return secrets.randbelow(top + 1)


def _everybody(host: str) -> bool:
    del host
    return True


class Tap(Protocol):
    """Is shown each message, as it came or as it goes."""

    def __call__(self, data: bytes, flow: Flow, *, sent: bool, now: float) -> None: ...


class SipEndpoint:
    """
    Drives one user agent over UDP, TCP, TLS and WebSocket.

    Commands go to the user agent itself; call :meth:`settle` after each.

    Args:
        ua: Not driven by anybody else.
        allowed: Whether a source may talk to us, by its IP address alone, asked before a byte is read.
        on_event: Takes every event; it may give commands to the user agent at once.
        clock: Seconds, monotonic; the loop's own time.
        settings: Read once, but for :meth:`use_tls`. Raises ``OSError`` for a certificate of no use.
        verify: Whether a peer that we connect to, known by its IP address, must show the right certificate.
        on_lost: Hears of each connection of ours that is gone while the endpoint lives.
    """

    def __init__(
        self,
        ua: UserAgent,
        *,
        allowed: Callable[[str], bool],
        on_event: Callable[[SipEvent], None],
        clock: Callable[[], float],
        settings: EndpointSettings | None = None,
        verify: Callable[[str], bool] = _everybody,
        on_lost: Callable[[Flow], None] = unnoticed,
    ) -> None:
        self._ua = ua
        self.tap: Tap | None = None
        """Sees everything that is read and sent; ``None`` costs nothing."""
        self._on_event = on_event
        self._settings = settings = settings or EndpointSettings()
        self._verify = verify
        self._on_lost = on_lost
        self._gate = Gate(allowed, clock, settings.gate)
        self._resolver = Resolver(Dns(settings.dns, clock), ("tcp", "tls"), _draw)
        self._public = PublicAddresses(settings.public_address, clock, self._resolver.addresses)
        self._tls = TlsContexts(settings.tls)
        self._stack = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: asyncio.TaskGroup | None = None
        self._connections: Connections | None = None
        self._outbox: Outbox | None = None
        self._refreshing: list[asyncio.Task[None]] = []
        self._bound: list[Bound] = []
        self._reports: deque[SipEvent] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._settling = False
        self._closed = False

    @property
    def addresses(self) -> list[Bound]:
        """What we listen on, with the ports that were really taken."""
        return list(self._bound)

    @property
    def connections(self) -> int:
        """Open connections."""
        return 0 if self._connections is None else len(self._connections)

    @property
    def dropped(self) -> Counter[str]:
        """What was dropped before it was read, by reason."""
        return self._gate.dropped

    async def listen(self, transport: Transport, host: str, port: int) -> None:
        """
        Listen on an IP address, 0.0.0.0 and :: included; port 0 takes a free one.

        Raises ``OSError`` when that address cannot be had.
        """
        outbox, connections = await self._start()
        own = self._settings.public_addresses.get((transport, host, port))
        if transport != "udp":
            address = await connections.listen(transport, host, port)
            await self._bind((transport, *address), own)
            return
        sock = bound_socket(socket.SOCK_DGRAM, host, port)
        number = len(outbox.udp) + 1
        _, udp = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: UdpSocket(self._datagram, number), sock=sock
        )
        outbox.udp.append(udp)
        await self._bind(("udp", *udp.address), own)
        self._resolver.transports = ("udp", "tcp", "tls")

    async def _bind(self, bound: Bound, public_address: str | None) -> None:
        """Keep what a listener is, and learn by which address of its own it is reached."""
        self._bound.append(bound)
        if public_address is not None:
            self._refresh(await self._public.set(bound, public_address))

    def _refresh(self, source: SeenByStun | None) -> None:
        if source is not None and self._group is not None:
            self._refreshing.append(self._group.create_task(source.run(), name="sip stun"))

    def use_tls(self, files: TlsFiles | None) -> None:
        """Read certificates again, for new connections; raises ``OSError`` and leaves the old ones in use."""
        self._tls = TlsContexts(files)
        if self._connections is not None:
            self._connections.tls = self._tls

    async def flows(self, uri: str, listener: Bound | None = None) -> tuple[Flow, ...]:
        """
        Return the ways to a SIP URI in the order of RFC 3263; none when it leads nowhere.

        Args:
            uri: The next hop.
            listener: Which one of ours it leaves by and names, where transport and family fit; ``None`` takes
                the one whose address routes to the peer.

        Raises ``ValueError`` for what is no SIP or SIPS URI.
        """
        hop = SipUri.parse(uri)
        outbox, connections = await self._start()
        families = {":" in host for _, host, _ in self._bound} or {False, True}
        places = await self._resolver.resolve(hop, ipv4=False in families, ipv6=True in families)
        ours = [self._listener_for(place, listener) for place in places]
        return tuple(
            self._flow_to(place, bound, outbox, connections)
            for place, bound in zip(places, ours, strict=True)
        )

    def flow_of_media(self, flow: Flow, audio: str) -> Flow:
        """
        Return the flow with our address for a peer whose audio has the other family (RFC 6157).

        It is the flow itself where the family is the same, or where we have no way to that address.
        """
        ours = None if (":" in audio) == (":" in flow.local[0]) else self._public.route(audio)
        return flow if ours is None else replace(flow, local=(ours, flow.local[1]))

    def media_host(self, flow: Flow) -> str:
        """Return the address to bind a call's media to: that of its SDP, or the wildcard of its family."""
        host = flow.local[0]
        if any(bound == host for _, bound, _ in self._bound):
            return host
        return "::" if ":" in host else "0.0.0.0"  # noqa: S104 - behind NAT; the session checks the source

    def settle(self) -> None:
        """Report, send and re-arm until nothing is left, in this order: a handler may answer at once."""
        if self._settling or self._loop is None or self._closed:
            return  # the call further up goes on with what was just added
        self._settling, done = True, False
        try:
            while not done:
                done = not self._settle_once()
        finally:
            self._settling = False
            self._arm()
            if not done:
                # A handler raised. Its error goes to whoever called; the rest must still be said.
                self._loop.call_soon(self.settle)

    def _settle_once(self) -> bool:
        """Report and send what is there; return whether there was anything."""
        self._reports.extend(self._ua.events())
        busy = bool(self._reports)
        while self._reports:
            self._on_event(self._reports.popleft())
        outgoing = self._ua.to_send()
        assert self._outbox is not None
        for each in outgoing:
            if self.tap is not None and self._loop is not None:
                self.tap(each.data, each.flow, sent=True, now=self._loop.time())
            self._outbox.deliver(each)
        return busy or bool(outgoing)

    async def close(self) -> None:
        """Stop: sockets, connections, timer and tasks. What the user agent still had to say is lost."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._refreshing:
            task.cancel()
        if self._connections is not None:
            await self._connections.close()
        if self._outbox is not None:
            self._outbox.close()
            for udp in self._outbox.udp:
                udp.close()
            for udp in self._outbox.udp:
                await udp.closed.wait()
        await self._stack.aclose()

    async def _start(self) -> tuple[Outbox, Connections]:
        if self._outbox is None or self._connections is None:
            self._loop = asyncio.get_running_loop()
            self._group = group = await self._stack.enter_async_context(asyncio.TaskGroup())
            self._connections = Connections(
                gate=self._gate,
                advertise=self._advertise,
                on_message=self._message,
                limits=self._settings.connections,
                tls=self._tls,
                origins=self._settings.origins,
                on_lost=self._lost,
            )
            self._outbox = Outbox(
                loop=self._loop,
                group=group,
                connections=self._connections,
                resolver=self._resolver,
                verify=self._verify,
                on_failed=self._failed,
                on_changed=self.settle,
                tcp_above=self._settings.tcp_above,
            )
            self._refresh(await self._public.start())
        return self._outbox, self._connections

    # In.

    def _datagram(self, udp: UdpSocket, data: bytes, remote: Address) -> None:
        if not self._gate.admit_datagram(remote[0], data):
            return
        if stun.is_stun(data):  # RFC 5626, section 8: keeps a NAT open, and tells the phone its address
            if stun.kind_of(data) == stun.REQUEST:
                udp.send(stun.binding_response(data, remote), remote)
            return
        bound, port = udp.address
        here = (self._public.towards(("udp", bound, port), remote[0], bound), port)
        self._message(data, Flow("udp", remote, here, udp.number, bound=bound))

    def _message(self, data: bytes, flow: Flow) -> None:
        if self._loop is None or self._closed:
            return
        now = self._loop.time()
        if self.tap is not None:
            self.tap(data, flow, sent=False, now=now)
        self._ua.receive(data, flow, now=now)
        self.settle()

    # Time.

    def _arm(self) -> None:
        at = self._ua.next_timeout()
        if self._loop is None or at == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = None if at is None else self._loop.call_at(at, self._time_out)

    def _time_out(self) -> None:
        self._timer = self._timer_at = None
        if self._loop is not None and not self._closed:
            self._ua.handle_timeout(now=self._loop.time())
            self.settle()

    # Out.

    def _lost(self, flow: Flow) -> None:
        if not self._closed:
            self._on_lost(flow)

    def _failed(self, outgoing: Outgoing) -> None:
        if self._loop is not None and not self._closed:
            self._ua.transport_failed(outgoing.flow, now=self._loop.time())

    def _advertise(self, listener: Listener | None, remote: str, local: str) -> str:
        bound = None if listener is None else (listener.transport, listener.host, listener.port)
        return self._public.towards(bound, remote, local)

    def _flow_to(self, place: Place, bound: Bound | None, outbox: Outbox, connections: Connections) -> Flow:
        """Name the address by which a peer that we begin to talk to reaches us."""
        transport, remote = place.transport, (place.host, place.port)
        if bound is None:
            host = self._public.towards(None, place.host, "::")
            return Flow(transport, remote, (host, connections.port_of(transport)), domain=place.domain)
        _, local, port = bound
        host = self._public.towards(bound, place.host, local)
        number = next((udp.number for udp in outbox.udp if udp.address == (local, port)), 0)
        id_ = number if transport == "udp" else 0
        return Flow(transport, remote, (host, port), id_, place.domain)

    def _listener_for(self, place: Place, wanted: Bound | None) -> Bound | None:
        """Return the listener that is wanted, else that on the address that routes to a peer, else any."""
        ipv6 = ":" in place.host
        fitting = [each for each in self._bound if each[0] == place.transport and (":" in each[1]) == ipv6]
        route = self._public.route(place.host)
        fitting.sort(key=lambda each: (each != wanted, each[1] != route, not is_wildcard(each[1])))
        return fitting[0] if fitting else None
