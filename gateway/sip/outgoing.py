"""
A call that we begin: from our INVITE to the ACK of its 2xx (RFC 3261, sections 9.1, 13.2 and 17.1.1).

    CALLING -> CONFIRMED -> ENDED

The INVITE may ring at several places and be answered at more than one: the first 2xx wins, every
other one gets its ACK and a BYE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gateway.sip import in_dialog
from gateway.sip.call import Call, CallState
from gateway.sip.dialog import Dialog
from gateway.sip.early import EarlyDialog, reliable_rseq, sdp_of
from gateway.sip.errors import LocalProtocolError
from gateway.sip.events import CallAccepted, CallProgressed
from gateway.sip.exchange import Exchange, Way
from gateway.sip.flow import Flow
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Request, Response
from gateway.sip.policy import ANYBODY, PeerPolicy
from gateway.sip.respond import ALLOW, contact_uri, reason_of
from gateway.sip.target import Target
from gateway.sip.text import require_safe
from gateway.sip.transaction import ResponseReceived, Terminated, TransactionEvent
from gateway.sip.transactions import Served

MAX_BRANCHES: Final = 16
"""To tags of one INVITE that are followed; a 2xx of one more still gets its ACK."""
_EARLY: Final = frozenset({"INVITE", "UPDATE", "OPTIONS", "INFO"})
"""What a place that rings may ask; an INVITE gets its 491."""
ELSEWHERE: Final = 'SIP;cause=200;text="Call completed elsewhere"'
"""The Reason of a CANCEL to who must not take it for a missed call (RFC 3326, section 2)."""


class OutgoingCall(Call):
    """
    A call that rings at the peer.

    Args:
        handle: How the application names it.
        target: Whom it goes to.
        sdp: Our offer.
        ring_for: Seconds until the INVITE is cancelled.
        kit: Shared parts of the user agent.
        policy: Of the peer.
        changed: Called when a transaction of the call changed it.
    """

    def __init__(
        self,
        handle: str,
        *,
        target: Target,
        sdp: bytes,
        ring_for: float,
        kit: Kit,
        policy: PeerPolicy = ANYBODY,
        changed: Callable[[Call], None],
    ) -> None:
        first = target.flows[0]
        contact = contact_uri(kit.settings, first, target.user)
        dialog = Dialog.placing(target, call_id=kit.token(), local_tag=kit.token(), contact=contact)
        super().__init__(
            handle,
            dialog=dialog,
            flow=first,
            kit=kit,
            changed=changed,
            state=CallState.CALLING,
            # Whom we called need prove nothing: a carrier answers no challenge in a call that it was sent.
            policy=replace(policy, proof=None),
        )
        if target.credentials is not None:
            self.authorizer.use(target.credentials)
        self.description = sdp
        self._seed = dialog
        self._target = target
        self._offer = sdp
        self._ring_for = ring_for
        self._answer_by = 0.0
        self._early: dict[str, EarlyDialog] = {}
        self._current: EarlyDialog | None = None
        """Where something happened last."""
        self._told: tuple[str, bytes] | None = None
        self._accepted: Dialog | None = None
        self._extra: dict[str, Dialog] = {}
        self._byes = 0
        self._cancel_reason: str | None = None
        self._give_up_at: float | None = None
        self._late_until: float | None = None
        """Until when a 2xx may still come to an INVITE that got no final response."""
        self._invite = Exchange(
            kit,
            ways=tuple(Way(flow) for flow in target.flows),
            compose=self._compose,
            number=dialog.next_cseq,
            authorizer=self.authorizer,
            amend=self.session.timer.raise_to,
            handler=self._on_invite_event,
        )

    @property
    def over(self) -> bool:
        return super().over and not self._invite.open and not self._byes and self._late_until is None

    # Commands of the application.

    def start(self, *, now: float) -> None:
        """Send the INVITE."""
        self._answer_by = now + self._ring_for
        self._invite.start(now=now)

    def cancel(self, *, reason: str, now: float) -> None:
        """
        Call it off; when the peer has answered meanwhile, hang up.

        The CANCEL waits for a provisional response (9.1). An answer that crosses it gets ACK and BYE.
        """
        require_safe(reason)
        if self.state is CallState.CALLING:
            self._end("cancel", by_peer=False, now=now)
            self._call_off(reason, now)
        elif self.state is CallState.CONFIRMED:
            super().bye(reason=reason, now=now)

    def bye(self, *, reason: str, now: float) -> None:
        """Hang up an answered call; see :meth:`Call.bye`."""
        if self.state is CallState.CALLING:
            raise LocalProtocolError("cannot hang up an unanswered call: cancel it")
        super().bye(reason=reason, now=now)

    def answer_reoffer(self, sdp: bytes | None, *, headers: ExtraHeaders = (), now: float) -> None:
        held = self.their_offer.held
        if held is not None and sdp is not None and self._current is not None:
            self._current.sdp = held.offer
        super().answer_reoffer(sdp, headers=headers, now=now)

    # Messages of the peer.

    def accept_answer(self, offer: Request, response: Response, *, again: bool) -> None:
        if self._current is not None and not again:
            self._current.sdp = sdp_of(response) or self._current.sdp
        super().accept_answer(offer, response, again=again)

    def knows(self, remote_tag: str) -> bool:
        """Whether the peer's tag is one of this call; before the answer it may be a new one."""
        return self.state is CallState.CALLING or remote_tag in {self.dialog.remote_tag, *self._extra}

    def receive(self, served: Served, flow: Flow, *, now: float) -> None:
        tag = served.request.from_.tag
        early = self._early.get(tag)
        if self._accepted is not None and tag == self._accepted.remote_tag:
            super().receive(served, flow, now=now)
        elif early is not None and self.state is CallState.CALLING and served.request.method in _EARLY:
            self._current, self.dialog = early, early.dialog
            super().receive(served, flow, now=now)
        elif served.request.method == "BYE":
            self._receive_early_bye(served, now)
        else:
            self._kit.refuse(served, 481, "a dialog that is not confirmed", now=now)

    @property
    def may_update(self) -> bool:
        early = self._current
        return self.state is CallState.CALLING and early is not None and early.exchanged and early.updates

    def _has_offered(self, method: str) -> bool:
        """Until a reliable 18x answered it, the INVITE's offer is open (RFC 3311, section 5.2)."""
        if self.state is not CallState.CALLING:
            return super()._has_offered(method)
        exchanged = self._current is not None and self._current.exchanged
        return method == "INVITE" or not exchanged or super()._has_offered(method)

    def hang_up_lost(self, *, now: float) -> None:
        """Before the answer an UPDATE that fails ends nothing: the INVITE's final response decides."""
        if self.state is not CallState.CALLING:
            super().hang_up_lost(now=now)

    def receive_late(self, response: Response, *, now: float) -> bool:
        if response.cseq.number > self._invite.cseq:
            return super().receive_late(response, now=now)
        self._receive_answer(response, now)
        return True

    # Time.

    def next_timeout(self) -> float | None:
        times = [super().next_timeout(), self._give_up_at, self._late_until]
        if self.state is CallState.CALLING:
            times.append(self._answer_by)
        return min((at for at in times if at is not None), default=None)

    def handle_timeout(self, *, now: float) -> None:
        if self.state is CallState.CALLING and now >= self._answer_by:
            self._end("timeout", by_peer=False, now=now)
            self._call_off("", now)
        if self._give_up_at is not None and now >= self._give_up_at:
            # 9.1: nobody answers the CANCEL, nor the INVITE.
            self._give_up_at = None
            self._late_until = now + self._kit.settings.timers.limit
            self._invite.abandon()
        elif self._late_until is not None and now >= self._late_until:
            self._late_until = None
        super().handle_timeout(now=now)

    # The INVITE.

    def _compose(self, flow: Flow, cseq: int, branch: str) -> Request:
        self.flow = flow
        self._seed.contact = contact_uri(self._kit.settings, flow, self._target.user)
        # What rang at an earlier address, or before a challenge, rings no more.
        self._early.clear()
        self._current, self.dialog = None, self._seed
        self.our_offer.drop()
        request = self._seed.request("INVITE", cseq=cseq, branch=branch, transport=flow.transport)
        extra = (("Allow", ALLOW), self._supported, *self.session.opening(), *self._target.headers)
        return self._kit.finish(request, extra, self._offer)

    def _on_invite_event(self, event: TransactionEvent, now: float) -> None:
        match event:
            case ResponseReceived(response) if response.is_provisional:
                self._receive_provisional(response, now)
            case ResponseReceived(response) if response.is_success:
                self._receive_answer(response, now)
            case ResponseReceived(response):
                self._give_up_at = None
                if self.state is CallState.CALLING:  # else an earlier address has answered meanwhile
                    phrase = response.reason[:200]
                    self._end("rejected", by_peer=True, status=response.status, phrase=phrase, now=now)
            case Terminated(timed_out=True, undelivered=undelivered):
                self._give_up_at = None
                self._late_until = None if undelivered else now + self._kit.settings.timers.limit
                if self.state is CallState.CALLING:
                    self._end("transport" if undelivered else "timeout", by_peer=False, now=now)
            case _:
                self._give_up_at = None
        self.changed()

    def _receive_provisional(self, response: Response, now: float) -> None:
        self._send_cancel(now)
        if response.status == 100:
            return
        early = self._early_dialog(response)
        rseq = reliable_rseq(response)
        if rseq is not None and early is not None:
            if not early.take_rseq(rseq):
                return
            rack = (("RAck", f"{rseq} {response.cseq.number} INVITE"),)
            self.send("PRACK", rack, _ignore, dialog=early.dialog, now=now)
        # A 199 says that one place has given up (RFC 6228); whether others ring on, it does not.
        if self.state is CallState.CALLING and response.status != 199:
            sdp = self._news(early, response, reliable=rseq is not None)
            self._kit.events.append(CallProgressed(self.handle, response.status, response.reason, sdp))

    def _early_dialog(self, response: Response) -> EarlyDialog | None:
        tag = response.to.tag
        if not tag or (tag not in self._early and len(self._early) >= MAX_BRANCHES):
            return None
        if tag not in self._early:
            self._early[tag] = EarlyDialog(self._seed.answered_by(response))
        early = self._early[tag]
        early.updates = early.updates or "update" in response.headers.tokens("Allow")
        return early

    def _news(self, early: EarlyDialog | None, response: Response, *, reliable: bool) -> bytes | None:
        """Return the SDP of an 18x if the application has not got it as the last one."""
        sdp = sdp_of(response)
        if sdp is None:
            return None
        if early is not None:
            early.sdp = sdp
            early.exchanged = early.exchanged or reliable
            self._current, self.dialog = early, early.dialog
        told = response.to.tag, sdp
        if told == self._told:
            return None
        self._told = told
        return sdp

    def _receive_answer(self, response: Response, now: float) -> None:
        """Take a 2xx, also one that comes again, after a CANCEL, or from another place (13.2.2.4)."""
        tag, cseq = response.to.tag, response.cseq.number
        if self._accepted is not None and tag == self._accepted.remote_tag:
            self._acknowledge(self._accepted, cseq)
        elif self.state is CallState.CALLING:
            self._confirm_answer(response, now)
            if not self._invite.answered:
                # An address that we had given up answered late, and the next one rings by now.
                self._call_off(ELSEWHERE, now)
        else:
            self._turn_away(response, now)

    def _confirm_answer(self, response: Response, now: float) -> None:
        early = self._early.get(response.to.tag)
        if early is None:
            early = EarlyDialog(self._seed.answered_by(response))
        else:
            early.dialog.confirm(response)
        if early is not self._current:
            # What an UPDATE changed with another place means nothing here.
            self.our_offer.drop()
            self.their_offer.refuse(now=now)
            self.description = self._offer
        self.dialog = self._accepted = early.dialog
        self.state = CallState.CONFIRMED
        self.flow = self._invite.flow_of(response)
        self._acknowledge(early.dialog, response.cseq.number)
        self.session.accepted(response, now=now)
        self._early.clear()
        # The answer of a reliable 18x need not be said again; where it is and differs, the later one counts.
        self._kit.events.append(CallAccepted(self.handle, sdp_of(response) or early.sdp))

    def _acknowledge(self, dialog: Dialog, cseq: int) -> None:
        in_dialog.acknowledge(self._kit, dialog, self.flow, self._invite.request, cseq)

    def _turn_away(self, response: Response, now: float) -> None:
        tag = response.to.tag
        dialog = self._extra.get(tag) or self._seed.answered_by(response)
        self._acknowledge(dialog, response.cseq.number)
        if tag in self._extra or len(self._extra) >= MAX_BRANCHES:
            return
        self._extra[tag] = dialog
        self._byes += 1
        reason = (("Reason", self._cancel_reason),) if self._cancel_reason else ()
        self.send("BYE", reason, self._on_extra_bye_event, dialog=dialog, now=now)

    def _on_extra_bye_event(self, event: TransactionEvent, now: float) -> None:
        del now
        match event:
            case ResponseReceived(response) if response.is_provisional:
                return
            case ResponseReceived() | Terminated(timed_out=True):
                self._byes -= 1
                self.changed()
            case _:
                return  # the quiet end of the transaction

    def _receive_early_bye(self, served: Served, now: float) -> None:
        """A place that answered, or rang, has hung up: what was lost on the way was its 2xx (15)."""
        self._kit.respond(served, 200, now=now)
        if self.state is CallState.CALLING:
            self._end("bye", by_peer=True, phrase=reason_of(served.request), now=now)
            self._call_off("", now)

    # CANCEL.

    def _call_off(self, reason: str, now: float) -> None:
        self._cancel_reason = reason
        self._invite.stop()
        self._send_cancel(now)

    def _send_cancel(self, now: float) -> None:
        invite = self._invite
        if self._cancel_reason is None or self._give_up_at is not None:
            return
        if not invite.proceeding or invite.answered:
            return
        self._give_up_at = now + self._kit.settings.timers.limit
        cancel = cancel_of(invite.request)
        if self._cancel_reason:
            cancel.headers.add("Reason", self._cancel_reason)
        self._kit.transactions.send(cancel, invite.way.flow, invite.way.fallback, _ignore, now=now)


def cancel_of(invite: Request) -> Request:
    """Build the CANCEL of an INVITE (9.1): same Request-URI, branch, Route and CSeq number."""
    request = Request(uri=invite.uri, method="CANCEL")
    request.headers.add("Via", invite.headers.elements("Via")[0])
    for name in ("Route", "Max-Forwards", "From", "To", "Call-ID"):
        for value in invite.headers.get_all(name):
            request.headers.add(name, value)
    request.headers.add("CSeq", f"{invite.cseq.number} CANCEL")
    return request


def _ignore(event: TransactionEvent, now: float) -> None:
    """Of a PRACK or CANCEL: the answer to the INVITE says all that matters."""
    del event, now
