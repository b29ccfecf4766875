"""
Session descriptions as data (RFC 8866).

Values that a media line inherits from the session (connection, direction, fingerprint) are resolved here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gateway.sdp.crypto import Crypto
from gateway.sdp.fingerprint import Fingerprint, Setup
from gateway.sdp.ice import IceCredentials


class SdpError(ValueError):
    """The body is no usable session description; the message says why, for the Warning header."""


class Direction(Enum):
    """Who sends, seen from the side that wrote the description (RFC 8866 section 6.7)."""

    SENDRECV = "sendrecv"
    SENDONLY = "sendonly"
    RECVONLY = "recvonly"
    INACTIVE = "inactive"

    @classmethod
    def of(cls, *, sends: bool, receives: bool) -> Direction:
        if sends:
            return cls.SENDRECV if receives else cls.SENDONLY
        return cls.RECVONLY if receives else cls.INACTIVE

    @property
    def sends(self) -> bool:
        return self in (Direction.SENDRECV, Direction.SENDONLY)

    @property
    def receives(self) -> bool:
        return self in (Direction.SENDRECV, Direction.RECVONLY)


@dataclass(frozen=True, slots=True)
class Codec:
    """One payload type of an audio line."""

    payload_type: int
    name: str
    """Encoding name in upper case, for they compare without case."""
    clock_rate: int
    channels: int = 1
    fmtp: str = ""


@dataclass(frozen=True, slots=True)
class Media:
    """One m-line with its attributes."""

    kind: str
    """``audio``, ``video``, ``image``, ..., in lower case."""
    port: int
    """0 for a line that is refused or switched off."""
    protocol: str
    formats: tuple[str, ...]
    host: str | None
    """From the line's own c= or the session's; ``None`` where there is neither."""
    direction: Direction
    ports: int = 1
    """How many streams the line stands for, each on a port of its own (``5000/2``)."""
    codecs: tuple[Codec, ...] = ()
    """The formats of an RTP line that have a meaning, in the order of preference."""
    ptime_ms: float | None = None
    maxptime_ms: float | None = None
    rtcp: tuple[int, str | None] | None = None
    """Port and, if it differs, host of a=rtcp (RFC 3605)."""
    rtcp_mux: bool = False
    """RTCP may come and go on the port of RTP (RFC 5761)."""
    mid: str = ""
    """The line's name (RFC 5888), empty where it has none."""
    crypto: tuple[Crypto, ...] = ()
    """The usable a=crypto lines, in order."""
    fingerprints: tuple[Fingerprint, ...] = ()
    """Of the certificate that the peer will show in DTLS."""
    setup: Setup | None = None
    tls_id: str = ""
    """The name of the DTLS association (RFC 8842), empty where it has none."""
    ice: IceCredentials | None = None
    """Of a peer that finds its way by ICE; ``None`` as well for one that only waits (lite), as we do."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Everything after ``a=``, split at the first colon."""


@dataclass(frozen=True, slots=True)
class SessionDescription:
    """A whole description; every m-line is kept, in order."""

    session_id: str
    session_version: str
    name: str
    media: tuple[Media, ...]
    attributes: tuple[tuple[str, str], ...] = ()
    skipped: int = 0
    """Lines that were not understood."""
