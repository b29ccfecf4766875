"""
A call that we make, as a :class:`gateway.legs.base.CallLeg` (RFC 3261, section 13.2).

Until it is answered it only rings, with the far end's own sound where that comes early; from the answer
on it is a :class:`SipLeg` like any other.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from gateway.legs.base import Answered, HangupCause, HungUp, LegGone, Ringing
from gateway.legs.sip import SipLeg
from gateway.legs.transfer_failure import transfer_failure
from gateway.sdp import NegotiatedMedia, NotAcceptable, SdpError
from gateway.sip import events as sip
from gateway.sip.target import Target

log = structlog.get_logger(__name__)


class Dialling(Protocol):
    """What a leg that we dial asks of the user agent besides :class:`gateway.legs.sip.Signalling`."""

    def invite(self, leg: OutgoingLeg, target: Target, sdp: bytes) -> str:
        """Send the INVITE, and hand the call's events to ``leg``; return the call's handle."""
        ...

    def cancel(self, call: str) -> None:
        """Give up a call that was not answered; one that is answered all the same is ended."""
        ...


class OutgoingLeg(SipLeg):
    """
    A call of ours; made by :class:`gateway.legs.dialler.TrunkDialler`, with what any SIP leg needs.

    It is born without a line: :meth:`call` sends the INVITE.
    """

    _dialling: Dialling
    _unusable = False
    """Whether the answer was one that we cannot talk by."""

    async def call(self, dialling: Dialling, target: Target) -> None:
        """Open the media, for what may come before the answer, and send the INVITE."""
        self._dialling = dialling
        await self._open_stream()
        self._answered = asyncio.get_running_loop().create_future()
        self._call = dialling.invite(self, target, self._description.local())

    def abandon(self) -> None:
        """Give back what the leg holds; nothing was sent."""
        super().handle(sip.CallEnded(self._call, by_peer=False, reason="local"))

    async def answer(self) -> None:
        """Return when the peer has answered; raises :exc:`LegGone` when it never will."""
        if self._answered is None or not await asyncio.shield(self._answered):
            raise LegGone("the call was not answered")

    async def hang_up(self, cause: HangupCause = HangupCause.NORMAL) -> None:
        if not self._gone and not self._is_up:
            self._dialling.cancel(self._call)
        else:
            await super().hang_up(cause)

    def handle(self, event: sip.SipEvent) -> None:
        match event:
            case sip.CallProgressed():
                self._progressed(event)
            case sip.CallAccepted():
                self._accepted(event.sdp)
            case _:
                super().handle(event)

    @property
    def _is_up(self) -> bool:
        return self._answered is not None and self._answered.done()

    def _progressed(self, event: sip.CallProgressed) -> None:
        """Take a 18x; one with a description lets us hear the far end already (RFC 3960)."""
        if event.sdp is not None:  # also of another place that rings now
            try:
                self._start(self._description.accept(event.sdp))
            except (SdpError, NotAcceptable) as error:
                log.warning("call.early_media_refused", call_id=self._info.id, error=str(error))
        self._events.put(Ringing(early_media=self._description.media is not None))

    def _accepted(self, answer: bytes | None) -> None:
        """Take the 2xx, whose ACK is on its way; a description in it replaces an early one."""
        if self._gone or self._answered is None or self._answered.done():
            return
        self._answered.set_result(True)
        try:
            media = self._agreed(answer)
        except (SdpError, NotAcceptable) as error:
            log.warning("call.answer_refused", call_id=self._info.id, error=str(error))
            self._unusable = True
            self._signalling.bye(self._call)
            return
        self._start(media)
        self._events.put(Answered())

    def _agreed(self, answer: bytes | None) -> NegotiatedMedia:
        if answer is not None:
            return self._description.accept(answer)
        if self._description.media is None:
            raise SdpError("the 200 carries no answer to our offer")
        return self._description.media

    def _hung_up(self, event: sip.CallEnded) -> HungUp:
        if self._unusable:
            return HungUp(by_caller=False, reason="refused", status=488)
        if self._is_up or event.reason in {"local", "cancel"}:
            return super()._hung_up(event)
        if event.by_peer and event.status:
            return HungUp(by_caller=True, reason=transfer_failure(event.status), status=event.status)
        return HungUp(by_caller=False, reason="unreachable", status=event.status)
