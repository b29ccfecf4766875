"""
SRTP and SRTCP of one call (RFC 3711, RFC 7714): keys, counters and replay windows, over libsrtp.

Packets that fail are counted and dropped, never raised: anybody may send to a media port.
"""

from __future__ import annotations

from typing import Protocol

from pylibsrtp import Error, Policy, Session

PROFILES = {
    "AEAD_AES_256_GCM": Policy.SRTP_PROFILE_AEAD_AES_256_GCM,
    "AEAD_AES_128_GCM": Policy.SRTP_PROFILE_AEAD_AES_128_GCM,
    "AES_CM_128_HMAC_SHA1_80": Policy.SRTP_PROFILE_AES128_CM_SHA1_80,
    "AES_CM_128_HMAC_SHA1_32": Policy.SRTP_PROFILE_AES128_CM_SHA1_32,
}
"""libsrtp's number of each suite. For the last one, RTCP has tags of 80 bits all the same (RFC 4568)."""

_RTP_TAG_BYTES = {"AES_CM_128_HMAC_SHA1_80": 10, "AES_CM_128_HMAC_SHA1_32": 4}
_RTCP_TAG_BYTES = {"AES_CM_128_HMAC_SHA1_80": 10, "AES_CM_128_HMAC_SHA1_32": 10}
_MAX_BYTES = 1_356
"""What fits into libsrtp's buffer with room for a trailer; telephone audio is far shorter."""
_MAX_STREAMS = 16
"""Streams of one key; libsrtp keeps a window for each, so a peer that makes up SSRCs is cut off here."""


class Key(Protocol):
    """The key of one direction."""

    @property
    def suite(self) -> str:
        """One of :data:`PROFILES`."""
        ...

    @property
    def key(self) -> bytes:
        """Master key and salt."""
        ...

    @property
    def lifetime(self) -> int:
        """How many packets it may protect."""
        ...

    @property
    def mki(self) -> bytes:
        """What the sender writes before, or with AEAD behind, the authentication tag; mostly empty."""
        ...


class Srtp:
    """
    Both directions of one call.

    Args:
        ours: What we send with; its MKI is not written.
        theirs: What the peer sends with.
    """

    def __init__(self, ours: Key, theirs: Key) -> None:
        self.failures = 0
        """Packets with a wrong tag, or none: another key, or not from the peer at all."""
        self.replays = 0
        """Packets that had come before, or that are older than the window."""
        self._ours, self._theirs = _identity(ours), _identity(theirs)
        self._out, self._in = _outbound(ours), _Inbound(theirs)

    def rekey(self, ours: Key, theirs: Key) -> None:
        """
        Take the keys of a new description.

        A direction whose key is the same goes on with its roll-over counter, wherever its packets come from
        now; one with a new key begins with a new context (RFC 3711 section 3.3.1, RFC 4568 section 7.1.4).
        """
        if _identity(ours) != self._ours:
            self._ours, self._out = _identity(ours), _outbound(ours)
        if _identity(theirs) != self._theirs:
            self._theirs, self._in = _identity(theirs), _Inbound(theirs)

    def protect(self, packet: bytes) -> bytes:
        """Encrypt an RTP packet; returns nothing if libsrtp refuses, as when the key is used up."""
        try:
            return self._out.protect(packet)
        except Error:
            self.failures += 1
            return b""

    def protect_rtcp(self, packet: bytes) -> bytes:
        """Encrypt an RTCP packet, as :meth:`protect`."""
        try:
            return self._out.protect_rtcp(packet)
        except Error:
            self.failures += 1
            return b""

    def unprotect(self, packet: bytes) -> bytes:
        """Check and decrypt an RTP packet; returns nothing if it is not good."""
        try:
            return self._in.unprotect(packet)
        except Error as error:
            self._count(error)
            return b""

    def unprotect_rtcp(self, packet: bytes) -> bytes:
        """Check and decrypt an RTCP packet; returns nothing if it is not good."""
        try:
            return self._in.unprotect_rtcp(packet)
        except Error as error:
            self._count(error)
            return b""

    def _count(self, error: Error) -> None:
        if str(error).startswith("replay"):
            self.replays += 1
        else:
            self.failures += 1


class _Inbound:
    """What one key of the peer's decrypts."""

    def __init__(self, key: Key) -> None:
        self._session = Session(_policy(key, Policy.SSRC_ANY_INBOUND))
        self._left = key.lifetime
        self._mki = key.mki
        self._rtp_tag = _RTP_TAG_BYTES.get(key.suite, 0)
        self._rtcp_tag = _RTCP_TAG_BYTES.get(key.suite, 0)
        self._ssrc = b""
        self._ssrcs: dict[bytes, None] = {}

    def unprotect(self, packet: bytes) -> bytes:
        if self._mki:
            packet = _without(self._mki, packet, self._rtp_tag)
        if len(packet) > _MAX_BYTES or self._left <= 0:
            raise Error("too long, or its key is used up")
        plain = self._session.unprotect(packet)
        self._left -= 1
        ssrc = packet[8:12]
        if ssrc != self._ssrc:
            self._note(ssrc)
        return plain

    def unprotect_rtcp(self, packet: bytes) -> bytes:
        if self._mki:
            packet = _without(self._mki, packet, self._rtcp_tag)
        if len(packet) > _MAX_BYTES or self._left <= 0:
            raise Error("too long, or its key is used up")
        plain = self._session.unprotect_rtcp(packet)
        self._note(packet[4:8])
        return plain

    def _note(self, ssrc: bytes) -> None:
        self._ssrc = ssrc
        self._ssrcs.pop(ssrc, None)
        self._ssrcs[ssrc] = None
        if len(self._ssrcs) > _MAX_STREAMS:
            oldest = next(iter(self._ssrcs))
            del self._ssrcs[oldest]
            self._session.remove_stream(int.from_bytes(oldest, "big"))


def _without(mki: bytes, packet: bytes, tag_bytes: int) -> bytes:
    """Cut the MKI out (RFC 3711 section 3.1); a peer that announces one and writes none is understood."""
    end = len(packet) - tag_bytes
    if packet[end - len(mki) : end] != mki:
        return packet
    return packet[: end - len(mki)] + packet[end:]


def _identity(key: Key) -> tuple[str, bytes, bytes]:
    return key.suite, key.key, key.mki


def _outbound(key: Key) -> Session:
    return Session(_policy(key, Policy.SSRC_ANY_OUTBOUND))


def _policy(key: Key, ssrcs: int) -> Policy:
    return Policy(key=key.key, ssrc_type=ssrcs, srtp_profile=PROFILES[key.suite])
