"""
The shell of the SIP user agent: sockets, one timer, and nothing that decides.

Everything that changes the user agent ends in :meth:`SipEndpoint.settle`, so that there is never an
unread event, an unsent message or a stale timer between two turns of the event loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TypeAlias

from gateway.net.sip_tcp import TcpConnections, TcpLimits
from gateway.net.sip_udp import LocalAddresses, UdpSocket, bound_socket
from gateway.sip.events import SipEvent
from gateway.sip.flow import Address, Flow, Outgoing
from gateway.sip.ua import UserAgent

Bound: TypeAlias = tuple[str, str, int]
"""Transport, host and port."""

_WAITING = 64  # messages for one peer whose connection or name is not there yet
_NAMES = 256
_NAME_AFTER = 60.0
_RESOLVE_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class _Delivery:
    """One message on its way; ``second`` when the first flow failed."""

    outgoing: Outgoing
    second: bool = False

    @property
    def flow(self) -> Flow:
        fallback = self.outgoing.fallback
        return fallback if self.second and fallback is not None else self.outgoing.flow


class SipEndpoint:
    """
    Drives one user agent over UDP and TCP.

    Commands go to the user agent itself; call :meth:`settle` after each.

    Args:
        ua: Not driven by anybody else.
        allowed: Whether a source may talk to us, by its IP address alone, asked before a byte is read.
        on_event: Takes every event; it may give commands to the user agent at once.
        on_denied: Hears of each datagram or connection that was refused; limit the rate of what you log.
        tcp_limits: Caps and time-outs of connections.
    """

    def __init__(
        self,
        ua: UserAgent,
        *,
        allowed: Callable[[str], bool],
        on_event: Callable[[SipEvent], None],
        on_denied: Callable[[str], None],
        tcp_limits: TcpLimits | None = None,
    ) -> None:
        self._ua = ua
        self._allowed = allowed
        self._on_event = on_event
        self._on_denied = on_denied
        self._limits = tcp_limits or TcpLimits()
        self._stack = AsyncExitStack()
        self._group: asyncio.TaskGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._udp: list[UdpSocket] = []
        self._tcp: TcpConnections | None = None
        self._bound: list[Bound] = []
        self._local = LocalAddresses()
        self._names: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._waiting: dict[tuple[str, Address], list[_Delivery]] = {}
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
        """Open TCP connections."""
        return 0 if self._tcp is None else len(self._tcp)

    async def listen_udp(self, host: str, port: int) -> None:
        """Listen on an IP address, 0.0.0.0 and :: included; port 0 takes a free one. Raises ``OSError``."""
        loop = await self._start()
        sock = bound_socket(socket.SOCK_DGRAM, host, port)
        _, udp = await loop.create_datagram_endpoint(lambda: UdpSocket(self._datagram), sock=sock)
        self._udp.append(udp)
        self._bound.append(("udp", *udp.address))

    async def listen_tcp(self, host: str, port: int) -> None:
        """Listen on an IP address; port 0 takes a free one. Raises ``OSError``."""
        await self._start()
        assert self._tcp is not None
        self._bound.append(("tcp", *await self._tcp.listen(host, port)))

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
        for each in outgoing:
            self._deliver(_Delivery(each))
        return busy or bool(outgoing)

    async def close(self) -> None:
        """Stop: sockets, connections, timer and tasks. What the user agent still had to say is lost."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tcp is not None:
            await self._tcp.close()
        for udp in self._udp:
            udp.close()
        for udp in self._udp:
            await udp.closed.wait()
        await self._stack.aclose()

    async def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._group = await self._stack.enter_async_context(asyncio.TaskGroup())
            self._tcp = TcpConnections(
                allowed=self._allowed,
                on_denied=self._on_denied,
                on_message=self._message,
                limits=self._limits,
            )
        return self._loop

    # In.

    def _datagram(self, udp: UdpSocket, data: bytes, remote: Address) -> None:
        if not self._allowed(remote[0]):
            self._on_denied(remote[0])
            return
        host = udp.address[0]
        if udp.is_wildcard:
            assert self._loop is not None
            host = self._local.towards(remote[0], now=self._loop.time()) or host
        self._message(data, Flow("udp", remote, (host, udp.address[1])))

    def _message(self, data: bytes, flow: Flow) -> None:
        if self._loop is None or self._closed:
            return
        self._ua.receive(data, flow, now=self._loop.time())
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

    def _deliver(self, delivery: _Delivery) -> None:
        flow = delivery.flow
        sent = self._deliver_tcp(delivery) if flow.reliable else self._deliver_udp(delivery)
        if not sent:
            self._fail(delivery)

    def _deliver_udp(self, delivery: _Delivery) -> bool:
        host, port = delivery.flow.remote
        address = self._resolved(host)
        if address is None:
            return self._wait(("name", (host, port)), delivery, self._resolve(host, port))
        udp = self._udp_for(delivery.flow, ipv6=":" in address)
        return udp is not None and udp.send(delivery.outgoing.data, (address, port))

    def _udp_for(self, flow: Flow, *, ipv6: bool) -> UdpSocket | None:
        """Return the socket that the flow came in on, else any one of the right family."""
        fitting = [udp for udp in self._udp if udp.is_ipv6 == ipv6]
        for udp in fitting:
            if udp.address[1] == flow.local[1] and (udp.is_wildcard or udp.address[0] == flow.local[0]):
                return udp
        return fitting[0] if fitting else None

    def _deliver_tcp(self, delivery: _Delivery) -> bool:
        assert self._tcp is not None
        flow, key = delivery.flow, ("tcp", delivery.flow.remote)
        # Behind what waits already, though the connection may have come up in this very moment.
        connection = None if not flow.id and key in self._waiting else self._tcp.by_flow(flow)
        if connection is not None:
            return connection.send(delivery.outgoing.data)
        if flow.id:
            return False
        return self._wait(key, delivery, self._connect(flow.remote))

    def _wait(self, key: tuple[str, Address], delivery: _Delivery, work: Coroutine[None, None, None]) -> bool:
        """Queue a message behind the task that makes its way; start that task if it does not run."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            work.close()
            if len(waiting) >= _WAITING:
                return False
            waiting.append(delivery)
            return True
        if self._group is None or len(self._waiting) >= _NAMES:
            work.close()
            return False
        self._waiting[key] = [delivery]
        task = self._group.create_task(work, name=f"sip {key[0]} {key[1][0]}:{key[1][1]}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _connect(self, remote: Address) -> None:
        assert self._tcp is not None
        connection = await self._tcp.connect(remote)
        for delivery in self._waiting.pop(("tcp", remote), []):
            if connection is None or not connection.send(delivery.outgoing.data):
                self._fail(delivery)
        self._settle_soon()

    async def _resolve(self, host: str, port: int) -> None:
        assert self._loop is not None
        found: list[str] = []
        try:
            async with asyncio.timeout(_RESOLVE_AFTER):
                answers = await self._loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            found = [str(answer[4][0]) for answer in answers]
        except (OSError, TimeoutError, UnicodeError):
            found = []  # UnicodeError: a label that no host name can have
        families = {udp.is_ipv6 for udp in self._udp}
        usable = next((each for each in found if (":" in each) in families), None)
        if usable is not None:
            self._names[host] = (usable, self._loop.time() + _NAME_AFTER)
            if len(self._names) > _NAMES:
                self._names.popitem(last=False)
        for delivery in self._waiting.pop(("name", (host, port)), []):
            if usable is None:
                self._fail(delivery)
            else:
                self._deliver(delivery)
        self._settle_soon()

    def _settle_soon(self) -> None:
        """Settle outside of this task: what a handler raises must not end the task group."""
        if self._loop is not None:
            self._loop.call_soon(self.settle)

    def _resolved(self, host: str) -> str | None:
        """Return an address at once, if the host is one or was looked up lately."""
        assert self._loop is not None
        try:
            ipaddress.ip_address(host)
        except ValueError:
            known = self._names.get(host)
            return known[0] if known is not None and self._loop.time() < known[1] else None
        return host

    def _fail(self, delivery: _Delivery) -> None:
        """Try the other way once; then tell the user agent."""
        if self._closed or self._loop is None:
            return
        if not delivery.second and delivery.outgoing.fallback is not None:
            self._deliver(replace(delivery, second=True))
            return
        self._ua.transport_failed(delivery.outgoing.flow, now=self._loop.time())
