"""What the resolver asks the domain name system: through dnspython, cached, and with an end."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, TypeAlias

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.resolver
import structlog
from dns.rdtypes.IN.NAPTR import NAPTR
from dns.rdtypes.IN.SRV import SRV

from gateway.sip.flow import Address

log = structlog.get_logger(__name__)

Kind: TypeAlias = Literal["NAPTR", "SRV", "A", "AAAA"]

_TIMEOUT_S = 4.0
_ENTRIES = 2048
_TTL_S = (5.0, 3600.0)
_NEGATIVE_S = (5.0, 60.0)
_FAILED_S = 2.0
_RETRY_S = 30.0
_TELL_AGAIN_S = 600.0
_STALE_S = 3600.0
_HOSTS = Path("/etc/hosts")
_HOSTS_AFTER = 10.0


@dataclass(frozen=True, slots=True)
class Naptr:
    """A NAPTR record that leads on to another name (RFC 3403)."""

    order: int
    preference: int
    service: str
    """In upper case, such as ``SIP+D2U``."""
    flags: str
    """In lower case: ``s`` leads to SRV records, ``a`` to addresses."""
    replacement: str


@dataclass(frozen=True, slots=True)
class Srv:
    """An SRV record (RFC 2782)."""

    priority: int
    weight: int
    target: str
    """Empty where the service is decidedly not there."""
    port: int


Record: TypeAlias = Naptr | Srv | str
"""A string is an IP address."""


@dataclass(frozen=True, slots=True)
class _Entry:
    records: tuple[Record, ...]
    until: float
    """When it is asked for again."""
    stale_until: float
    """Until when it is better than no answer."""
    told_at: float | None = None
    """When the log was last told that nobody answers; ``None`` while somebody does."""


class Dns:
    """
    Looks names up; an answer stays for its time to live, between 5 s and an hour.

    When no server answers, what was known stays good for another hour (RFC 8767).

    Args:
        servers: Addresses and ports; none takes those of the system.
        clock: Seconds, monotonic.
    """

    def __init__(self, servers: Sequence[Address], clock: Callable[[], float]) -> None:
        self._servers = tuple(servers)
        self._clock = clock
        self._resolver: dns.asyncresolver.Resolver | None = None
        self._entries: OrderedDict[tuple[str, Kind], _Entry] = OrderedDict()
        self._asking: dict[tuple[str, Kind], asyncio.Event] = {}
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._hosts_at = -_HOSTS_AFTER

    async def naptr(self, name: str) -> list[Naptr]:
        return [each for each in await self._ask(name, "NAPTR") if isinstance(each, Naptr)]

    async def srv(self, name: str) -> list[Srv]:
        return [each for each in await self._ask(name, "SRV") if isinstance(each, Srv)]

    async def addresses(self, name: str, *, ipv6: bool) -> list[str]:
        """Return the addresses of one family: from the system's hosts file, else from the servers."""
        known = [each for each in self._hosts_of(name) if (":" in each) == ipv6]
        if known:
            return known
        return [each for each in await self._ask(name, "AAAA" if ipv6 else "A") if isinstance(each, str)]

    def cached(self, name: str, *, ipv6: bool) -> list[str]:
        """Return what :meth:`addresses` would, if that needs no question."""
        known = [each for each in self._hosts_of(name) if (":" in each) == ipv6]
        entry = self._entries.get((name.lower(), "AAAA" if ipv6 else "A"))
        if known or entry is None or entry.until <= self._clock():
            return known
        return [each for each in entry.records if isinstance(each, str)]

    async def _ask(self, name: str, kind: Kind) -> tuple[Record, ...]:
        key = (name.lower(), kind)
        while True:
            entry = self._entries.get(key)
            if entry is not None and self._clock() < entry.until:
                self._entries.move_to_end(key)
                return entry.records
            asking = self._asking.get(key)
            if asking is None:
                break
            await asking.wait()  # many calls may want one name in the same moment
        done = self._asking[key] = asyncio.Event()
        try:
            entry = self._entries[key] = await self._new_entry(name, kind, entry)
        finally:
            del self._asking[key]
            done.set()
        self._entries.move_to_end(key)
        if len(self._entries) > _ENTRIES:
            self._entries.popitem(last=False)
        return entry.records

    async def _new_entry(self, name: str, kind: Kind, old: _Entry | None) -> _Entry:
        """Ask; where nobody answers, keep what was known for a while."""
        try:
            records, ttl = await self._query(name, kind)
        except (dns.exception.DNSException, OSError) as error:
            return self._failed(name, kind, old, error)
        now = self._clock()
        if old is not None and old.told_at is not None:
            log.info("dns.recovered", name=name, kind=kind)
        return _Entry(records, now + ttl, now + ttl + (_STALE_S if records else 0.0))

    def _failed(self, name: str, kind: Kind, old: _Entry | None, error: Exception) -> _Entry:
        """Tell the log once, and again every while: a trunk's name is asked for twice a minute."""
        now = self._clock()
        stale = old is not None and now < old.stale_until
        told_at = None if old is None else old.told_at
        if told_at is None or now - told_at >= _TELL_AGAIN_S:
            log.warning("dns.failed", name=name, kind=kind, error=type(error).__name__, stale=stale)
            told_at = now
        if old is not None and stale:
            return replace(old, until=now + _RETRY_S, told_at=told_at)
        return _Entry((), now + _FAILED_S, now, told_at)

    async def _query(self, name: str, kind: Kind) -> tuple[tuple[Record, ...], float]:
        resolver = self._made_resolver()
        try:
            async with asyncio.timeout(_TIMEOUT_S + 1):
                answer = await resolver.resolve(
                    name, kind, lifetime=_TIMEOUT_S, raise_on_no_answer=False, search=not self._servers
                )
        except dns.resolver.NXDOMAIN as error:
            return (), _clamp(_negative_ttl(error), _NEGATIVE_S)
        except dns.resolver.NoNameservers as error:
            raise OSError("no server answers properly") from error
        if answer.rrset is None:
            return (), _clamp(answer.chaining_result.minimum_ttl, _NEGATIVE_S)
        records = tuple(record for each in answer.rrset if (record := _read(each)) is not None)
        return records, _clamp(answer.chaining_result.minimum_ttl, _TTL_S)

    def _made_resolver(self) -> dns.asyncresolver.Resolver:
        if self._resolver is None:
            if self._servers:
                self._resolver = dns.asyncresolver.Resolver(configure=False)
                self._resolver.nameservers = [dns.nameserver.Do53Nameserver(*each) for each in self._servers]
            else:
                self._resolver = dns.asyncresolver.Resolver()
        return self._resolver

    def _hosts_of(self, name: str) -> tuple[str, ...]:
        now = self._clock()
        if now - self._hosts_at >= _HOSTS_AFTER:
            self._hosts_at, self._hosts = now, _read_hosts()
        return self._hosts.get(name.lower().rstrip("."), ())


def _clamp(ttl: float, bounds: tuple[float, float]) -> float:
    return min(max(ttl, bounds[0]), bounds[1])


def _negative_ttl(error: dns.resolver.NXDOMAIN) -> float:
    """Return for how long the name stays unknown: the SOA's word (RFC 2308)."""
    times = [
        float(min(rrset.ttl, getattr(rrset[0], "minimum", rrset.ttl)))
        for response in (error.kwargs.get("responses") or {}).values()
        for rrset in response.authority
        if rrset.rdtype == dns.rdatatype.SOA
    ]
    return min(times, default=_NEGATIVE_S[1])


def _read(record: object) -> Record | None:
    match record:
        case NAPTR():
            return Naptr(
                record.order,
                record.preference,
                record.service.decode("ascii", "replace").upper(),
                record.flags.decode("ascii", "replace").lower(),
                record.replacement.to_text(omit_final_dot=True),
            )
        case SRV():
            target = "" if record.target == dns.name.root else record.target.to_text(omit_final_dot=True)
            return Srv(record.priority, record.weight, target, record.port)
        case _:
            address = getattr(record, "address", None)
            return address if isinstance(address, str) else None


def _read_hosts() -> dict[str, tuple[str, ...]]:
    """Read the system's hosts file; ``localhost`` is always there (RFC 6761, section 6.3)."""
    found: dict[str, tuple[str, ...]] = {"localhost": ("127.0.0.1", "::1")}
    try:
        lines = _HOSTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        address, *names = line.partition("#")[0].split() or [""]
        try:
            ip_address(address)
        except ValueError:
            continue
        for name in names:
            key = name.lower()
            if key != "localhost" and address not in found.get(key, ()):
                found[key] = (*found.get(key, ()), address)
    return found
