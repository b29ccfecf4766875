"""The offers and answers of one call, from our side (RFC 3264; no I/O)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway import sdp
from gateway.sdp import (
    Dtls,
    Fingerprint,
    IceCredentials,
    Local,
    LocalSecurity,
    NegotiatedMedia,
    Protection,
    Sdes,
    SrtpPolicy,
)


class CallDescription:
    """
    Keeps what was agreed, and counts the versions of our description.

    Satisfies :class:`gateway.legs.sip.Description`.
    """

    def __init__(self, local: Local, sdp_bytes: bytes, media: NegotiatedMedia | None) -> None:
        self._local = local
        self._sdp = sdp_bytes
        self._media = media
        self.skipped = 0
        """Lines of the peer's first offer that made no sense and were passed over (BR-077)."""

    @classmethod
    def for_offer(
        cls,
        offer: bytes | None,
        *,
        host: str,
        port: int,
        codecs: Sequence[str],
        srtp: SrtpPolicy = SrtpPolicy.OPTIONAL,
        fingerprint: Fingerprint | None = None,
    ) -> CallDescription:
        """
        Answer an INVITE's offer, or make our own where there is none.

        Args:
            offer: The peer's; ``None`` for a late offer, and for a call of ours.
            host: Our address in the description.
            port: Our RTP port.
            codecs: In the trunk's order of preference.
            srtp: The trunk's policy.
            fingerprint: Of our certificate for DTLS.

        Raises ``SdpError`` for an offer that cannot be read, ``NotAcceptable`` for one without our codecs, or
        without the SRTP that the trunk wants.
        """
        offers = Protection.SDES if srtp is SrtpPolicy.REQUIRED else Protection.NONE
        security = _fresh(LocalSecurity(policy=srtp, fingerprint=fingerprint, offers=offers, ice=_ice()))
        local = Local(
            host=host,
            port=port,
            codecs=tuple(codecs),
            session_id=secrets.randbelow(2**62),
            version=1,
            security=security,
        )
        if offer is None:
            return cls(local, sdp.make_offer(local), None)
        theirs = sdp.parse(offer)
        answer, media = sdp.answer(theirs, local)
        description = cls(local, answer, media)
        description.skipped = theirs.skipped
        return description

    @property
    def media(self) -> NegotiatedMedia | None:
        return self._media

    def local(self) -> bytes:
        return self._sdp

    def accept(self, answer: bytes) -> NegotiatedMedia:
        """Take the answer to our last offer."""
        self._media = sdp.accept(sdp.parse(answer), self._local)
        return self._media

    def reanswer(self, offer: bytes | None) -> tuple[bytes, NegotiatedMedia | None]:
        """
        Answer a later offer; without one, offer all we can (RFC 3261, section 14.2).

        What was agreed before stands until :meth:`accept` takes the answer: an offer that only repeated
        it would keep a held call on hold for ever.
        """
        local = self._going_on()
        if offer is None:
            self._local, self._sdp = self._versioned(local, sdp.make_offer)
            return self._sdp, None
        theirs = sdp.parse(offer)
        _, media = sdp.answer(theirs, local)
        if _restarts(self._media, media):
            local = replace(local, security=replace(local.security, ice=_ice()))
            _, media = sdp.answer(theirs, local)
        if not media.continues(self._media):
            local = replace(local, security=_fresh(replace(local.security, active=None)))
            _, media = sdp.answer(theirs, local)
        self._local, self._sdp = self._versioned(local, lambda ours: sdp.answer(theirs, ours)[0])
        self._media = media
        return self._sdp, media

    def _going_on(self) -> Local:
        """Return our side for the next description: as protected as the call is now, with the same keys."""
        media, local = self._media, self._local
        if media is None:
            return local
        now = local.security
        match media.security:
            case Sdes(ours):
                first = sorted(now.crypto, key=lambda line: line.suite is not ours.suite)
                crypto = tuple(replace(line, tag=tag) for tag, line in enumerate(first, 1))
                security = replace(now, crypto=crypto, offers=Protection.SDES)
            case Dtls(active=active):
                security = replace(now, active=active, offers=Protection.DTLS)
            case None:
                security = replace(now, offers=Protection.NONE)
        return replace(
            local,
            security=security,
            profile=media.profile,
            rtcp_mux=media.rtcp_mux,
            ice=media.ice is not None,
        )

    def _versioned(self, local: Local, write: Callable[[Local], bytes]) -> tuple[Local, bytes]:
        """Write a description; its version goes up only if something in it changed (RFC 3264 section 8)."""
        text = write(local)
        if text != self._sdp:
            local = replace(local, version=local.version + 1)
            text = write(local)
        return local, text


def _restarts(before: NegotiatedMedia | None, now: NegotiatedMedia) -> bool:
    """Whether the peer begins ICE anew, so that we have to as well (RFC 8445 section 9)."""
    return bool(before and before.ice and now.ice and before.ice.theirs != now.ice.theirs)


def _ice() -> IceCredentials:
    return sdp.draw_ice(secrets.token_hex)


def _fresh(security: LocalSecurity) -> LocalSecurity:
    """Draw the keys of a new association."""
    return replace(security, crypto=sdp.draw_crypto(secrets.token_bytes), tls_id=secrets.token_urlsafe(24))
