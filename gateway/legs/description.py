"""The offers and answers of one call, from our side (RFC 3264; no I/O)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from gateway import sdp
from gateway.sdp import Local, NegotiatedMedia


class CallDescription:
    """
    Keeps what was agreed, and counts the versions of our description.

    Satisfies :class:`gateway.legs.sip.Description`.
    """

    def __init__(self, local: Local, sdp_bytes: bytes, media: NegotiatedMedia | None) -> None:
        self._local = local
        self._sdp = sdp_bytes
        self._media = media

    @classmethod
    def for_offer(
        cls, offer: bytes | None, *, host: str, port: int, codecs: Sequence[str]
    ) -> CallDescription:
        """
        Answer an INVITE's offer, or make our own where it has none.

        Raises ``SdpError`` for an offer that cannot be read, ``NotAcceptable`` for one without our codecs.
        """
        local = Local(
            host=host, port=port, codecs=tuple(codecs), session_id=secrets.randbelow(2**62), version=1
        )
        if offer is None:
            return cls(local, sdp.make_offer(local), None)
        answer, media = sdp.answer(sdp.parse(offer), local)
        return cls(local, answer, media)

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
        local = replace(self._local, version=self._local.version + 1)
        if offer is None:
            self._local, self._sdp = local, sdp.make_offer(local)
            return self._sdp, None
        answer, media = sdp.answer(sdp.parse(offer), local)
        self._local, self._sdp, self._media = local, answer, media
        return answer, media
