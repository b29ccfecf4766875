"""Non-INVITE client transaction (RFC 3261, 17.1.2)."""

from __future__ import annotations

from gateway.sip.message import Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import ResponseReceived, State, Terminated, Timer, TransactionEvent


class ClientTransaction:
    """
    One request of ours other than INVITE and ACK; it is sent at once.

    Args:
        request: With its final Via and CSeq.
        reliable: Whether the transport retransmits for us (TCP).
        timers: RFC 3261 timer values.
        now: The present time in seconds.
    """

    def __init__(self, request: Request, *, reliable: bool, timers: Timers, now: float) -> None:
        self.request = request
        self.state = State.TRYING
        self._reliable = reliable
        self._timers = timers
        self._resend_after = timers.t1
        self._deadlines: dict[Timer, float] = {Timer.F: now + timers.limit}
        if not reliable:
            self._deadlines[Timer.E] = now + timers.t1
        self._to_send: list[Request] = [request]
        self._events: list[TransactionEvent] = []

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
            self._terminate(timed_out=True)

    def handle_timeout(self, *, now: float) -> None:
        """Fire every timer that is due. Calling early is harmless."""
        while (at := self.next_timeout()) is not None and at <= now:
            self._fire(min(self._deadlines, key=self._deadlines.__getitem__), now)

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        return min(self._deadlines.values(), default=None)

    def to_send(self) -> list[Request]:
        """Take the requests that are ready for the wire."""
        ready, self._to_send = self._to_send, []
        return ready

    def events(self) -> list[TransactionEvent]:
        """Take what the owner has to know."""
        ready, self._events = self._events, []
        return ready

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

    def _terminate(self, *, timed_out: bool) -> None:
        self.state = State.TERMINATED
        self._deadlines = {}
        self._events.append(Terminated(timed_out))
