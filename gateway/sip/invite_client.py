"""
INVITE client transaction (RFC 3261, 17.1.1, with the Accepted state of RFC 6026).

The ACK of a rejection is sent here; that of a 2xx belongs to the dialog, which must send it again
for every 2xx that this transaction reports.
"""

from __future__ import annotations

from gateway.sip.message import Headers, Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import ResponseReceived, State, Timer, Transaction


class InviteClientTransaction(Transaction[Request]):
    """
    One INVITE of ours; it is sent at once.

    Args:
        invite: With its final Via and CSeq.
        reliable: Whether the transport retransmits for us (TCP).
        timers: RFC 3261 timer values.
        patience: Seconds of timer B, where that is not 64*T1.
        now: The present time in seconds.
    """

    def __init__(
        self, invite: Request, *, reliable: bool, timers: Timers, patience: float | None = None, now: float
    ) -> None:
        super().__init__(invite, State.CALLING, reliable=reliable, timers=timers)
        self._deadlines = {Timer.B: now + (timers.limit if patience is None else patience)}
        if not reliable:
            self._deadlines[Timer.A] = now + timers.t1
        self._to_send.append(invite)

    def receive(self, response: Response, *, now: float) -> None:
        """Take a response that matches this transaction."""
        match self.state:
            case State.CALLING | State.PROCEEDING if response.is_provisional:
                # Timers A and B end here: a phone may ring for minutes.
                self.state = State.PROCEEDING
                self._deadlines = {}
                self._events.append(ResponseReceived(response))
            case State.CALLING | State.PROCEEDING if response.is_success:
                self.state = State.ACCEPTED
                self._deadlines = {Timer.M: now + self._timers.limit}
                self._events.append(ResponseReceived(response))
            case State.CALLING | State.PROCEEDING:
                self.state = State.COMPLETED
                self._deadlines = {Timer.D: now + (0.0 if self._reliable else self._timers.timer_d)}
                self._events.append(ResponseReceived(response))
                self._to_send.append(acknowledge_rejection(self.request, response))
            case State.ACCEPTED | State.COMPLETED if response.is_success:
                # After a rejection too: another branch of a fork answered at the same instant, and its
                # callee waits for an ACK and a BYE (16.7, step 5).
                self._events.append(ResponseReceived(response))
            case State.COMPLETED if response.status >= 300:
                self._to_send.append(acknowledge_rejection(self.request, response))
            case _:
                pass  # a late provisional response, or one that contradicts the final one

    def fail(self) -> None:
        """Give up: the transport cannot deliver (RFC 3261, section 17.1.4)."""
        if self.state in {State.CALLING, State.PROCEEDING, State.COMPLETED}:
            self._terminate(timed_out=True, undelivered=True)

    def _fire(self, timer: Timer, now: float) -> None:
        match timer:
            case Timer.A:
                self._to_send.append(self.request)
                self._resend_after *= 2  # without an upper limit, unlike timer E
                self._deadlines[Timer.A] = now + self._resend_after
            case Timer.B:
                self._terminate(timed_out=True)
            case _:
                self._terminate(timed_out=False)


def acknowledge_rejection(invite: Request, response: Response) -> Request:
    """
    Build the ACK of a 3xx to 6xx (RFC 3261, section 17.1.1.3).

    Same Request-URI, branch, Call-ID, From, Route and CSeq number as the INVITE; the To of the response.
    """
    headers = Headers()
    headers.add("Via", invite.headers.elements("Via")[0])
    for name in ("Route", "Max-Forwards", "From"):
        for value in invite.headers.get_all(name):
            headers.add(name, value)
    headers.add("To", response.headers.get("To") or invite.headers.get("To") or "")
    headers.add("Call-ID", invite.call_id)
    headers.add("CSeq", f"{invite.cseq.number} ACK")
    return Request(headers, b"", "ACK", invite.uri)
