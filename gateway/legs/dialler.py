"""Calls of ours over the configured trunks; whatever no trunk carries is not dialled."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

import structlog

from gateway.legs.base import CallInfo, CannotDial
from gateway.legs.description import CallDescription
from gateway.legs.outbound import Identity, OutboundRoute, OutboundRoutes, Unroutable
from gateway.legs.outgoing import Dialling, OutgoingLeg
from gateway.legs.sip import Signalling
from gateway.legs.sip_line import LineSettings
from gateway.net.dtls import own_certificate
from gateway.net.media_stream import DEFAULT_RULES, MediaStatistics
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool, PortsExhausted
from gateway.sdp import NotAcceptable, SrtpPolicy
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from gateway.sip.target import Target
from providers.types import AudioFormat

log = structlog.get_logger(__name__)


class Line(Signalling, Dialling, Protocol):
    """What both kinds of legs ask of the line that carries them."""

    settings: LineSettings

    def media_host(self, flow: Flow) -> str:
        """The address on which media with the peer of a flow is to be bound."""
        ...


def _never(trunk: str) -> bool:
    del trunk
    return False


class TrunkDialler:
    """
    Satisfies :class:`gateway.legs.base.Dialler`.

    Args:
        line: Carries the calls.
        routes: The trunks that take calls of ours; replaced with the configuration.
        pool: Where media ports come from.
        pacer: The process-wide clock.
        clock: Seconds, monotonic.
        on_media: Takes the figures of each leg's media when it is over.
        is_full: Whether a trunk carries as many calls as it may.
    """

    def __init__(
        self,
        *,
        line: Line,
        routes: OutboundRoutes,
        pool: PortPool,
        pacer: Pacer,
        clock: Callable[[], float],
        on_media: Callable[[MediaStatistics], None],
        is_full: Callable[[str], bool] = _never,
    ) -> None:
        self._is_full = is_full
        self.routes = routes
        self._line = line
        self._pool = pool
        self._pacer = pacer
        self._clock = clock
        self._on_media = on_media

    def has_route(self, came_over: str, trunk: str | None) -> bool:
        return self._route(came_over, trunk) is not None

    async def dial(
        self, destination: str, *, caller: CallInfo, number: str, line: AudioFormat, trunk: str | None
    ) -> OutgoingLeg:
        route = self._route(caller.trunk, trunk)
        if route is None:
            raise CannotDial("no_route", "no trunk takes calls of ours; give one an address")
        if self._is_full(route.trunk):
            raise CannotDial("overloaded", f"the trunk {route.trunk} carries its max_calls")
        try:
            target = await route.target(destination, Identity(number, caller.caller))
        except Unroutable as error:
            raise CannotDial("no_route", str(error)) from error
        leg = self._build(route, target, destination, caller, number, line)
        try:
            await leg.call(self._line, target)
        except LocalProtocolError as error:
            leg.abandon()
            raise CannotDial("no_route", str(error)) from error
        except OSError as error:  # no socket is left for its media
            leg.abandon()
            raise CannotDial("overloaded", str(error)) from error
        return leg

    def _route(self, came_over: str, trunk: str | None) -> OutboundRoute | None:
        """Find the trunk that was asked for, else the caller's own, else the only one there is."""
        if trunk is not None:
            return self.routes.find(trunk)
        return self.routes.find(came_over) or self.routes.only()

    def _build(
        self,
        route: OutboundRoute,
        target: Target,
        destination: str,
        caller: CallInfo,
        number: str,
        line: AudioFormat,
    ) -> OutgoingLeg:
        settings = self._line.settings
        host = target.flows[0].local[0]
        # The caller's own codec first: then the two lines need no conversion.
        codecs = sorted(route.codecs, key=lambda name: name.lower() != line.encoding)
        try:
            lease = self._pool.lease(self._clock(), self._line.media_host(target.flows[0]))
        except PortsExhausted as error:
            raise CannotDial("overloaded", str(error)) from error
        try:
            description = CallDescription.for_offer(
                None,
                host=host,
                port=lease.port,
                codecs=codecs,
                srtp=settings.srtp.get(route.trunk, SrtpPolicy.OPTIONAL),
                fingerprint=own_certificate().fingerprint,
            )
        except (NotAcceptable, ValueError) as error:
            lease.release(self._clock())
            raise CannotDial("no_route", str(error)) from error
        return OutgoingLeg(
            info=CallInfo(f"{caller.id}-{secrets.token_hex(2)}", number, destination, route.trunk),
            call="",
            signalling=self._line,
            description=description,
            lease=lease,
            clock=self._clock,
            format=line,
            local_host=host,
            pacer=self._pacer,
            prebuffer_ms=settings.prebuffer_ms,
            on_media=self._on_media,
            rules=settings.media.get(route.trunk, DEFAULT_RULES),
        )
