"""
Agreeing on SRTP, by keys in the descriptions (RFC 4568) or by DTLS (RFC 5763), or on doing without.

A line that asks for SRTP is never answered with plain RTP: it is served with SRTP or refused. A plain line
with keys or a fingerprint on it is opportunistic (RFC 8643) and may go either way.
"""

from __future__ import annotations

from ipaddress import ip_address

from gateway.sdp.crypto import Crypto
from gateway.sdp.description import Media
from gateway.sdp.fingerprint import Setup
from gateway.sdp.local import Dtls, Local, LocalSecurity, NotAcceptable, Protection, Sdes, SrtpPolicy

_PLAIN = {"RTP/AVP", "RTP/AVPF"}
_SECURE = {"RTP/SAVP", "RTP/SAVPF"}
_DTLS = {"UDP/TLS/RTP/SAVP", "UDP/TLS/RTP/SAVPF"}
_USUAL = {
    Protection.NONE: "RTP/AVP",
    Protection.SDES: "RTP/SAVP",
    Protection.DTLS: "UDP/TLS/RTP/SAVP",
}


def agree(media: Media, ours: LocalSecurity) -> Sdes | Dtls | None:
    """
    Choose how to protect a line that the peer offers.

    Raises:
        NotAcceptable: It asks for what we or the trunk's policy cannot give.
    """
    profile = media.protocol.upper()
    if profile not in _PLAIN | _SECURE | _DTLS:
        raise NotAcceptable(f"{media.protocol} is not supported")
    if ours.policy is SrtpPolicy.OFF:
        if profile in _PLAIN:
            return None
        raise NotAcceptable(f"{media.protocol} is not supported: SRTP is off for this trunk")
    chosen = (None if profile in _DTLS else _sdes(media, ours)) or _dtls(media, ours)
    if chosen is not None:
        return chosen
    if profile in _PLAIN:
        if ours.policy is SrtpPolicy.REQUIRED:
            raise NotAcceptable(f"SRTP is required for this trunk, {media.protocol} offers no usable key")
        return None
    raise NotAcceptable(f"{media.protocol} is not supported: {_missing(profile, ours)}")


def accept(media: Media, local: Local) -> Sdes | Dtls | None:
    """
    Read what the peer's answer made of our offer.

    Raises:
        NotAcceptable: Its line is not what we offered.
    """
    ours, profile = local.security, media.protocol.upper()
    if not any({profile, profile_of(local).upper()} <= kind for kind in (_PLAIN, _SECURE, _DTLS)):
        raise NotAcceptable(f"{media.protocol} was not offered")
    match ours.offers:
        case Protection.NONE:
            return None
        case Protection.SDES:
            for line in ours.crypto:
                for answered in media.crypto:
                    if (line.tag, line.suite) == (answered.tag, answered.suite):
                        return Sdes(line, answered)
            if profile in _PLAIN and ours.policy is not SrtpPolicy.REQUIRED:
                return None  # an opportunistic offer of ours that was answered plainly (RFC 8643)
            raise NotAcceptable("the answer has no a=crypto line that fits one of ours")
        case Protection.DTLS:
            chosen = _dtls(media, ours)
            if chosen is None:
                raise NotAcceptable("the answer has no usable a=fingerprint line")
            return chosen


def profile_of(local: Local) -> str:
    """Name the protocol of an offer of ours."""
    return local.profile or _USUAL[local.security.offers]


def answer_lines(agreed: Sdes | Dtls | None, theirs: Media, ours: LocalSecurity) -> list[str]:
    """Write our half of what was agreed for an answer."""
    match agreed:
        case None:
            return []
        case Sdes():
            return [str(agreed.ours)]
        case Dtls():
            setup = Setup.ACTIVE if agreed.active else Setup.PASSIVE
            return _association(ours, setup, tls_id=bool(theirs.tls_id))


def offer_lines(ours: LocalSecurity) -> list[str]:
    """Write what an offer of ours asks for."""
    match ours.offers:
        case Protection.NONE:
            return []
        case Protection.SDES:
            return [str(line) for line in ours.crypto]
        case Protection.DTLS:
            return _association(ours, Setup.ACTPASS, tls_id=True)


def _association(ours: LocalSecurity, setup: Setup, *, tls_id: bool) -> list[str]:
    assert ours.fingerprint is not None
    name = [f"a=tls-id:{ours.tls_id}"] if tls_id and ours.tls_id else []
    return [str(ours.fingerprint), f"a=setup:{setup.value}", *name]


def _sdes(media: Media, ours: LocalSecurity) -> Sdes | None:
    """Take the offered line whose suite we like best, under the number that it has there (section 5.1.2)."""
    for line in ours.crypto:
        for offered in media.crypto:
            if offered.suite is line.suite:
                return Sdes(Crypto(offered.tag, line.suite, line.key), offered)
    return None


def _dtls(media: Media, ours: LocalSecurity) -> Dtls | None:
    if ours.fingerprint is None or not media.fingerprints:
        return None
    return Dtls(media.fingerprints, _active(media, ours), media.tls_id)


def _active(media: Media, ours: LocalSecurity) -> bool:
    """Decide whether we begin (RFC 5763 section 5); a role that is taken is kept."""
    match media.setup:
        case Setup.PASSIVE:
            return True
        case Setup.ACTIVE | None:  # the default of RFC 4145
            return False
        case Setup.HOLDCONN:
            raise NotAcceptable("a=setup:holdconn opens no association")
        case Setup.ACTPASS:
            if ours.active is not None:
                return ours.active
            return not media.ice and not _hidden(media.host)


def _hidden(host: str | None) -> bool:
    """Whether an address is perhaps not the peer's real one, so that only the peer can begin (NAT)."""
    try:
        address = ip_address(host or "")
    except ValueError:
        return False
    return address.is_unspecified or (address.is_private and not address.is_loopback)


def _missing(profile: str, ours: LocalSecurity) -> str:
    if not ours.crypto and ours.fingerprint is None:
        return "SRTP is not available"
    if profile in _DTLS:
        return "no usable a=fingerprint line"
    return f"no usable a=crypto line; we have {', '.join(line.suite for line in ours.crypto)}"
