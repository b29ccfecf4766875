"""Non-INVITE client transaction (RFC 3261, 17.1.2)."""

from __future__ import annotations

from gateway.sip.message import Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import ResponseReceived, State, Timer, Transaction


class ClientTransaction(Transaction[Request]):
    """
    One request of ours other than INVITE and ACK; it is sent at once.

    Args:
        request: With its final Via and CSeq.
        reliable: Whether the transport retransmits for us (TCP).
        timers: RFC 3261 timer values.
        patience: Seconds of timer F, where that is not 64*T1.
        now: The present time in seconds.
    """

    def __init__(
        self, request: Request, *, reliable: bool, timers: Timers, patience: float | None = None, now: float
    ) -> None:
        super().__init__(request, State.TRYING, reliable=reliable, timers=timers)
        self._deadlines = {Timer.F: now + (timers.limit if patience is None else patience)}
        if not reliable:
            self._deadlines[Timer.E] = now + timers.t1
        self._to_send.append(request)

    def receive(self, response: Response, *, now: float) -> None:
        """Take a response that matches this transaction."""
        match self.state:
            case State.TRYING | State.PROCEEDING if response.is_provisional:
                self.state = State.PROCEEDING
                self._events.append(ResponseReceived(response))
            case State.TRYING | State.PROCEEDING:
                self.state = State.COMPLETED
                self._events.append(ResponseReceived(response))
                self._deadlines = {Timer.K: now + (0.0 if self._reliable else self._timers.t4)}
            case _:
                pass  # a retransmitted final response: absorbed

    def fail(self) -> None:
        """Give up: the transport cannot deliver (RFC 3261, section 17.1.4)."""
        if self.state in {State.TRYING, State.PROCEEDING}:
            self._terminate(timed_out=True, undelivered=True)

    def _fire(self, timer: Timer, now: float) -> None:
        match timer:
            case Timer.E:
                self._to_send.append(self.request)
                # Once a provisional response is here, the interval is T2 (figure 6).
                doubled = min(2 * self._resend_after, self._timers.t2)
                self._resend_after = self._timers.t2 if self.state is State.PROCEEDING else doubled
                self._deadlines[Timer.E] = now + self._resend_after
            case Timer.F:
                self._terminate(timed_out=True)
            case _:
                self._terminate(timed_out=False)
