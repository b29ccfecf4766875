"""
The SIP line: a user agent on its sockets, and the legs that it carries.

It turns a :class:`~gateway.sip.events.CallOffered` into a leg, or into a refusal in SIP's own
terms, and hands every later event to the leg it belongs to.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from gateway import sdp
from gateway.legs.base import CallInfo
from gateway.legs.description import CallDescription
from gateway.legs.parties import PartyRules, describe
from gateway.legs.refusal import Refusal
from gateway.legs.sip import FORMATS, SipLeg
from gateway.legs.sip_trace import SipTrace
from gateway.legs.trunks import Match, TrunkEntry, TrunkTable
from gateway.net.dtls import own_certificate
from gateway.net.media_stream import DEFAULT_RULES, MediaRules, MediaStatistics
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool, PortsExhausted
from gateway.net.public_address import Bound
from gateway.net.sip_endpoint import EndpointSettings, SipEndpoint
from gateway.sip import events as sip
from gateway.sip.flow import Flow
from gateway.sip.message import Request
from gateway.sip.own_request import Series
from gateway.sip.policy import ANYBODY, PeerPolicy
from gateway.sip.target import Credentials, Target
from gateway.sip.ua import UserAgent

log = structlog.get_logger(__name__)

_BELIEVES_NOTHING = PartyRules()
_NO_TRUNK = Refusal(403, "Forbidden", "no_trunk")
"""A call from an address of several trunks that shows nothing of which."""


@dataclass(frozen=True, slots=True)
class LineSettings:
    """What the line takes from the configuration."""

    codecs: dict[str, tuple[str, ...]]
    """For each trunk the codecs in order of preference."""
    parties: Mapping[str, PartyRules] = field(default_factory=dict)
    """For each trunk what it is believed of caller and called."""
    srtp: Mapping[str, sdp.SrtpPolicy] = field(default_factory=dict)
    """For each trunk whether media is protected; optional where nothing is said."""
    credentials: Mapping[str, Credentials] = field(default_factory=dict)
    """For each trunk with which our requests in a call answer a challenge."""
    policies: Mapping[str, PeerPolicy] = field(default_factory=dict)
    """For each trunk how its requests are treated."""
    prebuffer_ms: int = 40
    media: Mapping[str, MediaRules] = field(default_factory=dict)
    """For each trunk how its audio is treated."""


Admit = Callable[[CallInfo], Refusal | None]


class SipLine:
    """
    All SIP calls of the process.

    Args:
        ua: The user agent, not shared with anything else.
        pool: Where media ports come from.
        pacer: The process-wide clock.
        clock: Seconds, monotonic; the loop's own time.
        admit: Says before anything is allocated whether a call may come in.
        on_leg: Takes each ringing leg.
        on_media: Takes the figures of each leg's media when it is over.
        trace: Is told whose dialog is whose, and shown every message while :meth:`trace` says so.
        network: What the configuration says about sockets.
    """

    def __init__(
        self,
        *,
        ua: UserAgent,
        pool: PortPool,
        pacer: Pacer,
        clock: Callable[[], float],
        trunks: TrunkTable,
        settings: LineSettings,
        admit: Admit,
        on_leg: Callable[[SipLeg], None],
        on_media: Callable[[MediaStatistics], None],
        trace: SipTrace | None = None,
        network: EndpointSettings | None = None,
    ) -> None:
        self._ua = ua
        self._pool = pool
        self._pacer = pacer
        self._clock = clock
        self._admit = admit
        self._on_leg = on_leg
        self._on_media = on_media
        self._legs: dict[str, SipLeg] = {}
        self._dialled: dict[str, str] = {}
        """The trunk of each call of ours."""
        self._asked: dict[str, Callable[[sip.RequestAnswered], None]] = {}
        self._trace = SipTrace(_forget) if trace is None else trace
        self.trunks = trunks
        self.settings = settings
        ua.treat(self._policy)
        self.endpoint = SipEndpoint(
            ua,
            allowed=self._allows,
            on_event=self.handle,
            clock=clock,
            settings=network,
            verify=trunks.verifies,
            on_lost=self._lost,
        )
        self.on_lost: Callable[[Flow], None] | None = None
        """Hears of each connection of ours that is gone."""

    def use(self, trunks: Mapping[str, TrunkEntry], settings: LineSettings) -> None:
        """Take a new configuration; legs that exist keep what they began with."""
        self.trunks.use(trunks)
        self.settings = settings

    def _allows(self, host: str) -> bool:
        """Whether a source may talk to us: as a trunk's, or because a call with it outlives its trunk."""
        return self.trunks.knows(host) or self._ua.talks_with(host)

    def _policy(self, flow: Flow, user: str) -> PeerPolicy:
        """Say how a request is treated: as the trunk says that it comes from, or that ours goes to."""
        match = self.trunks.find(flow, user)
        return ANYBODY if match is None else self.settings.policies.get(match.trunk, ANYBODY)

    def trace(self, *, wanted: bool) -> None:
        """Begin or stop to keep the messages of calls; calls that run already are seen from here on."""
        self.endpoint.tap = self._trace.saw if wanted else None

    def drain(self) -> None:
        """Answer OPTIONS with 503 from now on, so that the trunk sends calls elsewhere."""
        self._ua.drain(True)

    # Commands of the legs (gateway.legs.sip.Signalling).

    def answer(self, call: str, sdp: bytes) -> None:
        self._ua.answer(call, sdp, now=self._clock())
        self.endpoint.settle()

    def reject(self, call: str, status: int, reason: str) -> None:
        self._ua.reject(call, status, reason=reason, now=self._clock())
        self.endpoint.settle()

    def bye(self, call: str) -> None:
        self._ua.bye(call, now=self._clock())
        self.endpoint.settle()

    def refer(self, call: str, destination: str) -> None:
        self._ua.refer(call, destination, now=self._clock())
        self.endpoint.settle()

    def answer_reoffer(self, call: str, sdp: bytes | None, why: str = "") -> None:
        if sdp is None:
            log.info("call.offer_refused", sip_call_id=self._ua.call_id(call), why=why)
        headers = tuple(Refusal(488, "", why).headers()) if sdp is None else ()
        self._ua.answer_reoffer(call, sdp, headers=headers, now=self._clock())
        self.endpoint.settle()

    def answer_refer(self, call: str, status: int) -> None:
        self._ua.answer_refer(call, status, now=self._clock())
        self.endpoint.settle()

    def _lost(self, flow: Flow) -> None:
        if self.on_lost is not None:
            self.on_lost(flow)

    # Requests of ours out of dialog (gateway.legs.peer.Line).

    async def flows(self, uri: str, listener: Bound | None = None) -> tuple[Flow, ...]:
        """Look up where a URI leads to (RFC 3263), by a listener or the one that fits; empty when nowhere."""
        return await self.endpoint.flows(uri, listener)

    def ask(
        self,
        method: str,
        target: Target,
        *,
        headers: Iterable[tuple[str, str]] = (),
        series: Series,
        answered: Callable[[sip.RequestAnswered], None],
    ) -> None:
        """Send a request; ``answered`` gets its final response, in the event loop and once."""
        handle = self._ua.request(method, target, headers=headers, series=series, now=self._clock())
        self._asked[handle] = answered
        self.endpoint.settle()

    # Commands of the legs that we dial (gateway.legs.outgoing.Dialling).

    def invite(self, leg: SipLeg, target: Target, sdp: bytes) -> str:
        call = self._ua.invite(target, sdp, now=self._clock())
        self._legs[call] = leg  # before the first event of it
        self._dialled[call] = leg.info.trunk
        # Its id is the caller's with an ending: it is a part of the caller's story.
        whose = leg.info.id.partition("-")[0]
        self._trace.bind(call, self._ua.call_id(call), whose, now=self._clock())
        self.endpoint.settle()
        return call

    def dialled_on(self, trunk: str) -> int:
        """Calls of ours now over one trunk."""
        return sum(each == trunk for each in self._dialled.values())

    def media_host(self, flow: Flow) -> str:
        return self.endpoint.media_host(flow)

    def cancel(self, call: str) -> None:
        self._ua.cancel(call, now=self._clock())
        self.endpoint.settle()

    # Events of the user agent.

    def handle(self, event: sip.SipEvent) -> None:
        """Take one event; called by the endpoint before it sends what the event led to."""
        match event:
            case sip.CallOffered():
                self._offered(event)
            case sip.RequestRefused():
                log.info("sip.refused", source=event.source, status=event.status, why=event.why)
            case sip.MessageDropped():
                log.info("sip.dropped", source=event.source, why=event.why)
            case sip.RequestAnswered():
                if (answered := self._asked.pop(event.request, None)) is not None:
                    answered(event)
            case sip.CallEnded():
                self._trace.release(event.call, now=self._clock())
                self._dialled.pop(event.call, None)
                leg = self._legs.pop(event.call, None)
                if leg is not None:
                    leg.handle(event)
            case _:
                leg = self._legs.get(event.call)
                if leg is not None:
                    leg.handle(event)

    def _offered(self, event: sip.CallOffered) -> None:
        match = self.trunks.find(event.flow, event.request.uri.user)
        info = self._describe(event, match)
        refusal = _NO_TRUNK if match is None else self._admit(info)
        leg = refusal or self._build(event, info)
        if isinstance(leg, Refusal):
            self._refuse(event.call, info, leg)
            return
        self._legs[event.call] = leg
        if (credentials := self.settings.credentials.get(info.trunk)) is not None:
            self._ua.use_credentials(event.call, credentials, now=self._clock())
        self._trace.bind(event.call, event.request.call_id, info.id, now=self._clock())
        self._ua.ring(event.call, now=self._clock())
        self._on_leg(leg)

    def _describe(self, event: sip.CallOffered, match: Match | None) -> CallInfo:
        trunk, registered_as = (match.trunk, match.registered_as) if match else ("", "")
        rules = self.settings.parties.get(trunk, _BELIEVES_NOTHING)
        found = describe(event.request, rules, registered_as=registered_as)
        return CallInfo(
            id=uuid.uuid4().hex,
            caller=found.caller,
            called=found.called,
            trunk=trunk,
            parameters=found.parameters,
        )

    def _build(self, event: sip.CallOffered, info: CallInfo) -> SipLeg | Refusal:
        codecs = self.settings.codecs.get(info.trunk, ("PCMU", "PCMA"))
        audio = _AUDIO_HOST.search(event.offer or b"")
        flow = event.flow if audio is None else self.endpoint.flow_of_media(event.flow, audio[1].decode())
        host = flow.local[0]
        try:
            lease = self._pool.lease(self._clock(), self.endpoint.media_host(flow))
        except PortsExhausted:
            return Refusal(503, "Service Unavailable", "ports_exhausted", retry_after_s=5)
        try:
            description = CallDescription.for_offer(
                event.offer,
                host=host,
                port=lease.port,
                codecs=codecs,
                srtp=self.settings.srtp.get(info.trunk, sdp.SrtpPolicy.OPTIONAL),
                fingerprint=own_certificate().fingerprint,
            )
        except sdp.SdpError as error:
            lease.release(self._clock())
            return Refusal(400, "Bad Session Description", str(error))
        except sdp.NotAcceptable as error:
            lease.release(self._clock())
            return Refusal(488, "Not Acceptable Here", str(error))
        if description.skipped:
            log.info("call.sdp_lines_skipped", call_id=info.id, trunk=info.trunk, lines=description.skipped)
        media = description.media
        return SipLeg(
            info=info,
            call=event.call,
            signalling=self,
            description=description,
            lease=lease,
            clock=self._clock,
            format=FORMATS[media.codec if media else codecs[0]],
            local_host=host,
            pacer=self._pacer,
            prebuffer_ms=self.settings.prebuffer_ms,
            on_media=self._on_media,
            rules=self.settings.media.get(info.trunk, DEFAULT_RULES),
            takes_refer=takes_refer(event.request),
        )

    def _refuse(self, call: str, info: CallInfo, refusal: Refusal) -> None:
        log.warning("call.refused", call_id=info.id, trunk=info.trunk, status=refusal.status, why=refusal.why)
        self._ua.reject(
            call, refusal.status, reason=refusal.reason, headers=refusal.headers(), now=self._clock()
        )


_AUDIO_HOST = re.compile(rb"^c=IN IP[46] ([0-9A-Fa-f:.]+)[ \t]*\r?$", re.MULTILINE)
"""Enough of an offer to see the family of its audio; what it really says is read with the ports at hand."""


def _forget(*_: object) -> None:
    """Where nobody keeps messages."""


def takes_refer(request: Request) -> bool:
    """Whether the peer's Allow has REFER in it, or it has none, which says nothing."""
    allowed = request.headers.tokens("Allow")
    return not allowed or "refer" in allowed
