"""
By which address peers reach us: what Contact, Via and session descriptions say.

A fixed one, the one that routes to the peer, that of an interface, or what a STUN server sees. Never a
wildcard.
"""

from __future__ import annotations

import asyncio
import fcntl
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Protocol, TypeAlias

import structlog

from gateway.net import stun
from gateway.net.sip_udp import LocalAddresses, is_wildcard
from gateway.sip.flow import Address, Transport
from gateway.sip.uri import split_host_port

log = structlog.get_logger(__name__)

STUN_PORT = 3478

_REFRESH_S = 60.0
_RETRIES_S = (0.5, 1.0, 2.0)  # RFC 8489, section 6.2.1, with an end that a start of the process can wait for
_SIOCGIFADDR = 0x8915
_IF_INET6 = Path("/proc/net/if_inet6")
_LINK_LOCAL = "20"


Bound: TypeAlias = tuple[Transport, str, int]
"""A listener: transport, host and port."""


class Source(Protocol):
    """Knows an address of ours for a family, or does not."""

    def address(self, remote: str) -> str | None:
        """Return our address for a peer, ``None`` when there is none for it."""
        ...


class Fixed:
    """The address that the operator has written down."""

    def __init__(self, host: str) -> None:
        self._host = host

    def address(self, remote: str) -> str | None:
        return self._host if (":" in self._host) == (":" in remote) else None


class OfInterface:
    """
    The address of a network interface, asked for again after a minute: it may have a new one.

    Args:
        name: Such as ``eth0``.
        clock: Seconds, monotonic.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._clock = clock
        self._known: dict[bool, tuple[str | None, float]] = {}

    def address(self, remote: str) -> str | None:
        ipv6, now = ":" in remote, self._clock()
        found, until = self._known.get(ipv6, (None, 0.0))
        if until <= now:
            found = _ipv6_of(self._name) if ipv6 else _ipv4_of(self._name)
            if found is None:
                log.warning("sip.no_address", interface=self._name, family="IPv6" if ipv6 else "IPv4")
            self._known[ipv6] = (found, now + _REFRESH_S)
        return found


class SeenByStun:
    """
    What a STUN server sees of us; peers in private networks get the address that routes to them.

    Args:
        server: Host (name or address) and port.
        look_up: Returns the IP addresses of a host.
    """

    def __init__(self, server: Address, look_up: Callable[[str], Awaitable[list[str]]]) -> None:
        self._server = server
        self._look_up = look_up
        self._seen: dict[bool, str] = {}

    def address(self, remote: str) -> str | None:
        return None if ip_address(remote).is_private else self._seen.get(":" in remote)

    async def ask(self) -> None:
        """Ask once for each family; after a failure what was known before stays."""
        name = f"{self._server[0]}:{self._server[1]}"
        hosts = await self._look_up(self._server[0])
        why, answered = "its name has no address", False
        for ipv6 in (False, True):
            for host in (each for each in hosts if (":" in each) == ipv6):
                try:
                    seen = await exchange((host, self._server[1]))
                except (OSError, stun.StunError, TimeoutError) as error:
                    why = str(error) or "no answer"
                    continue
                answered = True
                self._learn(seen, name)
                break
        if not answered:
            used = ", ".join(self._seen.values()) or "auto"
            log.warning("sip.stun_failed", stun=name, why=why, used=used)

    def _learn(self, seen: str, server: str) -> None:
        before = self._seen.get(":" in seen)
        if seen != before:
            log.info("sip.public_address", address=seen, stun=server, before=before)
        self._seen[":" in seen] = seen

    async def run(self) -> None:
        """Ask again and again; ends with its task."""
        while True:
            await asyncio.sleep(_REFRESH_S)
            await self.ask()


class PublicAddresses:
    """
    Says which address a peer is told.

    Args:
        setting: As for :func:`source_of`; what counts for listeners that have no own.
        clock: Seconds, monotonic.
        look_up: Returns the IP addresses of a host.
    """

    def __init__(
        self, setting: str, clock: Callable[[], float], look_up: Callable[[str], Awaitable[list[str]]]
    ) -> None:
        self._clock = clock
        self._look_up = look_up
        self._routes = LocalAddresses()
        self._default = source_of(setting, clock, look_up)
        self._own: dict[Bound, Source | None] = {}

    async def start(self) -> SeenByStun | None:
        """Learn what has to be asked for; return what is to be asked again in a task."""
        return await _asked(self._default)

    async def set(self, listener: Bound, setting: str) -> SeenByStun | None:
        """Take another setting for one listener; returns the same as :meth:`start`."""
        self._own[listener] = source_of(setting, self._clock, self._look_up)
        return await _asked(self._own[listener])

    def route(self, remote: str) -> str | None:
        """Return the address from which the machine reaches a peer; ``None`` when there is no way."""
        return self._routes.towards(remote, now=self._clock())

    def towards(self, listener: Bound | None, remote: str, local: str) -> str:
        """
        Return our address for a peer.

        Args:
            listener: What the peer reached, or will.
            remote: Its IP address.
            local: The address of our socket, perhaps a wildcard.
        """
        source = self._default if listener is None else self._own.get(listener, self._default)
        if source is not None and (found := source.address(remote)) is not None:
            return found
        if not is_wildcard(local) and (":" in local) == (":" in remote):
            return local
        # Where there is no route, nothing that we say will arrive; a wildcard it must not be.
        return self.route(remote) or ("::1" if ":" in remote else "127.0.0.1")


async def _asked(source: Source | None) -> SeenByStun | None:
    if not isinstance(source, SeenByStun):
        return None
    await source.ask()
    return source


def source_of(
    setting: str, clock: Callable[[], float], look_up: Callable[[str], Awaitable[list[str]]]
) -> Source | None:
    """
    Make the source that the configuration names.

    Args:
        setting: An IP address, ``auto``, ``auto:INTERFACE`` or ``stun:HOST:PORT`` (IPv6 in brackets).
        clock: Seconds, monotonic.
        look_up: Returns the IP addresses of a host.
    """
    kind, _, rest = setting.partition(":")
    match kind:
        case "auto":
            return OfInterface(rest, clock) if rest else None
        case "stun":
            host, port = split_host_port(rest)
            return SeenByStun((host, port or STUN_PORT), look_up)
        case _:
            return Fixed(setting)


class _Answer(asyncio.DatagramProtocol):
    """Waits for one answer of one server."""

    def __init__(self, transaction: bytes) -> None:
        self._transaction = transaction
        self.seen: asyncio.Future[Address] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        del addr  # the socket is connected
        if self.seen.done():
            return
        try:
            found = stun.mapped_address(data, self._transaction)
        except stun.StunError as error:
            self.seen.set_exception(error)
            return
        if found is not None:
            self.seen.set_result(found)

    def error_received(self, exc: Exception) -> None:
        if not self.seen.done():
            self.seen.set_exception(exc)


async def exchange(server: Address) -> str:
    """
    Ask a STUN server for our address.

    Raises ``TimeoutError`` when it is silent, ``OSError`` when it cannot be reached, ``StunError`` when its
    answer is of no use.
    """
    transaction = secrets.token_bytes(12)
    loop = asyncio.get_running_loop()
    transport, answer = await loop.create_datagram_endpoint(lambda: _Answer(transaction), remote_addr=server)
    try:
        for wait in _RETRIES_S:
            transport.sendto(stun.binding_request(transaction))
            try:
                async with asyncio.timeout(wait):
                    return _reachable((await asyncio.shield(answer.seen))[0])
            except TimeoutError:
                continue
        raise TimeoutError("no answer")
    finally:
        answer.seen.cancel()
        transport.close()


def _reachable(host: str) -> str:
    address = ip_address(host)
    if address.is_unspecified or address.is_multicast:
        raise stun.StunError("the answer names an address that nobody has")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _ipv4_of(interface: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def _ipv6_of(interface: str) -> str | None:
    """Return an IPv6 address that others can use: no link-local one."""
    try:
        lines = _IF_INET6.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        packed, _, _, scope, _, name = line.split()
        if name == interface and scope != _LINK_LOCAL:
            return str(IPv6Address(bytes.fromhex(packed)))
    return None
