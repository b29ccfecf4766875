"""Non-INVITE server transaction (RFC 3261, 17.2.2)."""

from __future__ import annotations

from gateway.sip.errors import LocalProtocolError
from gateway.sip.message import Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import State, Terminated, TransactionEvent


class ServerTransaction:
    """
    One incoming request other than INVITE and ACK.

    Args:
        request: The request that opened the transaction.
        reliable: Whether the transport retransmits for us (TCP); timer J is then zero.
        timers: RFC 3261 timer values.
    """

    def __init__(self, request: Request, *, reliable: bool, timers: Timers) -> None:
        self.request = request
        self.state = State.TRYING
        self._reliable = reliable
        self._timers = timers
        self._timer_j: float | None = None
        self._last: Response | None = None
        self._to_send: list[Response] = []
        self._events: list[TransactionEvent] = []

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
            self._timer_j = now + (0.0 if self._reliable else self._timers.limit)

    def fail(self) -> None:
        """Give up: the transport cannot deliver (RFC 3261, section 17.2.4)."""
        if self.state is not State.TERMINATED:
            self._terminate(timed_out=True)

    def handle_timeout(self, *, now: float) -> None:
        """Fire timer J when it is due. Calling early is harmless."""
        if self._timer_j is not None and self._timer_j <= now:
            self._terminate(timed_out=False)

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        return self._timer_j

    def to_send(self) -> list[Response]:
        """Take the responses that are ready for the wire."""
        ready, self._to_send = self._to_send, []
        return ready

    def events(self) -> list[TransactionEvent]:
        """Take what the owner has to know."""
        ready, self._events = self._events, []
        return ready

    def _terminate(self, *, timed_out: bool) -> None:
        self.state = State.TERMINATED
        self._timer_j = None
        self._events.append(Terminated(timed_out))
