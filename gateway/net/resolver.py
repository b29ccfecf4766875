"""Where a SIP URI leads to: the procedures of RFC 3263, section 4."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

from gateway.net.lookup import Naptr, Srv
from gateway.net.sip_udp import is_address
from gateway.sip.flow import Transport
from gateway.sip.uri import SipUri

MAX_PLACES = 16
"""A name may have any number of addresses; nobody waits for all of them."""

_LOOK_UP_S = 8.0
_NAPTR: Final[dict[str, Transport]] = {"SIP+D2U": "udp", "SIP+D2T": "tcp", "SIPS+D2T": "tls"}
_SRV: Final[dict[Transport, str]] = {"udp": "_sip._udp", "tcp": "_sip._tcp", "tls": "_sips._tcp"}


class Names(Protocol):
    """Answers questions about names; an empty list when there is no answer."""

    async def naptr(self, name: str) -> list[Naptr]: ...

    async def srv(self, name: str) -> list[Srv]: ...

    async def addresses(self, name: str, *, ipv6: bool) -> list[str]: ...

    def cached(self, name: str, *, ipv6: bool) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """One address that a request can be sent to."""

    transport: Transport
    host: str
    """An IP address."""
    port: int
    domain: str = ""
    """The name that was looked up: its certificate is asked for (RFC 5922); empty for an address."""


class Resolver:
    """
    Turns URIs into places, in the order in which they are to be tried.

    Args:
        names: The domain name system.
        transports: What we can send by; all others are passed over.
        draw: Returns a random number from 0 to its argument, both included, for the weights of SRV.
    """

    def __init__(self, names: Names, transports: Sequence[Transport], draw: Callable[[int], int]) -> None:
        self.names = names
        self.transports = tuple(transports)
        self._draw = draw

    async def resolve(self, uri: SipUri, *, ipv4: bool = True, ipv6: bool = True) -> list[Place]:
        """
        Return where requests for ``uri`` can be sent; an empty list when there is no such place.

        Args:
            uri: The next hop: the first Route, else the target.
            ipv4: Whether IPv4 addresses are of use.
            ipv6: Whether IPv6 addresses are; they come behind the others of the same name.
        """
        host = uri.param("maddr") or uri.host
        named = _named_transport(uri)
        if named is not None and named not in self.transports:
            return []
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                return await self._places(
                    host, uri.port, named, secure=uri.scheme == "sips", want=(ipv4, ipv6)
                )
        except TimeoutError:
            return []

    async def look_up(
        self, transport: Transport, host: str, port: int, *, ipv4: bool = True, ipv6: bool = True
    ) -> list[Place]:
        """Do the same for a transport that is settled; port 0 is to be found as well."""
        if transport not in self.transports:
            return []
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                return await self._places(
                    host, port or None, transport, secure=transport == "tls", want=(ipv4, ipv6)
                )
        except TimeoutError:
            return []

    async def addresses(self, host: str) -> list[str]:
        """Return the addresses of a host of any kind, IPv4 first."""
        if is_address(host):
            return [host]
        found = [await self.names.addresses(host, ipv6=False), await self.names.addresses(host, ipv6=True)]
        return [address for family in found for address in family]

    async def _places(
        self, host: str, port: int | None, named: Transport | None, *, secure: bool, want: tuple[bool, bool]
    ) -> list[Place]:
        standard: Transport = named or ("tls" if secure else "udp")
        if is_address(host):
            usable = want[1] if ":" in host else want[0]
            return [Place(standard, host, port or _default_port(standard))] if usable else []
        if port is not None:
            return await self._at(host, standard, port, host, want)
        places: list[Place] = []
        for transport, service in await self._services(host, named, secure=secure):
            for record in order(await self.names.srv(service), self._draw):
                if record.port == 0:
                    continue  # nothing can be sent there
                places += await self._at(record.target, transport, record.port, host, want)
                if len(places) >= MAX_PLACES:
                    return places[:MAX_PLACES]
        return places or await self._at(host, standard, _default_port(standard), host, want)

    async def _services(
        self, host: str, named: Transport | None, *, secure: bool
    ) -> list[tuple[Transport, str]]:
        """Return the names of the SRV records to be asked for, each with its transport (section 4.1)."""
        possible = [each for each in _SRV if each in self.transports and (each == "tls" or not secure)]
        if named is not None:
            return [(named, f"{_SRV[named]}.{host}")] if named in _SRV else []
        chosen = [
            (_NAPTR[record.service], record.replacement)
            for record in sorted(await self.names.naptr(host), key=lambda it: (it.order, it.preference))
            if _NAPTR.get(record.service) in possible and record.flags == "s"
        ]
        # A SIP URI may be answered by TLS alone where the domain wishes so; a SIPS URI by nothing else.
        return chosen or [(transport, f"{_SRV[transport]}.{host}") for transport in possible]

    async def _at(
        self, name: str, transport: Transport, port: int, domain: str, want: tuple[bool, bool]
    ) -> list[Place]:
        if not name:
            return []  # RFC 2782: a target of "." says that the service is not there
        found: list[str] = [name] if is_address(name) else []
        for ipv6, wanted in enumerate(want):
            if wanted and not found[MAX_PLACES:] and not is_address(name):
                found += await self.names.addresses(name, ipv6=bool(ipv6))
        return [Place(transport, address, port, domain) for address in found[:MAX_PLACES]]


def order(records: Iterable[Srv], draw: Callable[[int], int]) -> list[Srv]:
    """
    Put SRV records into the order in which they are tried (RFC 2782).

    Lower priorities come first; within one, chance decides by weight, and records without weight are
    rarely first.
    """
    ordered: list[Srv] = []
    by_priority = sorted(records, key=lambda it: it.priority)
    for _, group in groupby(by_priority, key=lambda it: it.priority):
        left = sorted(group, key=lambda it: it.weight)
        while left:
            drawn = draw(sum(record.weight for record in left))
            running = 0
            for record in left:
                running += record.weight
                if running >= drawn:
                    break
            left.remove(record)
            ordered.append(record)
    return ordered


def _named_transport(uri: SipUri) -> Transport | None:
    if uri.scheme == "sips":
        return "tls"
    match uri.transport:
        case "udp" | "tcp" | "tls" | "ws" | "wss" as named:
            return named
        case "":
            return None
        case _:
            return "ws"  # one that nobody can be reached by from here, such as sctp


def _default_port(transport: Transport) -> int:
    return 5061 if transport == "tls" else 5060
