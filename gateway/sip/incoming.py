"""A call that the peer began: from its INVITE to the ACK of our answer (RFC 3261, section 13.3)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

from gateway.sip.body import UnsupportedBody, find_sdp
from gateway.sip.call import Call, CallState
from gateway.sip.checks import UNSUPPORTED_MEDIA
from gateway.sip.dialog import Dialog
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Headers, Request
from gateway.sip.policy import ANYBODY, PeerPolicy
from gateway.sip.reliable import LAST_FIRST_RSEQ, ReliableProvisionals, RingDue, requires, supports
from gateway.sip.respond import ALLOW
from gateway.sip.transaction import AckReceived, CancelReceived, Terminated, TransactionEvent
from gateway.sip.transactions import Served


class IncomingCall(Call):
    """
    A call that rings here.

    Args:
        handle: How the application names it.
        invite: The INVITE's transaction.
        dialog: Opened by that INVITE.
        flow: Where it came from.
        offer: Its SDP.
        kit: Shared parts of the user agent.
        policy: Of the peer.
        changed: Called when a transaction of the call changed it.
        now: The present time in seconds.
    """

    def __init__(
        self,
        handle: str,
        *,
        invite: Served,
        dialog: Dialog,
        flow: Flow,
        offer: bytes | None,
        kit: Kit,
        policy: PeerPolicy = ANYBODY,
        changed: Callable[[Call], None],
        now: float,
    ) -> None:
        super().__init__(
            handle,
            dialog=dialog,
            flow=flow,
            kit=kit,
            changed=changed,
            state=CallState.OFFERED,
            policy=policy,
        )
        self._invite = invite
        self._offer = offer
        self._answer_by: float = now + kit.settings.answer_timeout
        self._reliable = self._reliably(invite.request.headers)
        self._answered_early = False
        """Whether a reliable 18x has our answer to the INVITE's offer, so that there may be another."""
        self._answer_waits: bytes | None = None
        """Our description for the 2xx, which has to wait for a PRACK."""
        invite.handler = self._on_invite_event

    # Commands of the application.

    def ring(self, *, now: float) -> None:
        """Send 180; nothing at all to who wants it reliably and made no offer (RFC 3262, section 5)."""
        self._require(CallState.OFFERED, "ring")
        self._send_provisional(180, b"", now)

    def progress(self, sdp: bytes, *, now: float) -> None:
        """Send 183 with our answer, for sound before the call is taken."""
        self._require(CallState.OFFERED, "send early media")
        if self._offer is None:
            raise LocalProtocolError("early media needs an offer of the caller")
        self._send_provisional(183, sdp, now)

    def answer(self, sdp: bytes, *, now: float) -> None:
        """
        Send 200, again and again until the ACK comes.

        While a description in an 18x waits for its PRACK, the 200 waits as well (RFC 3262, section 3).
        """
        self._require(CallState.OFFERED, "answer")
        if self._answer_waits is not None:
            raise LocalProtocolError("cannot answer twice")
        self._answer_waits = sdp
        self._release_answer(now)

    def answer_reoffer(self, sdp: bytes | None, *, headers: ExtraHeaders = (), now: float) -> None:
        """Answer a later offer; one that came in a PRACK may have kept the 200."""
        super().answer_reoffer(sdp, headers=headers, now=now)
        if self._answer_waits is not None:
            self._answer_waits = sdp or self._answer_waits
            self._release_answer(now)

    def reject(self, status: int, *, reason: str, headers: ExtraHeaders, now: float) -> None:
        """Refuse the call with 300 to 699."""
        self._require(CallState.OFFERED, "reject")
        if not 300 <= status <= 699:
            raise LocalProtocolError(f"{status} is no rejection")
        self._refuse_invite(status, reason=reason, headers=headers, now=now)
        self._end("rejected", by_peer=False, now=now)

    def bye(self, *, reason: str, now: float) -> None:
        """Hang up an answered call; see :meth:`Call.bye`."""
        if self.state is CallState.OFFERED:
            if self._answer_waits is None:
                raise LocalProtocolError("cannot hang up an unanswered call: reject it")
            self._refuse_invite(487, now=now)
            self._end("local", by_peer=False, now=now)
            return
        super().bye(reason=reason, now=now)

    @property
    def invite(self) -> Request:
        """The INVITE that began the call."""
        return self._invite.request

    def owns(self, served: Served) -> bool:
        """Whether a transaction is the INVITE that began this call."""
        return served is self._invite

    # Time.

    def next_timeout(self) -> float | None:
        times = [super().next_timeout()]
        if self.state is CallState.OFFERED:
            times.append(self._answer_by)
            if self._reliable is not None:
                times.append(self._reliable.next_timeout())
        return min((at for at in times if at is not None), default=None)

    def handle_timeout(self, *, now: float) -> None:
        if self.state is CallState.OFFERED and now >= self._answer_by:
            self._refuse_invite(480, now=now)
            self._end("timeout", by_peer=False, now=now)
        if self.state is CallState.OFFERED and self._reliable is not None:
            self._ring_again(self._reliable, now)
        super().handle_timeout(now=now)
        if self.state is CallState.OFFERED:
            self._release_answer(now)  # the offer that kept it may have been given up

    # Provisional responses (RFC 3262 for the reliable ones).

    def _reliably(self, headers: Headers) -> ReliableProvisionals | None:
        if not requires(headers) and not (self.policy.reliable_provisional and supports(headers)):
            return None
        first = 1 + zlib.crc32(self._kit.token().encode()) % LAST_FIRST_RSEQ
        return ReliableProvisionals(
            first=first, cseq=self.invite.cseq.number, timers=self._kit.settings.timers
        )

    def _send_provisional(self, status: int, sdp: bytes, now: float) -> None:
        dialog = self.dialog
        response = self._kit.responder.build(
            self._invite.request,
            status,
            tag=dialog.local_tag,
            contact=dialog.contact,
            extra=(*dialog.record_route, ("Allow", ALLOW)),
            body=sdp,
        )
        if self._reliable is None:
            self._kit.transactions.respond(self._invite, response, now=now)
        elif self._offer is not None:
            self._answered_early = self._answered_early or bool(sdp)
            ready = self._reliable.send(response, has_sdp=bool(sdp), now=now)
            if ready is not None:
                self._kit.transactions.respond(self._invite, ready, now=now)

    def _receive_prack(self, served: Served, now: float) -> None:
        if self._reliable is None:
            super()._receive_prack(served, now)
            return
        try:
            offer = find_sdp(served.request.headers, served.request.body)
        except UnsupportedBody as error:
            self._kit.refuse(served, 415, str(error), extra=UNSUPPORTED_MEDIA, now=now)
            return
        ours, ready = self._reliable.acknowledge(served.request, now=now)
        if not ours:
            self._kit.refuse(served, 481, "a PRACK of nothing", now=now)
            return
        if offer is None:
            self._kit.respond(served, 200, now=now)
        elif self.state is CallState.OFFERED and self._answered_early and self.their_offer.held is None:
            handler = partial(self._on_reinvite_event, served)
            self.their_offer.hold(served, self.dialog, offer, handler, now=now)
        else:
            # The offer of its INVITE has no answer yet, or the call is past that: what was agreed stands.
            self._kit.refuse(served, 488, "an offer in a PRACK", now=now)
        if self.state is not CallState.OFFERED:
            return
        if ready is not None:
            self._kit.transactions.respond(self._invite, ready, now=now)
        self._release_answer(now)

    def _ring_again(self, reliable: ReliableProvisionals, now: float) -> None:
        match reliable.due(now):
            case RingDue.RESEND if reliable.pending is not None:
                self._kit.transactions.respond(self._invite, reliable.pending, now=now)
            case RingDue.EXPIRED:
                self._refuse_invite(504, now=now)
                self._end("timeout", by_peer=False, now=now)
            case _:
                pass

    def _release_answer(self, now: float) -> None:
        """Send the 2xx, if there is one to send and nothing keeps it."""
        if self._answer_waits is None or (self._reliable is not None and self._reliable.holds_answer):
            return
        if self.their_offer.held is not None:
            return  # it came in a PRACK, and is answered first (RFC 3262, section 5)
        sdp, self._answer_waits = self._answer_waits, None
        self.state = CallState.ANSWERED
        if self._reliable is not None:
            self._reliable.stop()
        self._accept(self._invite, sdp, ours_offered=self._offer is None, now=now)

    # Small parts.

    def _before_bye(self, now: float) -> None:
        if self.state is CallState.OFFERED:
            self._refuse_invite(487, now=now)

    def _on_invite_event(self, event: TransactionEvent, now: float) -> None:
        match event:
            case AckReceived(ack):
                self.receive_ack(ack, now=now)
            case CancelReceived(reason) if self.state is CallState.OFFERED:
                self._refuse_invite(487, now=now)
                self._end("cancel", by_peer=True, phrase=reason, now=now)
            case Terminated(timed_out=True) if self.state is CallState.OFFERED:
                self._end("transport", by_peer=False, now=now)
            case Terminated(timed_out=True) if self._waits_for_ack_of(self._invite):
                self._lose_answer("transport", now)
            case _:
                return  # the ACK of a rejection, or the quiet end of the transaction
        self.changed()

    def _refuse_invite(
        self, status: int, *, reason: str = "", headers: ExtraHeaders = (), now: float
    ) -> None:
        if self._reliable is not None:
            self._reliable.stop()
        request, tag = self._invite.request, self.dialog.local_tag
        response = self._kit.responder.build(request, status, tag=tag, reason=reason, extra=headers)
        self._kit.transactions.respond(self._invite, response, now=now)
