"""
Which trunk a call belongs to (no I/O). Deny by default: an address in no trunk gets no service.

What decides is where a call comes from, with which certificate, on which listener, and to which registered
contact it goes: the last is a token that only the registrar was told. Nothing that a caller can write counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from gateway.sip.flow import Flow, Transport

_CACHE_SIZE = 4096
_ANY_HOST = frozenset({"0.0.0.0", "::"})  # noqa: S104  compared with, not bound

_Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Listener:
    """One of our listeners, as the configuration names it."""

    transport: Transport
    host: str
    port: int

    def heard(self, flow: Flow) -> bool:
        """Whether a message of ``flow`` came in here."""
        if flow.transport != self.transport or flow.local[1] != self.port:
            return False
        return self.host in _ANY_HOST or self.host in {flow.bound, flow.local[0]}


@dataclass(frozen=True, slots=True)
class TrunkEntry:
    """What is configured of one trunk's calls."""

    allow: tuple[str, ...] = ()
    """Addresses and CIDR networks."""
    listener: Listener | None = None
    certificate: str = ""
    """A name, in lower case, that must stand in the certificate that the peer shows."""
    registers: bool = False
    """Whether its calls come to a contact that we register."""
    user: str = ""
    """The user that is registered."""
    tls_verify: bool = True
    """Whether its certificate must be right when we connect to it."""


@dataclass(frozen=True, slots=True)
class Match:
    """The trunk of a call."""

    trunk: str
    registered_as: str = ""
    """The user whose registered contact was called; empty when the call came another way."""


class TrunkTable:
    """
    Trunks, their networks, and the contacts that are registered for them.

    Args:
        trunks: By name.
    """

    def __init__(self, trunks: Mapping[str, TrunkEntry] | None = None) -> None:
        self._trunks: Mapping[str, TrunkEntry] = {}
        self._peers: dict[str, frozenset[str]] = {}
        self._contacts: dict[str, str] = {}
        self._networks: list[tuple[_Network, str]] = []
        self._cache: dict[str, tuple[tuple[int, str], ...]] = {}
        self.use(trunks or {})

    def use(self, trunks: Mapping[str, TrunkEntry]) -> None:
        """Take a new configuration; of trunks that stay, the looked-up addresses and contacts are kept."""
        self._trunks = dict(trunks)
        self._peers = {name: hosts for name, hosts in self._peers.items() if name in trunks}
        self._contacts = {user: name for user, name in self._contacts.items() if name in trunks}
        self._rebuild()

    def set_peer(self, trunk: str, hosts: Collection[str]) -> None:
        """Say which addresses the name of a trunk's peer has at present."""
        if trunk in self._trunks and self._peers.get(trunk) != frozenset(hosts):
            self._peers[trunk] = frozenset(hosts)
            self._rebuild()

    def set_contact(self, trunk: str, token: str) -> None:
        """Say which user part of our contact a trunk's registrar was told; it replaces the one before."""
        self._contacts = {user: name for user, name in self._contacts.items() if name != trunk}
        self._contacts[token] = trunk

    def knows(self, host: str) -> bool:
        """Whether an address may talk to us at all."""
        return bool(self._owners(host))

    def verifies(self, host: str) -> bool:
        """Whether a peer that we connect to must show the right certificate; only a trunk can waive it."""
        owners = self._owners(host)
        return not owners or any(self._trunks[name].tls_verify for _, name in owners)

    def find(self, flow: Flow, user: str = "") -> Match | None:
        """
        Name the trunk of a call.

        Args:
            flow: How it came.
            user: The user part of the Request-URI.

        Returns:
            ``None`` when no trunk, or more than one, could have sent it.
        """
        owners = [each for each in self._owners(flow.remote[0]) if self._hears(each[1], flow)]
        registered = self._contacts.get(user)
        if registered is not None:
            if all(name != registered for _, name in owners):
                return None  # somebody else has learned the token
            return Match(registered, self._trunks[registered].user or user)
        closest = [name for length, name in owners if length == owners[0][0]]
        if len(closest) > 1:
            # Calls for a registered trunk come to its contact; this one did not.
            closest = [name for name in closest if not self._trunks[name].registers]
        return Match(closest[0]) if len(closest) == 1 else None

    def _hears(self, trunk: str, flow: Flow) -> bool:
        entry = self._trunks[trunk]
        if entry.certificate and entry.certificate not in flow.names:
            return False
        return entry.listener is None or entry.listener.heard(flow)

    def _owners(self, host: str) -> tuple[tuple[int, str], ...]:
        """Return prefix length and trunk of each network that has the address, the longest first."""
        if host not in self._cache:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[host] = self._look_up(host)
        return self._cache[host]

    def _look_up(self, host: str) -> tuple[tuple[int, str], ...]:
        address = _address(host)
        if address is None:
            return ()
        return tuple(
            (network.prefixlen, name)
            for network, name in self._networks
            if address.version == network.version and address in network
        )

    def _rebuild(self) -> None:
        found: set[tuple[_Network, str]] = set()
        for name, entry in self._trunks.items():
            found.update((ip_network(each, strict=False), name) for each in entry.allow)
        for name, hosts in self._peers.items():
            addresses = (_address(host) for host in hosts)
            found.update((ip_network(str(each)), name) for each in addresses if each is not None)
        self._networks = sorted(found, key=lambda pair: -pair[0].prefixlen)
        self._cache.clear()


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address: IPv4Address | IPv6Address = ip_address(host.split("%", 1)[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
