"""
Whose packets are trusted: symmetric RTP (RFC 4961) with a lock that nobody picks (RFC 7362, section 5).

The address that the peer signalled is always right. Another one is believed only as far as there is a reason:
another port of the same host, as symmetric peers behind a port translator use it, at once; any host at once
where the signalled address is one that cannot be reached from outside, because there the peer is behind NAT;
any other host after three packets in a row while the signalled one is silent. A lock that was taken with one
packet stands for good after three in a row, and may be lost to another source with three in a row before
that. From then on it moves only with a new description, or with the very same stream.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple, TypeAlias

Address: TypeAlias = tuple[str, int]

_FORMER_REFUSED_S = 1.0
_ROW = 3
_WINDOW_S = 1.0
"""Packets in a row come within this time."""
_STEP = 4
"""How far apart the numbers of two packets in a row may be: some are lost."""

_INSIDE: tuple[IPv4Network | IPv6Network, ...] = tuple(
    map(
        ip_network,
        (
            "10.0.0.0/8",  # RFC 1918
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",  # RFC 6598
            "127.0.0.0/8",
            "169.254.0.0/16",
            "0.0.0.0/32",
            "fc00::/7",  # RFC 4193
            "fe80::/10",
            "::1/128",
            "::/128",
        ),
    )
)


def is_unspecified(address: Address) -> bool:
    """Whether it is 0.0.0.0 or ::, to which nothing may be sent (the hold of RFC 2543)."""
    return ip_address(address[0]).is_unspecified


def is_inside(host: str) -> bool:
    """Whether an address means something only inside its own network."""
    address = ip_address(host)
    return any(address in network for network in _INSIDE)


class _Row(NamedTuple):
    """Packets of one stream from one place that followed each other."""

    source: Address
    ssrc: int
    sequence: int
    since: float
    length: int


class SourceLock:
    """
    Where the peer's packets come from, and so where ours go.

    Args:
        strict: Trust no host but the signalled one, whatever comes first, and send only to its address.
        barred: The SSRC that this port has heard in an older call, whose peer may still be sending.
    """

    def __init__(self, *, strict: bool = False, barred: int | None = None) -> None:
        self.locked: Address | None = None
        self.sure: Address | None = None
        """The locked source, once it cannot be lost to another one."""
        self.signalled: Address | None = None
        self.moves = 0
        """How often another address took over without a new description."""
        self._strict = strict
        self._barred = barred
        self._inside = False
        self._former: Address | None = None  # the locked source before the last change of address
        self._changed_at = 0.0
        self._row: _Row | None = None

    def signal(self, address: Address, now: float) -> bool:
        """
        Take the address of a new description.

        Returns:
            Whether the lock was opened, because the peer moved.
        """
        if address == self.signalled or is_unspecified(address):
            return False
        self._former = self.locked
        self._changed_at = now
        self.signalled = address
        self._inside = is_inside(address[0])
        self.locked = self.sure = self._row = None
        return True

    @property
    def destination(self) -> Address | None:
        """Where to send: to the source, or where the peer said if only that counts."""
        return self.signalled if self._strict else self.locked or self.signalled

    def admits(self, source: Address, now: float, *, ssrc: int, sequence: int, follows: bool) -> bool:
        """
        Decide about a valid packet from an address that is not sure; lock it if it is trusted.

        Args:
            source: Where it came from.
            now: When.
            ssrc: Of the packet.
            sequence: Of the packet.
            follows: Whether it continues the stream that is heard.
        """
        # From the signalled address only what is still on its way: some telephones have one SSRC for ever.
        if ssrc == self._barred and (source != self.signalled or now - self._changed_at <= _FORMER_REFUSED_S):
            return False
        if source == self.signalled:
            self._lock(source)
            self.sure = source
            return True
        in_a_row = self._in_a_row(source, now, ssrc, sequence)
        if source == self.locked:
            if in_a_row:
                self.sure = source
            return True
        if not self._trusts(source, now, in_a_row=in_a_row, follows=follows):
            return False
        self._lock(source)
        if in_a_row or follows:
            self.sure = source
        return True

    def _trusts(self, source: Address, now: float, *, in_a_row: bool, follows: bool) -> bool:
        same_host = self.signalled is not None and source[0] == self.signalled[0]
        if self._strict and not same_host:
            return False
        if self.sure is not None:
            return follows
        # Packets that were on their way when the peer moved must not lock its old address.
        if source == self._former and now - self._changed_at <= _FORMER_REFUSED_S:
            return False
        if self.locked is not None:
            return in_a_row or follows
        return same_host or self._inside or in_a_row

    def _lock(self, source: Address) -> None:
        if self.locked is not None and source != self.locked:
            self.moves += 1
        self.locked = source
        self.sure = None

    def _in_a_row(self, source: Address, now: float, ssrc: int, sequence: int) -> bool:
        """Count packets that follow each other; whoever interrupts the row begins a new one."""
        row = self._row
        if (
            row is None
            or (row.source, row.ssrc) != (source, ssrc)
            or not 0 < (sequence - row.sequence & 0xFFFF) <= _STEP
            or now - row.since > _WINDOW_S
        ):
            self._row = _Row(source, ssrc, sequence, now, 1)
            return False
        self._row = _Row(source, ssrc, sequence, row.since, row.length + 1)
        return row.length + 1 >= _ROW
