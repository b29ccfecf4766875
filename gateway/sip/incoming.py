"""A call that the peer began: from its INVITE to the ACK of our answer (RFC 3261, section 13.3)."""

from __future__ import annotations

from collections.abc import Callable

from gateway.sip.call import Call, CallState
from gateway.sip.dialog import Dialog
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from gateway.sip.kit import ExtraHeaders, Kit
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
        changed: Callable[[Call], None],
        now: float,
    ) -> None:
        super().__init__(handle, dialog=dialog, flow=flow, kit=kit, changed=changed, state=CallState.OFFERED)
        self.first_cseq = invite.request.cseq.number
        self._invite = invite
        self._offer = offer
        self._answer_by: float = now + kit.settings.answer_timeout
        invite.handler = self._on_invite_event

    # Commands of the application.

    def ring(self, *, now: float) -> None:
        """Send 180."""
        self._require(CallState.OFFERED, "ring")
        dialog = self.dialog
        self._kit.respond(
            self._invite,
            180,
            tag=dialog.local_tag,
            contact=dialog.contact,
            extra=dialog.record_route,
            now=now,
        )

    def answer(self, sdp: bytes, *, now: float) -> None:
        """Send 200, again and again until the ACK comes."""
        self._require(CallState.OFFERED, "answer")
        self.state = CallState.ANSWERED
        self._accept(self._invite, sdp, ours_offered=self._offer is None, now=now)

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
            raise LocalProtocolError("cannot hang up an unanswered call: reject it")
        super().bye(reason=reason, now=now)

    def owns(self, served: Served) -> bool:
        """Whether a transaction is the INVITE that began this call."""
        return served is self._invite

    # Time.

    def next_timeout(self) -> float | None:
        base = super().next_timeout()
        if self.state is not CallState.OFFERED:
            return base
        return self._answer_by if base is None else min(base, self._answer_by)

    def handle_timeout(self, *, now: float) -> None:
        if self.state is CallState.OFFERED and now >= self._answer_by:
            self._refuse_invite(480, now=now)
            self._end("timeout", by_peer=False, now=now)
        super().handle_timeout(now=now)

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
                self._lose_answer(now)
            case _:
                return  # the ACK of a rejection, or the quiet end of the transaction
        self.changed()

    def _refuse_invite(
        self, status: int, *, reason: str = "", headers: ExtraHeaders = (), now: float
    ) -> None:
        request, tag = self._invite.request, self.dialog.local_tag
        response = self._kit.responder.build(request, status, tag=tag, reason=reason, extra=headers)
        self._kit.transactions.respond(self._invite, response, now=now)
