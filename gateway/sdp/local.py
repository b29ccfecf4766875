"""Our side of an offer or answer, and what both sides agreed on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Literal, TypeAlias

from gateway.sdp.crypto import Crypto
from gateway.sdp.fingerprint import Fingerprint
from gateway.sdp.ice import Ice, IceCredentials

CodecName: TypeAlias = Literal["PCMU", "PCMA"]


class NotAcceptable(Exception):
    """No call is possible with this description: 488, with the message in the Warning header."""


class SrtpPolicy(StrEnum):
    """What a trunk wants of SRTP."""

    OFF = "off"
    """Never."""
    OPTIONAL = "optional"
    """Where the peer offers it; our own offers are plain."""
    REQUIRED = "required"
    """Always; a call without it is refused."""


class Protection(Enum):
    """How our own offers are protected."""

    NONE = "none"
    SDES = "sdes"
    DTLS = "dtls"


@dataclass(frozen=True, slots=True)
class LocalSecurity:
    """What we can do and want of SRTP in one call."""

    policy: SrtpPolicy = SrtpPolicy.OPTIONAL
    crypto: tuple[Crypto, ...] = ()
    """Our keys, the preferred suite first; empty where SDES is not to be had."""
    fingerprint: Fingerprint | None = None
    """Of our certificate; ``None`` where DTLS is not to be had."""
    tls_id: str = ""
    """Names our association where the peer asks for it (RFC 8842)."""
    ice: IceCredentials | None = None
    """Ours, for peers that find their way by ICE; ``None`` where ICE is not to be had."""
    active: bool | None = None
    """Our role in the association that is open; ``None`` where there is none."""
    offers: Protection = Protection.NONE
    """What an offer of ours asks for."""


@dataclass(frozen=True, slots=True)
class Local:
    """Our side of one description."""

    host: str
    """The address that we advertise; its family is the call's."""
    port: int
    """RTP; RTCP is one above, or the same where both sides agree to (RFC 5761)."""
    codecs: tuple[str, ...]
    """``PCMU`` and ``PCMA`` in the trunk's order of preference."""
    session_id: int
    version: int
    """One higher for each changed description of the same session."""
    security: LocalSecurity = LocalSecurity()
    profile: str = ""
    """The protocol of an offer of ours; empty takes the usual one for its protection."""
    rtcp_mux: bool = False
    """Whether an offer of ours asks for RTCP on the RTP port."""
    ice: bool = False
    """Whether an offer of ours speaks of ICE."""


@dataclass(frozen=True, slots=True)
class Sdes:
    """SRTP with the keys of two ``a=crypto`` lines."""

    ours: Crypto
    theirs: Crypto


@dataclass(frozen=True, slots=True)
class Dtls:
    """SRTP with keys that a DTLS handshake makes (RFC 5764)."""

    fingerprints: tuple[Fingerprint, ...]
    """The peer's certificate must have one of them."""
    active: bool
    """Whether we begin."""
    tls_id: str = ""
    """The peer's name of the association, empty where it gives none."""


@dataclass(frozen=True, slots=True)
class NegotiatedMedia:
    """What both sides agreed on."""

    codec: CodecName
    payload_type: int
    dtmf_payload_type: int | None
    """The peer's number for telephone-events of 8000 Hz, ``None`` when it has none."""
    remote: tuple[str, int]
    remote_rtcp: tuple[str, int]
    sends: bool
    """Whether we may send; false while the peer holds the call."""
    receives: bool
    ptime_ms: int
    """Length of the packets that we send."""
    security: Sdes | Dtls | None = None
    """``None`` for plain RTP."""
    rtcp_mux: bool = False
    """Whether RTCP shares the port of RTP, both ways."""
    own_dtmf_payload_type: int | None = None
    """Our number for telephone-events where the peer's answer has another one; both may come."""
    profile: str = "RTP/AVP"
    """The protocol of the line."""
    ice: Ice | None = None
    """How ``remote`` is found where the peer uses ICE; what it says itself counts for nothing then."""

    def continues(self, before: NegotiatedMedia | None) -> bool:
        """Whether the keys of ``before`` go on, ours and the peer's; if not, both sides begin anew."""
        match before and before.security, self.security:
            case _, None:
                return True
            case Sdes() as old, Sdes() as new:
                return (old.theirs.suite, old.theirs.key) == (new.theirs.suite, new.theirs.key)
            case Dtls() as old, Dtls() as new:
                # RFC 8842 section 4: without a name, an association is known by its addresses; with ICE
                # these may change at any time.
                assert before is not None
                return old == new and bool(new.tls_id or self.ice or self.remote == before.remote)
            case _:
                return before is None
