"""
The running gateway: everything joined, owned by one task group.

Order at the end: no new calls, running calls finish or are ended, sockets close, then everything
else.
"""

from __future__ import annotations

import asyncio
import gc
import random
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
import structlog

from config.models import Settings
from config.watch import Current, Reload, follow
from gateway.app import trunks
from gateway.app.network import endpoint_settings
from gateway.app.providers import ProviderPool, give_advice
from gateway.app.sources import ConfigSources
from gateway.calls.admission import Admission
from gateway.calls.bus import EventBus
from gateway.calls.call import Services
from gateway.calls.events import SipMessage
from gateway.calls.metering import QUEUE_SIZE, Meter
from gateway.calls.plan import Plan, make_plans
from gateway.calls.prompts import Prompts
from gateway.calls.recording import Recorder
from gateway.calls.routing import Router
from gateway.calls.switchboard import Switchboard
from gateway.legs.base import CallInfo, CallLeg
from gateway.legs.dialler import TrunkDialler
from gateway.legs.peer import PeerContext, figures_of
from gateway.legs.refusal import Refusal
from gateway.legs.registrar import Registrar
from gateway.legs.routes import TrunkRoutes
from gateway.legs.sip_line import SipLine
from gateway.legs.sip_trace import SipTrace, Traced
from gateway.legs.trunks import TrunkTable
from gateway.net.media_stream import MediaStatistics
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool
from gateway.sip.settings import SessionTerms, UaSettings
from gateway.sip.timers import Timers
from gateway.sip.ua import UserAgent
from gateway.store.memory import LogAudit, MemoryLedger
from gateway.telemetry.metrics import Metrics, ProviderFigures, TrunkFigures
from gateway.web.app import create_app
from gateway.web.server import WebServer
from providers.failover import Failover
from providers.fakes.script import ScriptError
from tools import ToolBuilders
from tools.ports import PortError

log = structlog.get_logger(__name__)

FAREWELL_S = 2.0
"""How long the last BYEs and unregistrations may take to be answered before the sockets close."""
COLLECT_S = 30.0
"""How often the cycles of finished calls are freed."""


class CannotListen(Exception):
    """An address of the configuration that cannot be listened on."""


class Gateway:
    """
    One process's gateway.

    Args:
        current: The settings; followed while the gateway runs.
    """

    def __init__(self, current: Current) -> None:
        settings = current.settings
        loop = asyncio.get_running_loop()
        self.clock: Callable[[], float] = loop.time
        self.current = current
        self.metrics = Metrics()
        self.bus = EventBus(on_drop=self.metrics.event_dropped)
        self.recorder = Recorder(self.bus)
        self.recorder.use(settings.storage.recordings)
        self.pacer = Pacer(on_error=_pacer_failed)
        ports = settings.server.sip.rtp_ports
        self.pool = PortPool(ports.first, ports.last)
        self._providers = ProviderPool()
        self.failover = Failover(settings.server.breaker)
        self._known = settings.providers
        # A look-up service's session cookie must not travel from one caller to the next.
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._http = httpx2.AsyncClient(trust_env=False, cookies=no_cookies)
        self.ua = UserAgent(_ua_settings(settings), lambda: secrets.token_hex(8))
        self.line = SipLine(
            ua=self.ua,
            pool=self.pool,
            pacer=self.pacer,
            clock=self.clock,
            trunks=TrunkTable(trunks.entries(settings)),
            settings=trunks.line_settings(settings),
            admit=self._admit,
            on_leg=self._take,
            on_media=self._media_done,
            network=endpoint_settings(settings.server),
            trace=SipTrace(self._traced),
        )
        self.line.trace(wanted=_traces(settings))
        self.registrar = self._make_registrar()
        self.dialler = TrunkDialler(
            line=self.line,
            routes=self._routes(settings),
            pool=self.pool,
            pacer=self.pacer,
            clock=self.clock,
            on_media=self._media_done,
            is_full=self._is_full,
        )
        services = Services(
            clock=self.clock,
            bus=self.bus,
            prompts=Prompts(),
            audit=LogAudit(log.info),
            ledger=MemoryLedger(),
            dialler=self.dialler,
            failover=self.failover,
        )
        self.switchboard = Switchboard(self._plans(settings), self._admission(settings), services)
        self.web = WebServer(create_app(self, self.metrics), settings.server.http.listen)
        self._listening = False
        self._watch()

    def _make_registrar(self) -> Registrar:
        context = PeerContext(
            line=self.line,
            clock=self.clock,
            wall_clock=time.time,
            token=lambda: secrets.token_hex(8),
            spread=random.random,
            on_addresses=self.line.trunks.set_peer,
        )
        registrar = Registrar(self.line.trunks, context)
        registrar.use(self.current.settings.trunks)
        self.line.on_lost = registrar.connection_lost
        return registrar

    def _watch(self) -> None:
        self.metrics.watch(
            active_calls=lambda: self.switchboard.active,
            leased_ports=lambda: self.pool.leased,
            pacer_late_ticks=lambda: self.pacer.late_ticks,
            sip_connections=lambda: self.line.endpoint.connections,
            sip_dialogs=lambda: self.ua.dialogs,
            sip_transactions=lambda: self.ua.transactions,
            sip_dropped=lambda: self.line.endpoint.dropped,
        )
        self.metrics.watch_trunks(self._trunk_figures)
        self.metrics.watch_providers(self._provider_figures)

    def trunks(self) -> list[dict[str, object]]:
        """Return what is known of each trunk, without secrets."""
        return trunks.board(self.registrar.statuses, self.switchboard.calls_on)

    def _trunk_figures(self) -> list[TrunkFigures]:
        return [
            TrunkFigures(status.name, self.switchboard.calls_on(status.name), *figures_of(status))
            for status in self.registrar.statuses
        ]

    def providers(self) -> dict[str, str]:
        """Return the state of each provider's breaker; of none that was never tried."""
        return {name: state.value for name, state in self.failover.states(self.clock()).items()}

    def _provider_figures(self) -> list[ProviderFigures]:
        failures = self.failover.failures()
        return [ProviderFigures(name, state, failures[name]) for name, state in self.providers().items()]

    def unready(self) -> list[str]:
        """Say why no new call should be sent here."""
        return [
            reason
            for reason, holds in (
                ("starting", not self._listening),
                ("draining", self.switchboard.draining),
            )
            if holds
        ]

    async def run(self, stop: asyncio.Event, force: asyncio.Event) -> None:
        """
        Serve until ``stop``, then drain; ``force`` ends the calls that are left.

        Raises :exc:`CannotListen`.
        """
        async with self._http, AsyncExitStack() as stack:
            stack.push_async_callback(self.line.endpoint.close)
            await self._read_knowledge()
            gc.collect()
            gc.freeze()  # what lives for ever is not looked at again by the collector
            await self._listen()  # last of all: from the first packet on there is somebody to take a call
            async with asyncio.TaskGroup() as group:
                meter = Meter(self.metrics).run(self.bus.subscribe("meter", QUEUE_SIZE))
                background = [
                    group.create_task(follow(self.current, self._reloaded), name="config"),
                    group.create_task(self.web.run(), name="web"),
                    group.create_task(_listening(meter, "meter"), name="meter"),
                    group.create_task(_collect(), name="collector"),
                    group.create_task(give_advice(self._providers.providers.values()), name="advice"),
                ]
                recorder = group.create_task(_listening(self.recorder.run(), "recorder"), name="recorder")
                calls = group.create_task(self.switchboard.run(), name="switchboard")
                registrar = group.create_task(_listening(self.registrar.run(), "registrar"), name="registrar")
                await stop.wait()
                self.line.drain()
                self.registrar.stop()
                enforcer = group.create_task(self._enforce(force), name="force")
                await self.switchboard.drain(self.current.settings.server.drain_s)
                await calls
                await self._last_words(registrar)
                self.recorder.close()
                await recorder
                for task in [*background, enforcer, registrar]:
                    task.cancel()

    async def _read_knowledge(self) -> None:
        """Index the documents before the first caller has to wait for it."""
        try:
            await self._sources.knowledge.describe(tuple(self.current.settings.knowledge_bases))
        except PortError as error:
            log.error("knowledge.unreadable", error=str(error))  # noqa: TRY400 - the sentence says it all

    async def _listen(self) -> None:
        try:
            self.web.bind()
        except OSError as error:
            where = self.current.settings.server.http.listen
            raise CannotListen(f"server.http.listen: cannot listen on {where}: {error.strerror}") from error
        endpoint = self.line.endpoint
        for listen in self.current.settings.server.sip.listen:
            try:
                await endpoint.listen(listen.transport, listen.host, listen.port)
            except OSError as error:
                raise CannotListen(
                    f"server.sip.listen: cannot listen on {listen}: {error.strerror}; write a free address"
                ) from error
        self._listening = True
        log.info("sip.listening", addresses=endpoint.addresses)

    async def _enforce(self, force: asyncio.Event) -> None:
        await force.wait()
        await self.switchboard.end_all()

    async def _last_words(self, registrar: asyncio.Task[None]) -> None:
        """Give the last BYEs, and the registrars that are told of our end, a moment to answer."""
        deadline = self.clock() + FAREWELL_S
        while (self.ua.dialogs or not registrar.done()) and self.clock() < deadline:  # noqa: ASYNC110 - the user agent has no event for it
            await asyncio.sleep(0.05)

    def _reloaded(self, reload: Reload) -> None:
        if not reload.accepted:
            log.error("config.refused", problems=[str(problem) for problem in reload.problems])
            return
        settings = self.current.settings
        try:
            plans = self._plans(settings)
        except ScriptError as error:  # it was good when the settings were checked
            log.error("config.refused", problems=list(error.problems))  # noqa: TRY400 - it names them all
            return
        self.switchboard.use(plans, self._admission(settings))
        self.line.use(trunks.entries(settings), trunks.line_settings(settings))
        self.registrar.use(settings.trunks)
        self.dialler.routes = self._routes(settings)
        self._read_certificates(settings)
        self.recorder.use(settings.storage.recordings)
        self.line.trace(wanted=_traces(settings))
        log.info(
            "config.reloaded",
            warnings=[str(problem) for problem in reload.problems],
            needs_restart=[str(problem) for problem in reload.restart],
        )

    def _read_certificates(self, settings: Settings) -> None:
        """Take certificates that have changed, for new connections."""
        try:
            self.line.endpoint.use_tls(endpoint_settings(settings.server).tls)
        except OSError as error:  # they were good when the settings were checked
            log.error("sip.certificate_unusable", error=str(error))  # noqa: TRY400 - the sentence says it all

    def _traced(self, call_id: str, at: float, seen: Traced) -> None:
        self.bus.publish(
            SipMessage(call_id, at, seen.sent, seen.transport, seen.local, seen.remote, seen.text)
        )

    # The line is made before the switchboard, whose calls dial over it.

    def _admit(self, info: CallInfo) -> Refusal | None:
        return self.switchboard.admit(info)

    def _take(self, leg: CallLeg) -> None:
        self.switchboard.take(leg)

    def _admission(self, settings: Settings) -> Admission:
        limits = {name: trunk.max_calls for name, trunk in settings.trunks.items()}
        return Admission(settings.server.sip.max_calls, limits, self.line.dialled_on)

    def _is_full(self, trunk: str) -> bool:
        return self.switchboard.is_full(trunk)

    def _routes(self, settings: Settings) -> TrunkRoutes:
        return TrunkRoutes(
            settings.trunks, self.registrar.contact, self.line.flows, self.registrar.service_route
        )

    def _media_done(self, figures: MediaStatistics) -> None:
        quality = figures.quality
        counted = quality.statistics
        self.metrics.rtp_finished(
            received=counted.received,
            sent=counted.sent,
            lost=counted.lost,
            late=counted.late,
            refused=counted.refused,
            concealed_ms=counted.concealed_ms,
            underruns=figures.underruns,
            undecryptable=quality.undecryptable,
            protection=quality.protection.partition(" ")[0],
        )
        for direction, hearing in (("caller", quality.caller), ("agent", quality.agent)):
            if hearing is not None:
                self.metrics.call_heard(
                    figures.trunk,
                    direction,
                    mos=hearing.mos,
                    missing=hearing.loss + hearing.discard,
                    jitter_ms=hearing.jitter_ms,
                    delay_ms=hearing.delay_ms,
                )

    def _plans(self, settings: Settings) -> Router[Plan]:
        self._sources = ConfigSources(settings, self._http)
        known, self._known = self._known, settings.providers
        self.failover.keep(name for name, entry in settings.providers.items() if known.get(name) == entry)
        return make_plans(settings, self._providers.use(settings), ToolBuilders(self._sources))


async def _listening(work: Coroutine[None, None, None], name: str) -> None:
    """Run a listener of the event bus; a fault in it must not end anybody's call."""
    try:
        await work
    except Exception:
        log.exception("listener.failed", listener=name)


def _traces(settings: Settings) -> bool:
    """Whether SIP messages are kept: they lie in the folders of the recordings."""
    return settings.storage.sip_trace and settings.storage.recordings is not None


def _ua_settings(settings: Settings) -> UaSettings:
    timers = settings.server.sip.timers
    expires, min_se = settings.server.sip.session_expires_s, settings.server.sip.min_se_s
    return UaSettings(
        public_host=settings.server.sip.public_name,
        timers=Timers(t1=timers.t1_ms / 1000, t2=timers.t2_ms / 1000, t4=timers.t4_ms / 1000),
        refer_timeout=settings.server.sip.refer_timeout_s,
        session=SessionTerms(interval=expires, min_se=min_se),
        # Room for those, too, whose BYE is under way.
        max_dialogs=2 * settings.server.sip.max_calls + 100,
    )


def _pacer_failed(error: Exception) -> None:
    log.error("pacer.failed", error=repr(error))


async def _collect() -> None:
    """
    Free what finished calls left in cycles: their dialogs, their SDK's connections.

    Left alone, the collector waits for some 70,000 objects, a thousand calls, and memory grows meanwhile.
    What was there at the start is frozen, so this takes 2 to 8 ms.
    """
    while True:
        await asyncio.sleep(COLLECT_S)
        gc.collect()
