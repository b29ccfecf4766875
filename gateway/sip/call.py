"""
The INVITE usage of a dialog, whoever began it (RFC 3261, sections 14 and 15; RFC 3311).

    OFFERED or CALLING -> ANSWERED -> CONFIRMED -> ENDED

What comes before the answer differs: see :mod:`gateway.sip.incoming` and
:mod:`gateway.sip.outgoing`. The owner
(:class:`gateway.sip.ua.UserAgent`) gives a call the requests of its dialog and the commands of the
application, and forgets it when :attr:`Call.over` is true.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from gateway.sip import in_dialog
from gateway.sip.authorizer import Authorizer
from gateway.sip.body import UnsupportedBody, find_sdp
from gateway.sip.checks import UNSUPPORTED_MEDIA, extensions
from gateway.sip.dialog import Dialog
from gateway.sip.errors import LocalProtocolError
from gateway.sip.events import CallConfirmed, CallEnded, EndReason
from gateway.sip.exchange import Exchange
from gateway.sip.flow import Flow
from gateway.sip.info import receive_info
from gateway.sip.invite_server import InviteServerTransaction
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Request, Response
from gateway.sip.peer_offer import PeerOffer
from gateway.sip.policy import ANYBODY, PeerPolicy
from gateway.sip.referral import Referral
from gateway.sip.reoffer import Reoffer
from gateway.sip.respond import ALLOW, reason_of, record_route
from gateway.sip.session import Session
from gateway.sip.text import require_safe
from gateway.sip.transaction import (
    AckReceived,
    CancelReceived,
    ResponseReceived,
    Terminated,
    TransactionEvent,
)
from gateway.sip.transactions import Served
from gateway.sip.transfer import Transfer
from gateway.sip.unacked import Due, UnackedAnswer
from gateway.sip.uri import Uri, join_host_port


class CallState(Enum):
    OFFERED = auto()
    """Incoming: the caller hears ringing, or soon will."""
    CALLING = auto()
    """Outgoing: the peer has not answered."""
    ANSWERED = auto()
    """200 was sent, the ACK is awaited."""
    CONFIRMED = auto()
    ENDED = auto()


class Call:
    """
    What is the same for a call of the peer's and one of ours, from the answer on.

    Args:
        handle: How the application names it.
        dialog: Opened, or to be opened, by its INVITE.
        flow: The way to the peer.
        kit: Shared parts of the user agent.
        changed: Called when a transaction of the call changed it.
        state: ``OFFERED`` or ``CALLING``.
        policy: Of the peer.
    """

    def __init__(
        self,
        handle: str,
        *,
        dialog: Dialog,
        flow: Flow,
        kit: Kit,
        changed: Callable[[Call], None],
        state: CallState,
        policy: PeerPolicy = ANYBODY,
    ) -> None:
        self.handle = handle
        self.dialog = dialog
        self.state = state
        self.transfer = Transfer(self, kit)
        self.referral = Referral(self, kit)
        self.session = Session(self, kit, policy.terms(kit.settings.session))
        self.flow = flow
        self.description = b""
        """Our session description, as it was last agreed on."""
        self.authorizer = Authorizer(None, kit.token)
        self.their_offer = PeerOffer(handle, kit)
        self.our_offer = Reoffer(self, kit, owner=state is CallState.CALLING)
        self._kit = kit
        self.policy = policy
        self._changed = changed
        self._unacked: UnackedAnswer | None = None
        self._bye_after_ack = False
        self._bye_reason = ""
        self._bye_in_flight = False

    @property
    def over(self) -> bool:
        """Whether nothing more can come of it: ended, our BYE and re-INVITE answered, no transfer open."""
        if self.state is not CallState.ENDED or self._bye_in_flight or self._bye_after_ack:
            return False
        return not (self.transfer.live or self.our_offer.in_flight)

    # Commands of the application.

    def bye(self, *, reason: str, now: float) -> None:
        """
        Hang up an answered call.

        Before the ACK no BYE may leave (RFC 3261, section 15): it waits for the ACK, or for the time-out
        of the 2xx. For the application the call is over at once.
        """
        self._bye_reason = require_safe(reason)
        waiting = self.state is CallState.ANSWERED
        self._end("local", by_peer=False, now=now, keep_unacked=waiting)
        if waiting:
            self._bye_after_ack = True
        else:
            self._send_bye(now)

    def refer(self, target: str, *, now: float) -> None:
        self._require(CallState.CONFIRMED, "transfer")
        self.transfer.start(target, now=now)

    def reoffer(self, sdp: bytes, *, now: float) -> None:
        """Send a re-INVITE; before the answer, where the peer takes one, an UPDATE (RFC 3311, section 4)."""
        if not self.may_update:
            self._require(CallState.CONFIRMED, "make a new offer")
        self.our_offer.start(sdp, now=now)

    @property
    def may_update(self) -> bool:
        """Whether a new offer goes by UPDATE, because the INVITE is not answered yet."""
        return False

    def answer_reoffer(self, sdp: bytes | None, *, headers: ExtraHeaders = (), now: float) -> None:
        """Answer a pending re-INVITE or UPDATE; harmless if the peer took it back meanwhile."""
        held = self.their_offer.take()
        if held is None:
            return
        if sdp is None:
            self._kit.respond(held.served, 488, extra=headers, now=now)
        elif held.served.request.method == "INVITE":
            self.dialog.refresh_target(held.served.request)
            self._accept(held.served, sdp, ours_offered=held.offer is None, now=now)
        else:
            self._accept_update(held.served, held.dialog, sdp, now=now)

    def answer_refer(self, status: int, *, now: float) -> None:
        """Answer the peer's REFER, or tell how it went; see :meth:`Referral.answer`."""
        self.referral.answer(status, now=now)

    # Messages of the peer.

    def knows(self, remote_tag: str) -> bool:
        """Whether the peer's tag is that of this call."""
        return remote_tag == self.dialog.remote_tag

    def receive_late(self, response: Response, *, now: float) -> bool:
        """Take a 2xx to an INVITE of ours whose transaction is over; ``False`` if it means nothing here."""
        del now
        return self.our_offer.receive_late(response)

    def receive(self, served: Served, flow: Flow, *, now: float) -> None:
        """Take a new request in the dialog, its sequence number not yet checked."""
        request = served.request
        if not self.dialog.accept_cseq(request):
            self._kit.refuse(served, 500, "the CSeq is too low", now=now)
            return
        self.flow = flow
        match request.method:
            case "BYE":
                self._receive_bye(served, now)
            case "NOTIFY":
                self.transfer.receive_notify(served, now=now)
            case _ if self.state is CallState.ENDED:
                self._kit.refuse(served, 481, "the call has ended", now=now)
            case "INVITE" | "UPDATE":
                self._receive_offer(served, now)
            case "REFER" if self.state in {CallState.OFFERED, CallState.CALLING}:
                # Nobody is connected yet whom the peer could hand over.
                self._kit.refuse(served, 603, "a REFER before the answer", now=now)
            case "REFER":
                self.referral.receive(served, now=now)
            case "INFO":
                receive_info(self.handle, served, self._kit, now=now)
            case "PRACK":
                self._receive_prack(served, now)
            case _:
                self._kit.respond(served, 200, extra=(("Allow", ALLOW),), now=now)

    def receive_ack(self, ack: Request, *, now: float) -> None:
        """Take the ACK of a 2xx; repeated ones are absorbed."""
        if self._unacked is None or ack.cseq.number != self._unacked.cseq:
            return
        answer: bytes | None = None
        if self._unacked.ours_offered:
            try:
                answer = find_sdp(ack.headers, ack.body)
            except UnsupportedBody:
                answer = None
        self._confirm(answer, now)

    # Time.

    def next_timeout(self) -> float | None:
        parts = self.transfer, self.referral, self.their_offer, self.our_offer, self.session
        times = [part.next_timeout() for part in parts]
        if self._unacked is not None:
            times.append(self._unacked.next_timeout())
        return min((at for at in times if at is not None), default=None)

    def handle_timeout(self, *, now: float) -> None:
        self.transfer.handle_timeout(now=now)
        self.referral.handle_timeout(now=now)
        self.their_offer.handle_timeout(now=now)
        self.our_offer.handle_timeout(now=now)
        self.session.handle_timeout(now=now)
        if self._unacked is not None:
            self._handle_unacked(self._unacked, now)

    def _handle_unacked(self, unacked: UnackedAnswer, now: float) -> None:
        match unacked.due(now):
            case Due.RESEND:
                self._kit.transactions.respond(unacked.served, unacked.response, now=now)
            case Due.EXPIRED:
                self._lose_answer("ack_timeout", now)  # 13.3.1.4: the session is ended with a BYE
            case Due.NOTHING:
                pass

    # Offers, answers and ends.

    def _receive_offer(self, served: Served, now: float) -> None:
        request = served.request
        if (small := self.session.judge(request)) is not None:
            self._kit.refuse(served, small.status, small.why, extra=small.headers, now=now)
            return
        try:
            offer = find_sdp(request.headers, request.body)
        except UnsupportedBody as error:
            self._kit.refuse(served, 415, str(error), extra=UNSUPPORTED_MEDIA, now=now)
            return
        if request.method == "UPDATE" and offer is None:
            self._accept_update(served, self.dialog, b"", now=now)
            return
        if self.state is CallState.OFFERED or self.their_offer.held is not None:
            # 14.2 and RFC 3311, 5.2: an offer is still unanswered. A random wait, so that it works out.
            wait = str(zlib.crc32(self._kit.token().encode()) % 11)
            self._kit.refuse(served, 500, "an offer is pending", extra=(("Retry-After", wait),), now=now)
            return
        if self._has_offered(request.method):
            self._kit.refuse(served, 491, "our own offer is pending", now=now)
            return
        if self._unacked is not None and request.method == "INVITE":
            # Only who has our 2xx may send a re-INVITE: its ACK was lost or is late.
            self._confirm(None, now)
        handler = partial(self._on_reinvite_event, served)
        self.their_offer.hold(served, self.dialog, offer, handler, now=now)

    def _has_offered(self, method: str) -> bool:
        """Whether an offer of ours, unanswered, is in the way of one that comes by ``method``."""
        del method
        return self.our_offer.in_flight or (self._unacked is not None and self._unacked.ours_offered)

    def _accept(self, served: Served, sdp: bytes, *, ours_offered: bool, now: float) -> None:
        """Send the 2xx of an INVITE and keep sending it."""
        self.description = sdp
        response = self._kit.responder.build(
            served.request,
            200,
            tag=self.dialog.local_tag,
            contact=self.dialog.contact,
            extra=(*record_route(served.request), ("Allow", ALLOW), *self._agreed(served.request, now)),
            body=sdp,
        )
        timers = self._kit.settings.timers
        self._unacked = UnackedAnswer(served, response, ours_offered=ours_offered, timers=timers, now=now)
        self._kit.transactions.respond(served, response, now=now)

    def _accept_update(self, served: Served, dialog: Dialog, sdp: bytes, *, now: float) -> None:
        """Send the 200 of an UPDATE."""
        self.description = sdp or self.description
        dialog.refresh_target(served.request)
        extra = (("Allow", ALLOW), *self._agreed(served.request, now))
        self._kit.respond(served, 200, contact=dialog.contact, extra=extra, body=sdp, now=now)

    def _agreed(self, request: Request, now: float) -> ExtraHeaders:
        """Return Supported and the session timer for a 2xx to INVITE or UPDATE."""
        if self.state is CallState.OFFERED:
            return (self._supported,)  # a session begins with the answer
        return self._supported, *self.session.answer(request, now=now)

    def _receive_prack(self, served: Served, now: float) -> None:
        """Answer a PRACK that no response of ours has asked for (RFC 3262, section 3)."""
        self._kit.refuse(served, 481, "a PRACK of nothing", now=now)

    def _confirm(self, answer: bytes | None, now: float) -> None:
        unacked, self._unacked = self._unacked, None
        if unacked is None:
            return
        if isinstance(unacked.served.tx, InviteServerTransaction):
            unacked.served.tx.acknowledge()
        if self._bye_after_ack:
            self._bye_after_ack = False
            self._send_bye(now)
        elif self.state is CallState.ANSWERED:
            self.state = CallState.CONFIRMED
            self._kit.events.append(CallConfirmed(self.handle, answer))
        elif unacked.ours_offered:
            self._kit.events.append(CallConfirmed(self.handle, answer))

    def _receive_bye(self, served: Served, now: float) -> None:
        self._kit.respond(served, 200, now=now)
        self._before_bye(now)
        # If our own BYE waited for the ACK, the peer's made it needless.
        self._bye_after_ack = False
        self._unacked = None
        self._end("bye", by_peer=True, phrase=reason_of(served.request), now=now)

    def _before_bye(self, now: float) -> None:
        """Settle what the peer's BYE leaves unanswered before the call was up."""

    def hang_up_lost(self, *, now: float) -> None:
        """The peer does not know the dialog any more (RFC 3261, section 12.2.1.2)."""
        if self.state is not CallState.ENDED:
            self._end("timeout", by_peer=False, now=now)
            self._send_bye(now)

    def _send_bye(self, now: float) -> None:
        extra = (("Reason", self._bye_reason),) if self._bye_reason else ()
        self._bye_in_flight = True
        self.send("BYE", extra, self._on_bye_event, now=now)

    def _end(
        self,
        reason: EndReason,
        *,
        by_peer: bool,
        status: int = 0,
        phrase: str = "",
        now: float,
        keep_unacked: bool = False,
    ) -> None:
        """Report the end once, and answer what is still unanswered (15.1.2)."""
        if self.state is CallState.ENDED:
            return
        self.state = CallState.ENDED
        self.our_offer.end()
        self.session.stop()
        if not keep_unacked:
            self._unacked = None
        self.their_offer.refuse(now=now)
        self.referral.end(now=now)
        self._kit.events.append(CallEnded(self.handle, by_peer, reason, status, phrase))

    # Transactions.

    def _on_reinvite_event(self, served: Served, event: TransactionEvent, now: float) -> None:
        match event:
            case AckReceived(ack):
                self.receive_ack(ack, now=now)
            case CancelReceived() if self.their_offer.is_of(served):
                self.their_offer.refuse(now=now)
            case Terminated(timed_out=True) if self.their_offer.is_of(served):
                self.their_offer.take()
            case Terminated(timed_out=True) if self._waits_for_ack_of(served):
                self._lose_answer("transport", now)
            case _:
                return  # nothing of it is pending any more
        self._changed(self)

    def _waits_for_ack_of(self, served: Served) -> bool:
        return self._unacked is not None and self._unacked.served is served

    def _lose_answer(self, why: EndReason, now: float) -> None:
        """No ACK will come: hang up, perhaps by another way."""
        self._unacked = None
        self._bye_after_ack = False
        self._end(why, by_peer=False, now=now)
        self._send_bye(now)

    def _on_bye_event(self, event: TransactionEvent, now: float) -> None:
        del now
        match event:
            case ResponseReceived(response) if response.is_provisional:
                return
            case _:
                self._bye_in_flight = False
                self._changed(self)

    # Small parts.

    def send(
        self,
        method: str,
        extra: ExtraHeaders,
        handler: Callable[[TransactionEvent, float], None],
        *,
        dialog: Dialog | None = None,
        body: bytes = b"",
        now: float,
    ) -> Exchange:
        """
        Send a request in the dialog, again if it is challenged.

        ``dialog`` is another one than that of the call: of an early or superfluous answer.
        """
        return in_dialog.ask(
            self._kit,
            dialog or self.dialog,
            self.flow,
            method,
            extra=extra,
            body=body,
            authorizer=self.authorizer,
            handler=handler,
            now=now,
        )

    def accept_answer(self, offer: Request, response: Response, *, again: bool) -> None:
        """
        Take the 2xx to an offer of ours: an INVITE's gets its ACK.

        The first one's Contact, and what we offered, count from now on.
        """
        if not again:
            self.follow(response)
            self.description = offer.body
        if offer.method == "UPDATE":
            return
        in_dialog.acknowledge(self._kit, self.dialog, self.flow, offer, response.cseq.number)

    @property
    def local_uri(self) -> str:
        """Our own address: what the peer called, or what we call from."""
        return self.dialog.local_uri

    @property
    def remote_place(self) -> str:
        """Host and port of the peer's Contact; those of its packets when that is no SIP URI."""
        target = Uri(self.dialog.remote_target).sip
        host, port = self.flow.remote if target is None else (target.host, target.port)
        return join_host_port(host, port)

    @property
    def offer_pending(self) -> bool:
        """Whether an offer of the peer is unanswered, or our 2xx to its INVITE has no ACK."""
        return self.their_offer.held is not None or self._unacked is not None

    def follow(self, response: Response) -> None:
        """Take the Contact of a 2xx to an INVITE or UPDATE of ours (12.2.1.2)."""
        self.dialog.refresh_target(response)

    def refresh_by_invite(self, *, now: float) -> bool:
        """Send our last description again; ``False`` while an offer is open (RFC 4028, section 7.4)."""
        if self.state is not CallState.CONFIRMED or self.offer_pending or self.our_offer.live:
            return False
        self.our_offer.start(self.description, refreshes=True, now=now)
        return True

    def offer_headers(self) -> ExtraHeaders:
        """Return what an UPDATE or re-INVITE of ours says beside its description."""
        return (("Allow", ALLOW), self._supported, *self.session.refresh())

    @property
    def _supported(self) -> tuple[str, str]:
        return "Supported", ", ".join(extensions(self.policy))

    def changed(self) -> None:
        self._changed(self)

    def _require(self, state: CallState, command: str) -> None:
        if self.state is not state:
            raise LocalProtocolError(f"cannot {command} when {self.state.name.lower()}")
