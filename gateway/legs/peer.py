"""
The peer of one trunk, kept in touch with: registered at, asked whether it is alive, looked up again.

:mod:`gateway.sip.registration` and :mod:`gateway.sip.qualification` decide; this shell has the clock, the
look-ups and the log. Everything of one trunk runs in one task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from config.trunks import TrunkSettings
from gateway.net.public_address import Bound
from gateway.sip import qualification as reach
from gateway.sip import registration as reg
from gateway.sip.errors import LocalProtocolError
from gateway.sip.events import RequestAnswered
from gateway.sip.flow import Address, Flow
from gateway.sip.message import Headers
from gateway.sip.own_request import Series
from gateway.sip.qualification import Qualification, Reach
from gateway.sip.registration import Registration, RegistrationState
from gateway.sip.target import Credentials, Target
from gateway.sip.uri import NameAddr, join_host_port

log = structlog.get_logger(__name__)

LOOK_UP_S: Final = 300.0
"""How often the addresses of a peer are looked up when nothing else is asked of it."""
LOOK_UP_AGAIN_S: Final = 30.0
"""And when the last look-up found none."""

ADDRESS_S: Final = 3600.0
"""How long an address of a peer is known after it was found last."""
MAX_ADDRESSES: Final = 64
NO_ADDRESS: Final = "no address"
"""The reason of an answer that stands for a name which leads nowhere."""


class Line(Protocol):
    """What a peer asks of the line that carries its messages."""

    async def flows(self, uri: str, listener: Bound | None = None) -> tuple[Flow, ...]:
        """Look up where a URI leads to, from a listener or the one that fits; empty when nowhere."""
        ...

    def ask(
        self,
        method: str,
        target: Target,
        *,
        headers: Iterable[tuple[str, str]] = (),
        series: Series,
        answered: Callable[[RequestAnswered], None],
    ) -> None:
        """Send a request out of dialog; ``answered`` gets its final response."""
        ...


@dataclass(frozen=True, slots=True)
class PeerContext:
    """What the peers of all trunks share."""

    line: Line
    clock: Callable[[], float]
    """Seconds, monotonic."""
    wall_clock: Callable[[], float]
    """Seconds since 1970, for people."""
    token: Callable[[], str]
    """Returns a new unguessable token of letters and digits."""
    spread: Callable[[], float]
    """Returns a random number from 0 to 1."""
    on_addresses: Callable[[str, Collection[str]], None]
    """Hears of the addresses that a trunk's peer has now."""


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """What an operator sees of a trunk's peer; times are seconds since 1970."""

    name: str
    peer: str
    """Where our requests go; empty where the trunk has no peer of its own."""
    registration: str
    """``none`` where there is none, else a :class:`~gateway.sip.registration.RegistrationState`."""
    registered_as: str
    registration_since: float | None
    reach: str
    """``unwatched`` where nobody asks, else a :class:`~gateway.sip.qualification.Reach`."""
    reach_since: float | None
    latency_ms: float | None
    last_error: str
    last_error_at: float | None
    seen_from: str
    """By which address the registrar sees us; empty before it answered."""


class TrunkPeer:
    """
    One trunk's peer.

    Args:
        name: The trunk's name.
        settings: The trunk's; its ``peer`` is not ``None``.
        context: Shared.
    """

    def __init__(self, name: str, settings: TrunkSettings, context: PeerContext) -> None:
        peer = settings.peer
        assert peer is not None
        self.name = name
        self.settings = settings
        self._context = context
        self._peer = peer
        self._wake = asyncio.Event()
        self._stopping = False
        self._look_up_at = context.clock()
        self.service_route: tuple[str, ...] = ()
        """By which proxies the registrar wants our calls to go (RFC 3608)."""
        self._found = True
        self._addresses: dict[str, float] = {}
        self._ways: set[tuple[str, Address]] = set()
        self._pings, self._registers = Series(context.token), Series(context.token)
        self._registration = (
            Registration(user=context.token(), expires=settings.register_expires_s, spread=context.spread)
            if settings.register
            else None
        )
        self._qualification = (
            Qualification(every=settings.qualify_s, now=context.clock()) if settings.qualify_s else None
        )
        self._registration_since: float | None = None
        self._reach_since: float | None = None
        self._last_error = ""
        self._last_error_at: float | None = None
        self._seen_from = ""

    @property
    def contact(self) -> str:
        """The user part of the contact that is registered; empty where none is."""
        return self._registration.user if self._registration else ""

    @property
    def status(self) -> PeerStatus:
        registration, qualification = self._registration, self._qualification
        return PeerStatus(
            name=self.name,
            peer=str(self._peer.domain),
            registration=registration.state.value if registration else "none",
            registered_as=str(self.settings.register or ""),
            registration_since=self._registration_since,
            reach=qualification.state.value if qualification else "unwatched",
            reach_since=self._reach_since,
            latency_ms=qualification.latency_ms if qualification else None,
            last_error=self._last_error,
            last_error_at=self._last_error_at,
            seen_from=self._seen_from,
        )

    def stop(self) -> None:
        """Take the registration away, ask nothing more; :meth:`run` then returns."""
        self._stopping = True
        self._qualification = None
        if self._registration is not None and self._registration.state is not RegistrationState.IDLE:
            self._registration.stop()
        self._wake.set()

    def connection_lost(self, flow: Flow) -> None:
        """Hear that a connection of ours is gone, perhaps one to this peer."""
        if self._registration is not None and (flow.transport, flow.remote) in self._ways:
            self._registration.renew(now=self._context.clock(), at_once=False)
            self._wake.set()

    async def run(self) -> None:
        """Keep in touch until :meth:`stop` is done."""
        if self._registration is not None:
            self._registration.start(now=self._context.clock())
        while not self._is_done():
            await self._step()
            await self._sleep()

    def _is_done(self) -> bool:
        idle = self._registration is None or self._registration.state is RegistrationState.IDLE
        return self._stopping and idle

    async def _sleep(self) -> None:
        """Wait until something is due or has happened."""
        machines = (self._registration, self._qualification)
        times = [machine.next_timeout() for machine in machines if machine is not None]
        due = min((at for at in (*times, self._look_up_at) if at is not None), default=None)
        wait = None if due is None else max(due - self._context.clock(), 0.0)
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _step(self) -> None:
        now = self._context.clock()
        registration, qualification = self._registration, self._qualification
        if registration is not None:
            registration.handle_timeout(now=now)
            self._tell_registration()
            for register in registration.to_send():
                await self._register(registration, register)
        if qualification is not None and qualification.handle_timeout(now=now):
            await self._ping(qualification)
        if self._context.clock() >= self._look_up_at:
            await self._look_up()

    async def _look_up(self) -> tuple[Flow, ...]:
        """Find the peer's addresses, and let what comes from them in."""
        flows = await self._context.line.flows(self._peer.domain, listener_of(self.settings))
        self._look_up_at = self._context.clock() + (LOOK_UP_S if flows else LOOK_UP_AGAIN_S)
        if flows:
            self._ways = {(flow.transport, flow.remote) for flow in flows}
            self._context.on_addresses(self.name, self._remember(flows))
        elif self._found:
            self._failed(f"{self._peer.domain} has no address")
            log.warning("trunk.unresolved", trunk=self.name, peer=self._peer.domain)
        self._found = bool(flows)
        return flows

    def _remember(self, flows: tuple[Flow, ...]) -> Collection[str]:
        """Return the peer's addresses: a name may give others each time, and each of them may call."""
        now = self._context.clock()
        self._addresses.update((flow.remote[0], now) for flow in flows)
        recent = sorted(self._addresses.items(), key=lambda entry: -entry[1])[:MAX_ADDRESSES]
        self._addresses = {host: seen for host, seen in recent if now - seen < ADDRESS_S}
        return self._addresses.keys()

    # What is asked.

    async def _register(self, registration: Registration, register: reg.Register) -> None:
        def answered(event: RequestAnswered) -> None:
            if 200 <= event.status < 300:
                self.service_route = _service_route(event.headers)
            registration.answered(event.status, event.reason, event.headers, now=self._context.clock())
            self._tell_registration()
            self._wake.set()

        flows = await self._look_up()
        if not flows:
            answered(_nobody())
            return
        target = register_target(self.settings, registration.user, flows)
        self._ask("REGISTER", target, register.headers, self._registers, answered)

    async def _ping(self, qualification: Qualification) -> None:
        def answered(event: RequestAnswered) -> None:
            qualification.answered(event.status, event.reason, now=self._context.clock())
            self._tell_reach(qualification)
            self._wake.set()

        flows = await self._look_up()
        if not flows:
            answered(_nobody())
            return
        headers = (("Accept", "application/sdp"),)
        self._ask("OPTIONS", ping_target(self.settings, flows), headers, self._pings, answered)

    def _ask(
        self,
        method: str,
        target: Target,
        headers: tuple[tuple[str, str], ...],
        series: Series,
        answered: Callable[[RequestAnswered], None],
    ) -> None:
        try:
            self._context.line.ask(method, target, headers=headers, series=series, answered=answered)
        except LocalProtocolError as error:  # a setting that makes no header
            answered(RequestAnswered("", 400, str(error), Headers()))

    # What is told.

    def _tell_registration(self) -> None:
        for event in self._registration.events() if self._registration else ():
            match event:
                case reg.Registered(expires):
                    self._registration_since = self._context.wall_clock()
                    log.info("trunk.registered", trunk=self.name, expires_s=expires)
                case reg.RegistrationFailed(status, reason, retry_after):
                    self._registration_since = self._context.wall_clock()
                    self._failed(f"REGISTER: {said(status, reason)}")
                    log.warning(
                        "trunk.registration_failed",
                        trunk=self.name,
                        status=status,
                        why=reason,
                        retry_s=round(retry_after),
                    )
                case reg.RefreshFailed(status, reason, seconds):
                    self._failed(f"REGISTER: {said(status, reason)}")
                    log.warning(
                        "trunk.refresh_failed",
                        trunk=self.name,
                        status=status,
                        why=reason,
                        ends_s=round(seconds),
                    )
                case reg.Unregistered(status):
                    self._registration_since = self._context.wall_clock()
                    log.info("trunk.unregistered", trunk=self.name, status=status)
                case reg.SeenFrom(host, port):
                    self._seen_from = join_host_port(host, port)
                    if event.translated:
                        told = join_host_port(*event.told)
                        log.info("trunk.seen_from", trunk=self.name, address=self._seen_from, told=told)

    def _tell_reach(self, qualification: Qualification) -> None:
        for event in qualification.events():
            before = self._reach_since
            self._reach_since = self._context.wall_clock()
            match event:
                case reach.Reached(latency_ms):
                    log.info("trunk.up", trunk=self.name, latency_ms=round(latency_ms, 1))
                    if before is not None and self._registration is not None:
                        # It may have been started anew and forgotten us.
                        self._registration.renew(now=self._context.clock(), at_once=True)
                case reach.Lost(status, reason):
                    self._failed(f"OPTIONS: {said(status, reason)}")
                    log.warning("trunk.down", trunk=self.name, status=status, why=reason)

    def _failed(self, why: str) -> None:
        self._last_error, self._last_error_at = why, self._context.wall_clock()


def credentials_of(settings: TrunkSettings) -> Credentials | None:
    """Return what the challenges of a trunk's peer are answered with."""
    known = settings.credentials
    return Credentials(known[0], known[1].get_secret_value(), settings.realm) if known else None


def register_target(settings: TrunkSettings, contact: str, flows: tuple[Flow, ...]) -> Target:
    """
    Address a REGISTER (RFC 3261, section 10.2).

    Args:
        settings: The trunk's, with an address to register.
        contact: The user part of our contact.
        flows: Where the registrar is.
    """
    address = settings.register
    assert address is not None
    registered = f"<{address.scheme}:{address.user}@{address.place}>"
    return Target(
        uri=f"{address.scheme}:{address.place}",
        from_=registered,
        to=registered,
        flows=flows,
        credentials=credentials_of(settings),
        user=contact,
    )


def ping_target(settings: TrunkSettings, flows: tuple[Flow, ...]) -> Target:
    """Address an OPTIONS to a trunk's peer."""
    peer = settings.peer
    assert peer is not None
    user = settings.from_user or (settings.register.user if settings.register else "trunkline")
    return Target(
        uri=f"{peer.scheme}:{peer.place}",
        from_=f"<sip:{user}@{own_host(settings, flows[0])}>",
        flows=flows,
        credentials=credentials_of(settings),
    )


def listener_of(settings: TrunkSettings) -> Bound | None:
    """Return the trunk's own listener: by which requests of ours leave, and which they name."""
    listen = settings.listen
    return None if listen is None else (listen.transport, listen.host, listen.port)


def _service_route(headers: Headers) -> tuple[str, ...]:
    """Read Service-Route; one that is no list of loose routes is none (RFC 3608, section 5)."""
    try:
        found = headers.elements("Service-Route")
        routes = [NameAddr.parse(each).uri.sip for each in found]
    except ValueError:
        return ()
    return tuple(found) if all(route is not None and route.loose for route in routes) else ()


def own_host(settings: TrunkSettings, flow: Flow) -> str:
    """Return the host of our From on a trunk."""
    if settings.from_host:
        return settings.from_host
    return join_host_port(settings.register.host if settings.register else flow.local[0], None)


_SILENCE: Final = {"timeout": "no answer", "transport": "no connection", NO_ADDRESS: "no address found"}


def said(status: int, reason: str) -> str:
    """Write an answer for a reader; a 408 of our own, which stands for none, is not shown as the peer's."""
    return (_SILENCE.get(reason) if status == 408 else None) or f"{status} {reason}"


def _nobody() -> RequestAnswered:
    return RequestAnswered("", 408, NO_ADDRESS, Headers())


UNWATCHED: Final = "unwatched"


def status_without_peer(name: str) -> PeerStatus:
    """Return the status of a trunk that only calls us."""
    return PeerStatus(name, "", "none", "", None, UNWATCHED, None, None, "", None, "")


def figures_of(status: PeerStatus) -> tuple[float | None, float | None]:
    """Return what the metrics say: registered or not, reachable or not, ``None`` for no word."""
    registered = None if status.registration == "none" else float(status.registration == "registered")
    known = status.reach in {Reach.UP, Reach.DOWN}
    return registered, float(status.reach == Reach.UP) if known else None
