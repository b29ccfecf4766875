"""
Port pairs for media: RTP on an even port, RTCP on the odd one above it (RFC 3550 section 11).

A pair is bound when it is leased, so whoever has a lease has working sockets. After its release it rests
for a while: the peer of the old call may still be sending to it.
"""

from __future__ import annotations

import socket
from collections import deque


class PortsExhausted(Exception):
    """No pair of the range can be had now: 503 with Retry-After."""


class PortLease:
    """
    One bound pair of UDP sockets.

    The sockets belong to the lease until somebody takes them over with :meth:`take_sockets`. Releasing
    twice is harmless.
    """

    __slots__ = ("_pool", "_sockets", "former_ssrc", "heard_ssrc", "port", "released")

    def __init__(
        self, pool: PortPool, port: int, sockets: tuple[socket.socket, ...], former_ssrc: int | None
    ) -> None:
        self.port = port
        """The RTP port; RTCP has the next one."""
        self.former_ssrc = former_ssrc
        """The stream that was heard on this port before; its sender may not have stopped."""
        self.heard_ssrc: int | None = None
        """The stream that is heard now; written down by whoever hears it, before the release."""
        self.released = False
        self._pool = pool
        self._sockets = sockets

    def take_sockets(self) -> tuple[socket.socket, socket.socket]:
        """Take over the RTP and the RTCP socket, once; the taker closes them."""
        if self.released or not self._sockets:
            raise ValueError(f"the sockets of port {self.port} are gone")
        rtp, rtcp = self._sockets
        self._sockets = ()
        return rtp, rtcp

    def release(self, now: float) -> None:
        """Give the pair back."""
        self._pool.release(self, now)

    def close_sockets(self) -> None:
        """Close the sockets that nobody took over."""
        for sock in self._sockets:
            sock.close()
        self._sockets = ()


class PortPool:
    """
    All pairs between two ports.

    Args:
        first: Lowest port; an odd one is left out.
        last: Highest port, included.
        quarantine_s: How long a released pair rests.
        host: Address that sockets are bound to where a lease names none.
    """

    def __init__(self, first: int, last: int, *, quarantine_s: float = 5.0, host: str = "0.0.0.0") -> None:  # noqa: S104 - media comes from anywhere; the session checks its source
        self._host = host
        self._quarantine_s = quarantine_s
        self._free = deque(range(first + first % 2, last, 2))
        self._resting: deque[tuple[float, int]] = deque()  # (when it is free again, port)
        self._leased: set[int] = set()
        self._heard: dict[int, int | None] = {}  # by port, what it heard last
        self.capacity = len(self._free)
        """How many pairs there are in all."""

    @property
    def leased(self) -> int:
        """How many pairs are in use."""
        return len(self._leased)

    def lease(self, now: float, host: str | None = None) -> PortLease:
        """
        Bind and lease the pair that was not used for the longest time.

        Args:
            now: Seconds.
            host: Address to bind to, in the family of the call; a wildcard takes all of that family.

        Raises:
            PortsExhausted: Every pair is leased, resting or taken by another program.
        """
        while self._resting and self._resting[0][0] <= now:
            self._free.append(self._resting.popleft()[1])
        for _ in range(len(self._free)):
            port = self._free.popleft()
            sockets = _bind_pair(host or self._host, port)
            if sockets:
                self._leased.add(port)
                return PortLease(self, port, sockets, self._heard.get(port))
            self._free.append(port)
        raise PortsExhausted(
            f"no RTP port: {len(self._leased)} pairs leased, {len(self._resting)} resting, "
            f"{len(self._free)} taken by other programs"
        )

    def release(self, lease: PortLease, now: float) -> None:
        """Take a pair back; harmless when it was released before."""
        if lease.released:
            return
        lease.released = True
        lease.close_sockets()
        self._leased.discard(lease.port)
        self._heard[lease.port] = lease.heard_ssrc
        self._resting.append((now + self._quarantine_s, lease.port))


def _bind_pair(host: str, port: int) -> tuple[socket.socket, ...]:
    """Bind both ports, or none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound: list[socket.socket] = []
    for number in (port, port + 1):
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)
        try:
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((host, number))
        except OSError:
            for other in (sock, *bound):
                other.close()
            return ()
        bound.append(sock)
    return tuple(bound)
