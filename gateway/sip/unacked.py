"""A 2xx to INVITE on its way: sent again until the ACK comes (RFC 3261, section 13.3.1.4)."""

from __future__ import annotations

from enum import Enum, auto

from gateway.sip.message import Response
from gateway.sip.timers import Timers
from gateway.sip.transactions import Served


class Due(Enum):
    NOTHING = auto()
    RESEND = auto()
    EXPIRED = auto()


class UnackedAnswer:
    """
    The 2xx of one INVITE or re-INVITE.

    Args:
        served: The INVITE.
        response: The 2xx.
        ours_offered: Whether it carries our offer, so that the ACK must bring the answer.
        timers: T1 is the first interval, T2 the longest; also over TCP, for a proxy may change to UDP.
        now: When the 2xx was sent first.
    """

    def __init__(
        self, served: Served, response: Response, *, ours_offered: bool, timers: Timers, now: float
    ) -> None:
        self.served = served
        self.response = response
        self.cseq = served.request.cseq.number
        self.ours_offered = ours_offered
        self._timers = timers
        self._interval = timers.t1
        self._resend_at = now + timers.t1
        self._expires_at = now + timers.limit

    def next_timeout(self) -> float:
        return min(self._resend_at, self._expires_at)

    def due(self, now: float) -> Due:
        """Say what is to be done at ``now`` and arm the next interval."""
        if now >= self._expires_at:
            return Due.EXPIRED
        if now < self._resend_at:
            return Due.NOTHING
        self._interval = min(2 * self._interval, self._timers.t2)
        self._resend_at = now + self._interval
        return Due.RESEND
