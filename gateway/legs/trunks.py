"""Which trunk an address belongs to (no I/O). Deny by default: an address in no trunk gets no service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_CACHE_SIZE = 4096


class TrunkTable:
    """
    Networks and the trunk that each belongs to; the most specific network wins.

    Args:
        allow: For each trunk its addresses and CIDR networks.
    """

    def __init__(self, allow: Mapping[str, Iterable[str]]) -> None:
        self._networks: list[tuple[IPv4Network | IPv6Network, str]] = sorted(
            ((ip_network(entry, strict=False), name) for name, entries in allow.items() for entry in entries),
            key=lambda pair: -pair[0].prefixlen,
        )
        self._cache: dict[str, str | None] = {}

    def find(self, host: str) -> str | None:
        """Name the trunk of a source address, or ``None`` when nobody allowed it."""
        if host not in self._cache:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[host] = self._look_up(host)
        return self._cache[host]

    def _look_up(self, host: str) -> str | None:
        try:
            address: IPv4Address | IPv6Address = ip_address(host.split("%", 1)[0])
        except ValueError:
            return None
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        for network, name in self._networks:
            if address.version == network.version and address in network:
                return name
        return None
