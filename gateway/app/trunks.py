"""From the settings of trunks to what the line, the table and the operator's pages take of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from config.models import Settings
from config.trunks import TrunkSettings
from gateway.legs.numbers import NumberPlan, PrefixRule
from gateway.legs.parties import PartyRules
from gateway.legs.peer import PeerStatus, credentials_of
from gateway.legs.sip_line import LineSettings
from gateway.legs.trunks import Listener, TrunkEntry
from gateway.net.media_stream import MediaRules
from gateway.rtp.delay import JitterLimits
from gateway.sdp import SrtpPolicy
from gateway.sip.digest import Algorithm
from gateway.sip.identity import CallerSource
from gateway.sip.policy import PeerPolicy, Proof
from gateway.sip.target import Credentials

_SOURCES: Final[Mapping[str, CallerSource]] = MappingProxyType(
    {"pai": CallerSource.ASSERTED, "rpid": CallerSource.SCREENED, "from": CallerSource.FROM}
)


def line_settings(settings: Settings) -> LineSettings:
    """Return what the line takes of the trunks."""
    return LineSettings(
        codecs={name: trunk.codecs for name, trunk in settings.trunks.items()},
        srtp={name: SrtpPolicy(trunk.srtp) for name, trunk in settings.trunks.items()},
        parties=party_rules(settings),
        credentials=credentials(settings),
        media=media_rules(settings),
        policies=policies(settings),
    )


def entries(settings: Settings) -> dict[str, TrunkEntry]:
    """Return by trunk what its calls are recognised by."""
    return {name: _entry(trunk) for name, trunk in settings.trunks.items()}


def party_rules(settings: Settings) -> dict[str, PartyRules]:
    """Return by trunk what it is believed of caller and called."""
    return {name: _rules(trunk) for name, trunk in settings.trunks.items()}


def media_rules(settings: Settings) -> dict[str, MediaRules]:
    """Return by trunk how the audio of its calls is treated."""
    server = settings.server.sip
    return {
        name: MediaRules(
            lost_after_ms=round(server.media_timeout_s * 1000),
            held_after_ms=round(server.hold_timeout_s * 1000),
            jitter=JitterLimits(trunk.jitter_ms.min, trunk.jitter_ms.max),
            strict=trunk.symmetric_rtp == "strict",
            inband=trunk.inband_dtmf,
        )
        for name, trunk in settings.trunks.items()
    }


def credentials(settings: Settings) -> dict[str, Credentials]:
    """Return by trunk with what our requests answer a challenge."""
    known = {name: credentials_of(trunk) for name, trunk in settings.trunks.items()}
    return {name: found for name, found in known.items() if found is not None}


def policies(settings: Settings) -> dict[str, PeerPolicy]:
    """Return by trunk how its requests are treated."""
    realm = settings.server.sip.public_name
    return {name: _policy(trunk, realm) for name, trunk in settings.trunks.items()}


def board(statuses: list[PeerStatus], calls: Callable[[str], int]) -> list[dict[str, object]]:
    """Return what ``/trunks`` shows: everything that is known of each trunk, and no secret."""
    return [
        {
            "name": status.name,
            "calls": calls(status.name),
            "peer": status.peer,
            "reach": {
                "state": status.reach,
                "since": status.reach_since,
                "latency_ms": None if status.latency_ms is None else round(status.latency_ms, 1),
            },
            "registration": {
                "state": status.registration,
                "since": status.registration_since,
                "address": status.registered_as,
                "seen_from": status.seen_from,
            },
            "last_error": {"what": status.last_error, "at": status.last_error_at},
        }
        for status in statuses
    ]


def _entry(trunk: TrunkSettings) -> TrunkEntry:
    listen, register = trunk.listen, trunk.register
    return TrunkEntry(
        allow=trunk.allow,
        listener=Listener(listen.transport, listen.host, listen.port) if listen else None,
        certificate=(trunk.certificate or "").lower(),
        registers=register is not None,
        tls_verify=trunk.tls_verify,
        user=register.user if register else "",
    )


def _policy(trunk: TrunkSettings, realm: str | None) -> PeerPolicy:
    proof = None
    if (asked := trunk.auth) is not None:
        known = Credentials(asked.username, asked.password.get_secret_value(), realm)
        proof = Proof(known, tuple(Algorithm(name) for name in asked.algorithms))
    return PeerPolicy(
        session_timers=trunk.session_timers,
        reliable_provisional=trunk.reliable_ringing,
        proof=proof,
    )


def _rules(trunk: TrunkSettings) -> PartyRules:
    return PartyRules(
        plan=NumberPlan(
            trunk.country or "", [PrefixRule(rule.strip, rule.prefix) for rule in trunk.number_rules]
        ),
        order=tuple(_SOURCES[source] for source in trunk.caller_order),
        trusted=trunk.trusted,
        headers=tuple(name.lower() for name in trunk.headers),
    )
