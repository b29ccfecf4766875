"""
The way out: from a message and its flow to a socket.

A message whose connection or address is not there yet waits behind one task that makes it; what waits for
one peer leaves in order. Nothing is decided here but what RFC 3261, section 18, leaves to the transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TypeAlias

import structlog

from gateway.net.resolver import Place, Resolver
from gateway.net.sip_connection import Connection
from gateway.net.sip_connections import Connections
from gateway.net.sip_large import LargeRequests, over
from gateway.net.sip_udp import UdpSocket, is_address, is_wildcard
from gateway.sip.flow import Address, Flow, Outgoing

log = structlog.get_logger(__name__)

_WAITING = 64  # messages for one peer whose connection or name is not there yet
_PEERS = 256
_TRIED = 4  # addresses of one name: each may take seconds
_MOVED_AFTER = 1.0

_Key: TypeAlias = tuple[str, Address, str]


@dataclass(frozen=True, slots=True)
class _Attempt:
    flow: Flow
    data: bytes
    moved: bool = False
    """Whether this is TCP in place of UDP, because the request is long."""


@dataclass(frozen=True, slots=True)
class _Delivery:
    """One message on its way, and what is tried in turn."""

    outgoing: Outgoing
    attempts: tuple[_Attempt, ...]


class Outbox:
    """
    Sends messages.

    Args:
        loop: The running loop.
        group: Owns the tasks.
        connections: Where connections are found and made.
        resolver: Finds addresses.
        verify: Whether the certificate of a peer, known by its IP address, has to be right.
        on_failed: Hears of what could not be sent at all.
        on_changed: Called, outside of the tasks here, when something of theirs is done.
        tcp_above: Requests that are longer go by TCP in place of UDP; ``None`` for none.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        group: asyncio.TaskGroup,
        connections: Connections,
        resolver: Resolver,
        verify: Callable[[str], bool],
        on_failed: Callable[[Outgoing], None],
        on_changed: Callable[[], None],
        tcp_above: int | None,
    ) -> None:
        self._loop = loop
        self._group = group
        self._connections = connections
        self._resolver = resolver
        self._verify = verify
        self._on_failed = on_failed
        self._on_changed = on_changed
        self._large = LargeRequests(loop.time, tcp_above)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[_Key, list[_Delivery]] = {}
        self._closed = False
        self.udp: list[UdpSocket] = []
        """Every UDP socket, in the order of the configuration."""

    def deliver(self, outgoing: Outgoing) -> None:
        """Send a message, now or as soon as its way is there."""
        attempts = [_Attempt(outgoing.flow, outgoing.data)]
        if outgoing.fallback is not None:
            attempts.append(_Attempt(outgoing.fallback, over(outgoing.data, outgoing.fallback.transport)))
        moved = self._large.move(outgoing.flow, outgoing.data)
        if moved is not None:
            flow, repeated = moved
            if repeated and (self._key(flow) in self._waiting or self._connections.find(flow) is not None):
                return  # a connection repeats by itself
            if not repeated:
                attempts.insert(0, _Attempt(flow, over(outgoing.data, "tcp"), moved=True))
        self._try(_Delivery(outgoing, tuple(attempts)))

    def udp_for(self, flow: Flow, *, ipv6: bool) -> UdpSocket | None:
        """Return the socket that the flow came in on, else the one that fits best."""
        fitting = [udp for udp in self.udp if udp.is_ipv6 == ipv6]
        for udp in fitting:
            if flow.id and udp.number == flow.id:
                return udp
        for udp in fitting:
            if udp.address[1] == flow.local[1] and (
                is_wildcard(udp.address[0]) or udp.address[0] == flow.local[0]
            ):
                return udp
        same_port = (udp for udp in fitting if udp.address[1] == flow.local[1])
        return next(same_port, fitting[0] if fitting else None)

    def close(self) -> None:
        """Cancel what is under way; the owner's group waits for it."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    # One message.

    def _try(self, delivery: _Delivery) -> None:
        flow = delivery.attempts[0].flow
        if flow.reliable and flow.id:
            connection = self._connections.find(flow)
            sent = connection is not None and connection.send(delivery.attempts[0].data)
        elif flow.reliable:
            sent = self._by_connection(delivery)
        else:
            sent = self._by_datagram(delivery)
        if not sent:
            self._fail(delivery)

    def _by_datagram(self, delivery: _Delivery) -> bool:
        flow = delivery.attempts[0].flow
        host, port = flow.remote
        # Behind what waits already, though the name may have been found in this very moment.
        address = None if self._key(flow) in self._waiting or not port else self._known(host)
        if address is None:
            return self._wait(delivery, self._resolve(flow))
        return self._send_datagram(delivery, (address, port))

    def _send_datagram(self, delivery: _Delivery, to: Address) -> bool:
        attempt = delivery.attempts[0]
        udp = self.udp_for(attempt.flow, ipv6=":" in to[0])
        return udp is not None and udp.send(attempt.data, to)

    def _by_connection(self, delivery: _Delivery) -> bool:
        flow = delivery.attempts[0].flow
        connection = None if self._key(flow) in self._waiting else self._connections.find(flow)
        if connection is not None:
            return connection.send(delivery.attempts[0].data)
        if flow.transport in {"ws", "wss"}:
            return False  # a browser cannot be called back
        return self._wait(delivery, self._connect(flow))

    def _fail(self, delivery: _Delivery) -> None:
        """Try the next way; when there is none, tell."""
        if self._closed:
            return
        first, *rest = delivery.attempts
        if first.moved:
            self._large.refuse(delivery.outgoing.flow, first.data)
        if rest:
            self._try(replace(delivery, attempts=tuple(rest)))
        else:
            self._on_failed(delivery.outgoing)

    # What takes time.

    @staticmethod
    def _key(flow: Flow) -> _Key:
        return flow.transport, flow.remote, flow.domain

    def _wait(self, delivery: _Delivery, work: Coroutine[None, None, None]) -> bool:
        """Queue a message behind the task that makes its way; start that task if it does not run."""
        key = self._key(delivery.attempts[0].flow)
        waiting = self._waiting.get(key)
        if waiting is not None:
            work.close()
            if len(waiting) >= _WAITING:
                return False
            waiting.append(delivery)
            return True
        if len(self._waiting) >= _PEERS or self._closed:
            work.close()
            return False
        self._waiting[key] = [delivery]
        task = self._group.create_task(work, name=f"sip {key[0]} {key[1][0]}:{key[1][1]}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _connect(self, flow: Flow) -> None:
        connection: Connection | None = None
        # What could go by UDP as well waits for no host that is silent about TCP.
        moved = all(delivery.attempts[0].moved for delivery in self._waiting[self._key(flow)])
        for place in (await self._places(flow))[:_TRIED]:
            to = replace(flow, remote=(place.host, place.port))
            connection = self._connections.find(to) or await self._connections.connect(
                flow.transport,
                to.remote,
                local=flow.local,
                domain=flow.domain or place.domain,
                verify=self._verify(place.host),
                within=_MOVED_AFTER if moved else None,
            )
            if connection is not None:
                break
        for delivery in self._waiting.pop(self._key(flow), []):
            if connection is None or not connection.send(delivery.attempts[0].data):
                self._fail(delivery)
        self._loop.call_soon(self._on_changed)

    async def _resolve(self, flow: Flow) -> None:
        places = await self._places(flow)
        for delivery in self._waiting.pop(self._key(flow), []):
            if not places or not self._send_datagram(delivery, (places[0].host, places[0].port)):
                self._fail(delivery)
        self._loop.call_soon(self._on_changed)

    async def _places(self, flow: Flow) -> list[Place]:
        host, port = flow.remote
        families = {udp.is_ipv6 for udp in self.udp} if flow.transport == "udp" else {False, True}
        found = await self._resolver.look_up(
            flow.transport, host, port, ipv4=False in families, ipv6=True in families
        )
        if not found:
            log.warning("sip.unresolved", host=host, transport=flow.transport)
        return found

    def _known(self, host: str) -> str | None:
        """Return an address at once, if the host is one or was looked up lately."""
        if is_address(host):
            return host
        for ipv6 in sorted({udp.is_ipv6 for udp in self.udp}):
            if found := self._resolver.names.cached(host, ipv6=ipv6):
                return found[0]
        return None
