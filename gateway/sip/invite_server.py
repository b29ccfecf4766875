"""
INVITE server transaction (RFC 3261, 17.2.1, with the Accepted state of RFC 6026).

A 2xx is retransmitted by the dialog, which passes it to :meth:`InviteServerTransaction.respond`
again: see RFC 6026, section 7.1.
"""

from __future__ import annotations

from gateway.sip.errors import LocalProtocolError
from gateway.sip.message import Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import AckReceived, State, Timer, Transaction


class InviteServerTransaction(Transaction[Response]):
    """
    One incoming INVITE, from the first byte to the last retransmission.

    Args:
        invite: The request that opened the transaction.
        reliable: Whether the transport retransmits for us (TCP).
        timers: RFC 3261 timer values.
    """

    def __init__(self, invite: Request, *, reliable: bool, timers: Timers) -> None:
        super().__init__(invite, State.PROCEEDING, reliable=reliable, timers=timers)
        self._last: Response | None = None
        self._acked = False

    @property
    def answered(self) -> bool:
        """Whether a final response was sent."""
        return self.state is not State.PROCEEDING

    def receive(self, request: Request, *, now: float) -> None:
        """Take a retransmitted INVITE or an ACK with its branch."""
        match self.state, request.method:
            case State.PROCEEDING | State.COMPLETED, "INVITE":
                self._resend()
            case State.ACCEPTED, "INVITE" if not self._acked:
                # RFC 6026 absorbs it, for the dialog resends the 2xx anyway. Until the ACK is here
                # the caller may well have lost it, and an answer now saves up to T2.
                self._resend()
            case State.COMPLETED, "ACK":
                self._events.append(AckReceived(request))
                self._deadlines = {Timer.I: now + (0.0 if self._reliable else self._timers.t4)}
                self.state = State.CONFIRMED
            case State.ACCEPTED, "ACK":
                self._acked = True
                self._events.append(AckReceived(request))
            case _:
                pass  # a late retransmission: absorbed, as the RFC asks

    def acknowledge(self) -> None:
        """Note that the dialog got the ACK of the 2xx: a late INVITE is absorbed from now on."""
        self._acked = True

    def respond(self, response: Response, *, now: float) -> None:
        """Send a response; a 2xx may be passed again for retransmission."""
        if self.state is State.ACCEPTED and response.is_success:
            self._to_send.append(response)
            return
        if self.state is not State.PROCEEDING:
            raise LocalProtocolError(f"cannot send {response.status} when {self.state.name.lower()}")
        self._last = response
        self._to_send.append(response)
        if response.is_provisional:
            return
        if response.is_success:
            self.state = State.ACCEPTED
            self._deadlines = {Timer.L: now + self._timers.limit}
            return
        self.state = State.COMPLETED
        self._deadlines = {Timer.H: now + self._timers.limit}
        if not self._reliable:
            self._deadlines[Timer.G] = now + self._resend_after

    def fail(self) -> None:
        """Give up: the transport cannot deliver (RFC 3261, section 17.2.4)."""
        if self.state is not State.TERMINATED:
            self._terminate(timed_out=True, undelivered=True)

    def _fire(self, timer: Timer, now: float) -> None:
        match timer:
            case Timer.G:
                self._resend()
                self._resend_after = min(2 * self._resend_after, self._timers.t2)
                self._deadlines[Timer.G] = now + self._resend_after
            case Timer.H:
                self._terminate(timed_out=True)
            case _:
                self._terminate(timed_out=False)

    def _resend(self) -> None:
        if self._last is not None:
            self._to_send.append(self._last)
