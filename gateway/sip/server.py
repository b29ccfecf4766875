"""Non-INVITE server transaction (RFC 3261, 17.2.2)."""

from __future__ import annotations

from gateway.sip.errors import LocalProtocolError
from gateway.sip.message import Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import State, Timer, Transaction


class ServerTransaction(Transaction[Response]):
    """
    One incoming request other than INVITE and ACK.

    Args:
        request: The request that opened the transaction.
        reliable: Whether the transport retransmits for us (TCP); timer J is then zero.
        timers: RFC 3261 timer values.
    """

    def __init__(self, request: Request, *, reliable: bool, timers: Timers) -> None:
        super().__init__(request, State.TRYING, reliable=reliable, timers=timers)
        self._last: Response | None = None

    @property
    def answered(self) -> bool:
        """Whether a final response was sent."""
        return self.state in {State.COMPLETED, State.TERMINATED}

    def receive(self, request: Request, *, now: float) -> None:
        """Take a retransmission; it is answered with the last response, if there is one."""
        del request, now  # the key has matched: there is nothing else in it
        if self.state in {State.PROCEEDING, State.COMPLETED} and self._last is not None:
            self._to_send.append(self._last)

    def respond(self, response: Response, *, now: float) -> None:
        """Send a response."""
        if self.answered:
            raise LocalProtocolError(f"cannot send {response.status} when {self.state.name.lower()}")
        self._last = response
        self._to_send.append(response)
        if response.is_provisional:
            self.state = State.PROCEEDING
        else:
            self.state = State.COMPLETED
            self._deadlines = {Timer.J: now + (0.0 if self._reliable else self._timers.limit)}

    def fail(self) -> None:
        """Give up: the transport cannot deliver (RFC 3261, section 17.2.4)."""
        if self.state is not State.TERMINATED:
            self._terminate(timed_out=True, undelivered=True)
