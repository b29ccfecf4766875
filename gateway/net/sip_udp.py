"""SIP over UDP: one listening socket, and which local address reaches a peer."""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from typing import cast

from gateway.sip.flow import Address

MAX_DATAGRAM = 65_535
_RECEIVE_BUFFER = 1 << 20
_CACHED_ADDRESSES = 1024
_CACHE_AFTER = 60.0


def bound_socket(kind: socket.SocketKind, host: str, port: int) -> socket.socket:
    """
    Bind a non-blocking socket to an IP address.

    An IPv6 socket takes IPv6 only, so that an IPv4 peer always appears with its IPv4 address: the
    allow-list knows it by that. Raises ``OSError``.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, kind)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        sock.setblocking(False)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def is_address(host: str) -> bool:
    """Whether a host is an IP address, and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_wildcard(host: str) -> bool:
    """Whether a socket that is bound to ``host`` hears on all addresses."""
    return host in {"0.0.0.0", "::"}  # noqa: S104 (compared, not bound)


class UdpSocket(asyncio.DatagramProtocol):
    """
    One listening UDP socket.

    Args:
        on_datagram: Gets this socket, the data, and the peer's host and port.
        number: Its name in flows.
    """

    def __init__(self, on_datagram: Callable[[UdpSocket, bytes, Address], None], number: int = 0) -> None:
        self._on_datagram = on_datagram
        self._transport: asyncio.DatagramTransport | None = None
        self._scopes: OrderedDict[str, int] = OrderedDict()
        self._refused = False
        self.number = number
        self.closed = asyncio.Event()
        self.address: Address = ("", 0)
        """Where it is bound, perhaps to a wildcard."""

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.address[0]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)  # uvloop's is no subclass of it
        self.address = transport.get_extra_info("sockname")[:2]
        if hasattr(transport, "max_size"):
            # CPython asks for 256 KiB a datagram, which costs an mmap and a munmap each time.
            transport.max_size = MAX_DATAGRAM

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self.closed.set()

    def datagram_received(self, data: bytes, addr: tuple[str, int] | tuple[str, int, int, int]) -> None:
        host = addr[0].partition("%")[0]
        if len(addr) == 4 and addr[3]:
            self._note_scope(host, addr[3])
        self._on_datagram(self, data, (host, addr[1]))

    def _note_scope(self, host: str, scope: int) -> None:
        """Remember on which link a link-local address is: the answer needs it, SIP cannot carry it."""
        self._scopes[host] = scope
        self._scopes.move_to_end(host)
        if len(self._scopes) > _CACHED_ADDRESSES:
            self._scopes.popitem(last=False)

    def error_received(self, exc: Exception) -> None:
        """
        Note that the kernel refuses what is being sent, because there is no way to the peer.

        Of earlier datagrams, ICMP may tell at any time; the transaction's timer finds out by itself.
        """
        del exc
        self._refused = True

    def send(self, data: bytes, address: Address) -> bool:
        """Send a datagram; ``False`` when the socket is closed, or there is no way to the address from it."""
        if self._transport is None or (":" in address[0]) != self.is_ipv6 or len(data) > MAX_DATAGRAM - 28:
            return False
        scope = self._scopes.get(address[0])
        self._refused = False
        self._transport.sendto(data, address if scope is None else (*address, 0, scope))
        return not self._refused

    def close(self) -> None:
        if self._transport is None:
            self.closed.set()
        else:
            self._transport.close()


class LocalAddresses:
    """Finds the local address from which the kernel reaches a peer; bounded and short-lived memory."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def towards(self, host: str, *, now: float) -> str | None:
        """Return our address on the way to an IP address, ``None`` when there is no way."""
        known = self._known.get(host)
        if known is not None and now < known[1]:
            self._known.move_to_end(host)
            return known[0]
        found = _ask_kernel(host)
        if found is not None:
            self._known[host] = (found, now + _CACHE_AFTER)
            self._known.move_to_end(host)
            if len(self._known) > _CACHED_ADDRESSES:
                self._known.popitem(last=False)
        return found


def _ask_kernel(host: str) -> str | None:
    """Connect a UDP socket, which sends nothing, and look at its own end."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((host, 9))
        except OSError:
            return None
        found: str = sock.getsockname()[0]
    return found.partition("%")[0]
