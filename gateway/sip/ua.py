"""
The SIP user agent, without I/O (RFC 3261, section 8).

Whoever drives it makes one call that changes it (``receive``, a command, ``handle_timeout`` or
``transport_failed``), then takes :meth:`UserAgent.events`, then :meth:`UserAgent.to_send`, then arms
one timer for :meth:`UserAgent.next_timeout`. ``now`` is any monotonic clock in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.sip.admission import Admission
from gateway.sip.agenda import Agenda
from gateway.sip.body import UnsupportedBody, find_sdp
from gateway.sip.call import Call, CallState
from gateway.sip.call_table import CallTable
from gateway.sip.checks import UNSUPPORTED_MEDIA, Refusal, extensions
from gateway.sip.dialog import Dialog
from gateway.sip.errors import LocalProtocolError
from gateway.sip.events import CallOffered, MessageDropped, RequestRefused, SipEvent
from gateway.sip.flow import Flow, Outgoing
from gateway.sip.incoming import IncomingCall
from gateway.sip.info import DTMF_TYPES
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Request, Response
from gateway.sip.outgoing import OutgoingCall
from gateway.sip.own_request import OwnRequest, Series
from gateway.sip.parser import ParseError, parse_message
from gateway.sip.policy import PeerPolicy, Policies
from gateway.sip.respond import ACCEPT, ALLOW, Responder, contact_uri, reason_of, way_back, with_source
from gateway.sip.settings import UaSettings
from gateway.sip.target import Credentials, Target
from gateway.sip.transactions import Served, Transactions


class UserAgent:
    """
    Answers and places calls, requests out of dialog, and everything that must not become a call.

    Commands name a call by the handle of its :class:`~gateway.sip.events.CallOffered` or that
    :meth:`invite` returned. They return
    ``False`` when that call is over (the peer may have been faster), and raise
    :exc:`~gateway.sip.errors.LocalProtocolError` when they make no sense in its state.

    Args:
        settings: Read once.
        token: Returns a new unguessable token of letters and digits, for tags, branches and handles.
    """

    def __init__(self, settings: UaSettings, token: Callable[[], str]) -> None:
        self._settings = settings
        self._token = token
        self._out: list[Outgoing] = []
        self._events: list[SipEvent] = []
        self._transactions = Transactions(settings.timers, self._out)
        self._responder = Responder(settings)
        self._kit = Kit(settings, self._transactions, self._responder, token, self._events)
        self._calls = CallTable()
        self._admission = Admission(settings, token)
        self._requests: dict[str, OwnRequest] = {}
        self._agenda: Agenda[Call] = Agenda()

    # Figures for metrics.

    @property
    def active_calls(self) -> int:
        """Calls that have not ended."""
        return self._calls.active

    @property
    def dialogs(self) -> int:
        """Dialogs in memory, with those whose BYE or transfer is not through."""
        return len(self._calls)

    @property
    def transactions(self) -> int:
        """Transactions in memory, both sides."""
        return self._transactions.served_count + self._transactions.sent_count

    def talks_with(self, host: str) -> bool:
        """Whether a call with a peer at an IP address is in memory, if only because its BYE is under way."""
        return self._calls.is_at(host)

    # Outputs.

    def to_send(self) -> list[Outgoing]:
        """Take what is ready for the wire; send it in this order."""
        ready = self._out.copy()
        self._out.clear()
        return ready

    def events(self) -> list[SipEvent]:
        """Take what the application and the log have to know."""
        ready = self._events.copy()
        self._events.clear()
        return ready

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        times = (self._transactions.next_timeout(), self._agenda.next())
        return min((at for at in times if at is not None), default=None)

    # Inputs from below.

    def receive(self, data: bytes, flow: Flow, *, now: float) -> None:
        """Take a datagram, or one message of a stream. Whatever it holds, nothing is raised."""
        if not data.strip(b"\r\n\0 "):
            return  # a keep-alive
        try:
            message = parse_message(data, stream=flow.stream)
        except ParseError as error:
            self._refuse_unreadable(error, flow)
            return
        if isinstance(message, Response):
            handled = self._transactions.receive_response(message, now=now) or self._receive_late(
                message, now
            )
            if not handled:
                self._drop(flow, f"a {message.status} that answers no request of ours")
            return
        message.headers.replace_first("Via", with_source(message.headers, flow))
        self._receive_request(message, flow, now)

    def handle_timeout(self, *, now: float) -> None:
        """Fire every timer that is due. Calling early is harmless."""
        self._transactions.handle_timeout(now=now)
        while (call := self._agenda.take_due(now)) is not None:
            call.handle_timeout(now=now)
            self._settle(call)

    def transport_failed(self, flow: Flow, *, now: float) -> None:
        """
        Say that something could not be sent on ``flow``, nor on its fallback.

        Unanswered transactions of that flow end; a call that was not confirmed ends with them. A
        confirmed call goes on: its next request may well get through.
        """
        self._transactions.transport_failed(flow, now=now)

    # Commands.

    def ring(self, call: str, *, now: float) -> bool:
        """Send 180."""
        return self._command(call, lambda it: _incoming(it).ring(now=now))

    def progress(self, call: str, sdp: bytes, *, now: float) -> bool:
        """
        Send 183 with our answer: the caller hears our sound before the call is taken.

        The 200 has to carry the same description. Only for an INVITE that made an offer.
        """
        if not sdp:
            raise LocalProtocolError("early media needs a session description")
        return self._command(call, lambda it: _incoming(it).progress(sdp, now=now))

    def answer(self, call: str, sdp: bytes, *, now: float) -> bool:
        """Send 200 with our answer, or with our offer if the INVITE had none; again until the ACK comes."""
        if not sdp:
            raise LocalProtocolError("an answer needs a session description")
        return self._command(call, lambda it: _incoming(it).answer(sdp, now=now))

    def reject(
        self,
        call: str,
        status: int,
        *,
        reason: str = "",
        headers: Iterable[tuple[str, str]] = (),
        now: float,
    ) -> bool:
        """Refuse an offered call with a status of 300 to 699."""
        extra = tuple(headers)
        return self._command(
            call, lambda it: _incoming(it).reject(status, reason=reason, headers=extra, now=now)
        )

    def invite(self, target: Target, sdp: bytes, *, ring_for: float | None = None, now: float) -> str:
        """
        Call somebody; return the handle of the call.

        :class:`CallProgressed` and :class:`CallAccepted` tell how it goes, :class:`CallEnded` that it is
        over, with the rejection. A target's next address is tried when one fails (RFC 3263, section 4.3).

        Args:
            target: Whom, from where, with which credentials.
            sdp: Our offer.
            ring_for: Seconds until it is cancelled; ``None`` takes ``UaSettings.answer_timeout``.
            now: The present time in seconds.

        Raises:
            LocalProtocolError: there is no offer, or From, To or a header cannot be written.
        """
        if not sdp:
            raise LocalProtocolError("an INVITE needs a session description")
        ring_for = self._settings.answer_timeout if ring_for is None else ring_for
        try:
            call = OutgoingCall(
                self._token(),
                target=target,
                sdp=sdp,
                ring_for=ring_for,
                kit=self._kit,
                policy=self._admission.policies(target.flows[0], ""),
                changed=self._settle,
            )
            call.start(now=now)
        except ValueError as error:
            raise LocalProtocolError(f"cannot call {target.uri[:80]!r}: {error}") from error
        self._calls.add(call)
        self._settle(call)
        return call.handle

    def cancel(self, call: str, *, now: float, reason: str = "") -> bool:
        """
        Call off a call of ours; if it is answered by now, hang up.

        ``reason`` is the value of a Reason header, as in :meth:`bye`.
        """
        return self._command(call, lambda it: _outgoing(it).cancel(reason=reason, now=now))

    def request(
        self,
        method: str,
        target: Target,
        *,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        series: Series | None = None,
        now: float,
    ) -> str:
        """
        Send a request out of dialog, such as OPTIONS or REGISTER; return its handle.

        :class:`RequestAnswered` brings the final response. Challenges are answered, and the next address
        of the target is tried, as for a call.

        Args:
            method: Any that opens no dialog.
            target: Whom, from where, with which credentials.
            headers: Further ones; Contact is ours where none is given.
            body: With its Content-Type among ``headers``.
            series: What this request goes on with (its Call-ID, CSeq and nonces), as every REGISTER to one
                registrar should (RFC 3261, section 10.2).
            now: The present time in seconds.

        Raises:
            LocalProtocolError: it opens a dialog, or something of it cannot be written.
        """
        if method in {"INVITE", "ACK", "CANCEL", "BYE", "PRACK", "UPDATE", "SUBSCRIBE", "REFER"}:
            raise LocalProtocolError(f"{method} is no request out of dialog")
        handle = self._token()
        pending = OwnRequest(handle, self._kit, series or Series(self._token), done=self._requests.pop)
        self._requests[handle] = pending
        try:
            pending.start(method, target, tuple(headers), body, now=now)
        except ValueError as error:
            del self._requests[handle]
            raise LocalProtocolError(f"cannot send {method[:20]!r}: {error}") from error
        return handle

    def use_credentials(self, call: str, credentials: Credentials, *, now: float) -> bool:
        """Answer the challenges to our requests in a call with these from now on."""
        del now
        return self._command(call, lambda it: it.authorizer.use(credentials))

    def reoffer(self, call: str, sdp: bytes, *, now: float) -> bool:
        """
        Offer a confirmed call's peer another session (re-INVITE); :class:`ReofferAnswered` tells the outcome.

        An offer of the peer's that is under way goes first.
        """
        return self._command(call, lambda it: it.reoffer(sdp, now=now))

    def bye(self, call: str, *, now: float, reason: str = "") -> bool:
        """
        Hang up an answered call; before its ACK the BYE waits, as RFC 3261, section 15 asks.

        ``reason`` is the value of a Reason header (RFC 3326), such as ``Q.850;cause=16``.
        """
        return self._command(call, lambda it: it.bye(reason=reason, now=now))

    def refer(self, call: str, target: str, *, now: float) -> bool:
        """Ask the peer of a confirmed call to call ``target`` (a URI) in our place."""
        return self._command(call, lambda it: it.refer(target, now=now))

    def answer_refer(self, call: str, status: int, *, now: float) -> bool:
        """Accept (below 200) or refuse the peer's REFER; after that tell it how the new call goes."""
        return self._command(call, lambda it: it.answer_refer(status, now=now))

    def answer_reoffer(self, call: str, sdp: bytes | None, *, headers: ExtraHeaders = (), now: float) -> bool:
        """Answer a re-INVITE or UPDATE with SDP; ``None`` refuses it with 488 and leaves the session."""
        return self._command(call, lambda it: it.answer_reoffer(sdp, headers=headers, now=now))

    def treat(self, policies: Policies) -> None:
        """From now on treat each new request as ``policies`` says for the flow that it comes on."""
        self._admission.policies = policies

    def call_id(self, call: str) -> str:
        """Return the Call-ID of a call's dialog, by which its messages are known; empty when it is over."""
        known = self._calls.get(call)
        return "" if known is None else known.dialog.call_id

    def drain(self, active: bool) -> None:
        """Refuse OPTIONS and new calls with 503 from now on, or serve them again."""
        self._admission.draining = active

    def _command(self, handle: str, act: Callable[[Call], None]) -> bool:
        call = self._calls.get(handle)
        if call is None or call.state is CallState.ENDED:
            return False
        try:
            act(call)
        finally:
            self._settle(call)
        return True

    # Requests.

    def _receive_request(self, request: Request, flow: Flow, now: float) -> None:
        if self._transactions.receive_request(request, now=now) is not None:
            return
        if request.method == "ACK":
            self._receive_ack(request, flow, now)
            return
        back, fallback = way_back(request.headers, flow)
        if self._transactions.served_count >= self._settings.max_transactions:
            self._refuse_overload(request, back, fallback)
            return
        # Only an INVITE is harmful twice; some devices ping with the same CSeq for ever.
        merged = request.method == "INVITE" and not request.to.tag and self._transactions.is_merged(request)
        served = self._transactions.serve(request, back, fallback, now=now)
        if request.method == "CANCEL":
            self._receive_cancel(served, now)
            return
        call = self._calls.of_request(request) if request.to.tag else None
        policy = self._admission.policy(request, flow) if call is None else call.policy
        if (refusal := self._admission.judge(request, policy, merged=merged, now=now)) is not None:
            self._turn_away(served, refusal, now)
        elif call is not None:
            call.receive(served, flow, now=now)
            self._settle(call)
        elif request.to.tag:
            self._refuse(served, 481, f"{request.method} for an unknown dialog", now)
        elif request.method in {"INVITE", "OPTIONS"}:
            self._receive_new(served, flow, policy, now)
        else:
            self._refuse(served, 481, f"{request.method} outside a dialog", now)

    def _receive_new(self, served: Served, flow: Flow, policy: PeerPolicy, now: float) -> None:
        request = served.request
        known = self._calls.begun_by(request)
        refusal = self._admission.judge_new(request, policy, known=known, dialogs=len(self._calls))
        if refusal is not None:
            self._turn_away(served, refusal, now)
        elif request.method == "INVITE":
            self._receive_invite(served, flow, policy, now)
        else:
            self._receive_options(served, flow, policy, now)

    def _receive_ack(self, ack: Request, flow: Flow, now: float) -> None:
        call = self._calls.of_request(ack)
        if call is None:
            self._drop(flow, "an ACK that belongs to no call")
            return
        call.receive_ack(ack, now=now)
        self._settle(call)

    def _receive_cancel(self, cancel: Served, now: float) -> None:
        invite = self._transactions.find_cancelled(cancel.request)
        if invite is None:
            self._refuse(cancel, 481, "CANCEL of an unknown request", now)
            return
        # 9.2: the same tag as in the responses to the INVITE.
        tag = self._calls.local_tag(invite) or self._token()
        self._kit.respond(cancel, 200, tag=tag, now=now)
        self._transactions.cancel(invite, reason=reason_of(cancel.request), now=now)

    def _receive_late(self, response: Response, now: float) -> bool:
        """Take a 2xx to an INVITE of ours that comes when its transaction is over, or was given up."""
        if not response.is_success or response.cseq.method != "INVITE":
            return False
        call = self._calls.of_response(response)
        if call is None or not call.receive_late(response, now=now):
            return False
        self._settle(call)
        return True

    def _receive_options(self, served: Served, flow: Flow, policy: PeerPolicy, now: float) -> None:
        extra = (
            ("Allow", ALLOW),
            ("Accept", ", ".join((ACCEPT, *DTMF_TYPES))),
            ("Supported", ", ".join(extensions(policy))),
        )
        contact = contact_uri(self._settings, flow)
        self._kit.respond(served, 200, tag=self._token(), contact=contact, extra=extra, now=now)

    def _receive_invite(self, served: Served, flow: Flow, policy: PeerPolicy, now: float) -> None:
        request = served.request
        try:
            offer = find_sdp(request.headers, request.body)
        except UnsupportedBody as error:
            self._refuse(served, 415, str(error), now, extra=UNSUPPORTED_MEDIA)
            return
        scheme = "sips" if flow.secure and request.uri[:5].lower() == "sips:" else "sip"
        contact = contact_uri(self._settings, flow, scheme=scheme)
        try:
            dialog = Dialog.of_caller(request, local_tag=self._token(), contact=contact)
        except ValueError as error:
            self._refuse(served, 400, str(error), now)
            return
        self._kit.respond(served, 100, now=now)
        call = IncomingCall(
            self._token(),
            invite=served,
            dialog=dialog,
            flow=flow,
            offer=offer,
            kit=self._kit,
            policy=policy,
            changed=self._settle,
            now=now,
        )
        self._calls.add(call)
        self._settle(call)
        self._events.append(CallOffered(call.handle, request, offer, flow))

    def _settle(self, call: Call) -> None:
        """Re-arm a call that may have changed, or forget it."""
        self._agenda.set(call, call.next_timeout())
        if not call.over:
            self._calls.locate(call)
        elif self._calls.forget(call):
            self._agenda.set(call, None)

    # Refusals.

    def _turn_away(self, served: Served, refusal: Refusal, now: float) -> None:
        if refusal.quiet:
            self._kit.respond(served, refusal.status, tag=self._token(), extra=refusal.headers, now=now)
        else:
            self._refuse(served, refusal.status, refusal.why, now, extra=refusal.headers)

    def _refuse(
        self,
        served: Served,
        status: int,
        why: str,
        now: float,
        *,
        extra: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._kit.refuse(served, status, why, tag=self._token(), extra=extra, now=now)

    def _refuse_unreadable(self, error: ParseError, flow: Flow) -> None:
        response = self._responder.to_unreadable(error, flow)
        if response is None:
            self._drop(flow, error.why)
            return
        back, fallback = way_back(error.headers, flow)
        self._out.append(Outgoing(back, response.to_bytes(), fallback))
        self._events.append(RequestRefused(str(flow), response.status, error.why))

    def _refuse_overload(self, request: Request, back: Flow, fallback: Flow | None) -> None:
        response = self._responder.build(request, 503, tag=self._token(), extra=self._admission.retry_after)
        self._out.append(Outgoing(back, response.to_bytes(), fallback))
        self._events.append(RequestRefused(str(back), 503, "too many transactions"))

    def _drop(self, flow: Flow, why: str) -> None:
        self._events.append(MessageDropped(str(flow), why))


def _incoming(call: Call) -> IncomingCall:
    if not isinstance(call, IncomingCall):
        raise LocalProtocolError("this call is one of ours: only a caller's can be answered or rejected")
    return call


def _outgoing(call: Call) -> OutgoingCall:
    if not isinstance(call, OutgoingCall):
        raise LocalProtocolError("this call is the peer's: reject it, or hang up")
    return call
