"""
``trunkline trunk test``: one trunk tried from outside, step by step, with the reason and what to do.

It has a user agent of its own: on the gateway's ports where that does not run, beside it on free ones.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from config.models import Settings
from config.trunks import TrunkSettings
from gateway.app.network import endpoint_settings
from gateway.app.trunks import line_settings
from gateway.legs.base import Answered, CallInfo, CannotDial, HungUp, LegEvent
from gateway.legs.dialler import TrunkDialler
from gateway.legs.peer import ping_target, register_target, said
from gateway.legs.refusal import Refusal
from gateway.legs.routes import TrunkRoutes
from gateway.legs.sip_line import SipLine
from gateway.legs.trunks import TrunkEntry, TrunkTable
from gateway.net.media_stream import MediaStatistics
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool
from gateway.net.public_address import Bound
from gateway.net.tls import TlsContexts, TlsFailure
from gateway.net.tls_probe import probe
from gateway.sip.errors import LocalProtocolError
from gateway.sip.events import RequestAnswered
from gateway.sip.fields import Via
from gateway.sip.flow import Flow, Transport
from gateway.sip.message import REASONS, Headers
from gateway.sip.own_request import Series
from gateway.sip.party import clean
from gateway.sip.registration import granted_to
from gateway.sip.settings import UaSettings
from gateway.sip.target import Target
from gateway.sip.text import param
from gateway.sip.ua import UserAgent
from providers.types import PCMU

PATIENCE_S: Final = 10.0
"""How long the answer to a request is waited for."""
RING_S: Final = 40.0
LISTEN_S: Final = 3.0
"""How long the answered test call is listened to."""
SOON_DAYS: Final = 14


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    NOTE = "note"
    """Worth knowing; nothing was tried, or it is not wrong."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the test."""

    verdict: Verdict
    step: str
    what: str
    todo: str = ""


async def check_trunk(settings: Settings, name: str, number: str = "") -> AsyncGenerator[Check, None]:
    """
    Try a trunk, and yield what was found as it is found.

    Args:
        settings: The gateway's.
        name: One of its trunks.
        number: Whom to call over it; empty calls nobody.
    """
    trunk = settings.trunks[name]
    if trunk.peer is None:
        todo = "add address: sip:HOST, and qualify_s to have it watched"
        yield Check(Verdict.FAIL, "address", "this trunk only calls us: there is nobody to ask", todo)
        return
    agent = _Agent(settings, name)
    try:
        await agent.listen()
        async with aclosing(_Trial(agent, settings, name, trunk).run(number)) as checks:
            async for check in checks:
                yield check
    finally:
        await agent.line.endpoint.close()


class _Agent:
    """A line of our own, for the length of the test."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.clock = asyncio.get_running_loop().time
        self._name = name
        self._listen = settings.server.sip.listen
        ports = settings.server.sip.rtp_ports
        self.pool = PortPool(ports.first, ports.last)
        self.pacer = Pacer(on_error=_ignore)
        self.figures: list[MediaStatistics] = []
        self.line = SipLine(
            ua=UserAgent(
                UaSettings(public_host=settings.server.sip.public_name), lambda: secrets.token_hex(8)
            ),
            pool=self.pool,
            pacer=self.pacer,
            clock=self.clock,
            # What is wrong with a certificate is told by a step of its own.
            trunks=TrunkTable({name: TrunkEntry(tls_verify=False)}),
            settings=line_settings(settings),
            admit=lambda info: Refusal(480, "Temporarily Unavailable", "only a test"),
            on_leg=_ignore,
            on_media=self.figures.append,
            network=endpoint_settings(settings.server),
        )

    async def listen(self) -> None:
        """Take the gateway's own ports where it does not run, else free ones on all addresses."""
        await self._try((each.transport, each.host, each.port) for each in self._listen)
        bound = {transport for transport, _, _ in self.line.endpoint.addresses}
        wanted: tuple[Transport, ...] = ("udp", "tcp")
        hosts = ("0.0.0.0", "::")  # noqa: S104 - only the peer's addresses are answered
        await self._try((each, host, 0) for each in wanted if each not in bound for host in hosts)

    async def _try(self, places: Iterable[tuple[Transport, str, int]]) -> None:
        """Listen wherever that is possible."""
        for place in places:
            try:
                await self.line.endpoint.listen(*place)
            except OSError:
                continue

    async def find(self, uri: str, listener: Bound | None = None) -> tuple[Flow, ...]:
        """Look an address up, and let what comes from it in."""
        flows = await self.line.flows(uri, listener)
        self.line.trunks.set_peer(self._name, {flow.remote[0] for flow in flows})
        return flows

    async def ask(
        self, method: str, target: Target, headers: Iterable[tuple[str, str]], series: Series
    ) -> tuple[RequestAnswered, float]:
        """Return the answer and after how many milliseconds it came; silence is a 408."""
        began = self.clock()
        answer: asyncio.Future[RequestAnswered] = asyncio.get_running_loop().create_future()

        def answered(event: RequestAnswered) -> None:
            if not answer.done():
                answer.set_result(event)

        try:
            self.line.ask(method, target, headers=headers, series=series, answered=answered)
        except LocalProtocolError as error:
            return RequestAnswered("", 400, str(error), Headers()), 0.0
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await answer, (self.clock() - began) * 1000
        except TimeoutError:
            return RequestAnswered("", 408, "timeout", Headers()), PATIENCE_S * 1000


def _ignore(_: object) -> None:
    """For what a test has no use for."""


class _Trial:
    """The steps for one trunk."""

    def __init__(self, agent: _Agent, settings: Settings, name: str, trunk: TrunkSettings) -> None:
        assert trunk.peer is not None
        self._agent = agent
        self._settings = settings
        self._name = name
        self._trunk = trunk
        self._peer = trunk.peer

    async def run(self, number: str) -> AsyncGenerator[Check, None]:
        flows = await self._agent.find(self._peer.domain)
        if not flows:
            todo = "correct the name, or server.dns; check the transport"
            yield Check(Verdict.FAIL, "address", f"{self._peer.domain} leads to no address", todo)
            return
        places = ", ".join(str(flow) for flow in flows)
        yield Check(Verdict.PASS, "address", f"{self._peer.domain} is {places}; we are {flows[0].local[0]}")
        if flows[0].secure:
            yield await self._tls(flows[0])
        yield await self._options(flows)
        if self._trunk.register is not None:
            async with aclosing(self._register(flows)) as checks:
                async for check in checks:
                    yield check
        if number:
            yield await self._call(number)

    async def _tls(self, flow: Flow) -> Check:
        files = endpoint_settings(self._settings.server).tls
        name = flow.domain or flow.remote[0]
        try:
            shown = await probe(TlsContexts(files), flow.remote, name)
        except (OSError, TlsFailure) as error:
            todo = "check port and transport; the peer may ask for a certificate of ours (server.sip.tls)"
            return Check(Verdict.FAIL, "certificate", f"no TLS at {flow}: {error}", todo)
        days = (shown.until - datetime.now(UTC)).days
        what = (
            f"{', '.join(shown.names) or shown.subject}, from {shown.issuer},"
            f" until {shown.until:%Y-%m-%d} ({days} days)"
        )
        if shown.fault and self._trunk.tls_verify:
            todo = (
                "write the peer's name in address, its authority in server.sip.tls.ca, or tls_verify: false"
            )
            return Check(Verdict.FAIL, "certificate", f"{what}: {shown.fault}", todo)
        if shown.fault:
            return Check(
                Verdict.NOTE, "certificate", f"{what}: {shown.fault}; tls_verify: false lets it pass"
            )
        if days < SOON_DAYS:
            return Check(Verdict.NOTE, "certificate", what, "tell the peer's operator that it ends soon")
        return Check(Verdict.PASS, "certificate", what)

    async def _options(self, flows: tuple[Flow, ...]) -> Check:
        answer, after_ms = await self._agent.ask(
            "OPTIONS", ping_target(self._trunk, flows), [("Accept", "application/sdp")], _series()
        )
        what = _shown(answer, after_ms)
        if answer.status == 408:
            return Check(
                Verdict.FAIL, "OPTIONS", f"no answer ({answer.reason})", _SILENT.format(flows[0].local[0])
            )
        if answer.status == 503:
            return Check(
                Verdict.FAIL, "OPTIONS", what, "the peer says that it cannot serve; ask its operator"
            )
        return Check(Verdict.PASS, "OPTIONS", what)

    async def _register(self, flows: tuple[Flow, ...]) -> AsyncGenerator[Check, None]:
        contact, series = secrets.token_hex(8), _series()
        target = register_target(self._trunk, contact, flows)
        expires = self._trunk.register_expires_s
        answer, after_ms = await self._agent.ask("REGISTER", target, [("Expires", str(expires))], series)
        least = answer.headers.get("Min-Expires") or ""
        if answer.status == 423 and least.isascii() and least.isdigit():
            answer, after_ms = await self._agent.ask("REGISTER", target, [("Expires", least)], series)
        if not 200 <= answer.status < 300:
            yield Check(Verdict.FAIL, "REGISTER", _shown(answer, after_ms), _register_todo(answer.status))
            return
        granted = granted_to(contact, answer.headers)
        seconds = f"for {granted:g} s" if granted is not None else "for an unknown time"
        what = f"{_shown(answer, after_ms)}; {self._trunk.register}, {seconds}"
        yield Check(Verdict.PASS, "REGISTER", what + _seen(answer, flows[0].local[0]))
        gone, after_ms = await self._agent.ask("REGISTER", target, [("Expires", "0")], series)
        good = 200 <= gone.status < 300
        todo = "" if good else "the contact of this test stays until it ends; tell the peer's operator"
        yield Check(Verdict.PASS if good else Verdict.FAIL, "unregister", _shown(gone, after_ms), todo)

    async def _call(self, number: str) -> Check:
        agent = self._agent
        routes = TrunkRoutes({self._name: self._trunk}, lambda trunk: "", agent.find)
        dialler = TrunkDialler(
            line=agent.line,
            routes=routes,
            pool=agent.pool,
            pacer=agent.pacer,
            clock=agent.clock,
            on_media=agent.figures.append,
        )
        ours = next((each for each in self._settings.numbers if each.startswith("+")), "trunkline")
        caller = CallInfo("test", "", ours, self._name)
        began = agent.clock()
        try:
            leg = await dialler.dial(number, caller=caller, number=ours, line=PCMU, trunk=self._name)
        except CannotDial as error:
            return Check(Verdict.FAIL, "call", str(error), "write a number or a SIP URI")
        events = leg.events()
        refused = await _until_answered(events)
        after_s = agent.clock() - began
        if refused is not None:
            await leg.hang_up()
            return refused
        await asyncio.sleep(LISTEN_S)
        await leg.hang_up()
        await _until_gone(events)
        heard = agent.figures[-1].quality.statistics.received if agent.figures else 0
        what = f"{number} answered after {after_s:.1f} s; {heard} packets of audio in {LISTEN_S:g} s"
        if heard:
            return Check(Verdict.PASS, "call", what)
        todo = "open rtp_ports in the firewall, and check server.sip.public_address"
        return Check(Verdict.FAIL, "call", what, todo)


async def _until_answered(events: AsyncIterator[LegEvent]) -> Check | None:
    """Wait for the answer; return what to say where there is none."""
    try:
        async with asyncio.timeout(RING_S):
            async for event in events:
                match event:
                    case Answered():
                        return None
                    case HungUp():
                        return _not_answered(event)
                    case _:
                        continue  # it rings
    except TimeoutError:
        pass
    return Check(Verdict.FAIL, "call", f"nobody answered in {RING_S:g} s", "call a number that is answered")


def _not_answered(event: HungUp) -> Check:
    """Say how the peer refused the call, and which setting that is about."""
    if event.reason == "unreachable" or not event.status:
        return Check(Verdict.FAIL, "call", f"not possible: {event.reason}", "check address and firewall")
    match event.status:
        case 401 | 407:
            todo = "correct username, password and realm"
        case 403:
            todo = "the peer forbids it: check from_user, from_host, username and password"
        case 404 | 484 | 604:
            todo = "the peer knows no such number: check it, number_format and dial_prefix"
        case 415 | 488 | 606:
            todo = "check codecs and srtp"
        case 480 | 486 | 487 | 600 | 603:
            todo = "call a number that is answered"
        case _:
            todo = "check the number's form, from_user, username and password, codecs, srtp"
    words = REASONS.get(event.status, event.reason)
    return Check(Verdict.FAIL, "call", f"refused: {event.status} {words}", todo)


async def _until_gone(events: AsyncIterator[LegEvent]) -> None:
    """Let the BYE be answered, if it is."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                if isinstance(event, HungUp):
                    return
    except TimeoutError:
        return


_SILENT: Final = (
    "check address and firewall; the peer has to let {} in, and may know only the gateway's port: stop the"
    " gateway, and the test takes it"
)


def _shown(answer: RequestAnswered, after_ms: float) -> str:
    """Write an answer: status, latency, and who says it is there."""
    server = clean(answer.headers.get("Server") or answer.headers.get("User-Agent") or "")
    who = f", {server}" if server else ""
    return f"{said(answer.status, clean(answer.reason))} after {after_ms:.0f} ms{who}"


def _register_todo(status: int) -> str:
    match status:
        case 401 | 407:
            return "the registrar refuses username and password: correct them"
        case 403:
            return "the registrar forbids it: check username, and whether this address may register"
        case 404 | 604:
            return "the registrar does not know that user: correct register"
        case 408:
            return "nobody answered the REGISTER: check register and address"
        case _ if 300 <= status < 400:
            return "the registrar has moved: ask its operator, and correct register"
        case _ if status >= 500:
            return "the registrar has a problem of its own: try later, ask its operator"
        case _:
            return "see what the registrar says"


def _seen(answer: RequestAnswered, told: str) -> str:
    """Say by which address the registrar sees us, where it is another than we told it."""
    try:
        via = Via.parse(answer.headers.elements("Via")[0])
    except (ValueError, IndexError):
        return ""
    seen = param(via.params, "received")
    return f"; it sees us as {seen}, we call ourselves {told}" if seen and seen != told else ""


def _series() -> Series:
    return Series(lambda: secrets.token_hex(8))
