"""Provisional responses that are sent again until their PRACK comes (RFC 3262, the UAS's side)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from gateway.sip.message import Headers, Request, Response
from gateway.sip.timers import Timers

OPTION: Final = "100rel"
LAST_FIRST_RSEQ: Final = 2**31 - 1
"""The first RSeq of an INVITE is at random between 1 and this (RFC 3262, section 3)."""

_RACK = re.compile(r"([0-9]{1,10})\s+([0-9]{1,10})\s+(\S+)")


class RingDue(Enum):
    NOTHING = auto()
    RESEND = auto()
    EXPIRED = auto()
    """No PRACK came in 64*T1: the INVITE is to be refused with a 5xx."""


@dataclass(frozen=True, slots=True)
class Rack:
    """The value of RAck: which response a PRACK acknowledges."""

    rseq: int
    cseq: int
    method: str

    @classmethod
    def parse(cls, text: str) -> Rack:
        """Raise ``ValueError`` for anything but two numbers and a method."""
        found = _RACK.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"not an RAck: {text[:60]!r}")
        return cls(int(found[1]), int(found[2]), found[3])


def requires(headers: Headers) -> bool:
    """Whether the sender of an INVITE insists on reliable provisional responses."""
    return OPTION in headers.tokens("Require")


def supports(headers: Headers) -> bool:
    """Whether the sender of an INVITE would acknowledge them."""
    return requires(headers) or OPTION in headers.tokens("Supported")


@dataclass(slots=True)
class _Unacked:
    response: Response
    rseq: int
    has_sdp: bool
    interval: float
    resend_at: float
    expires_at: float


class ReliableProvisionals:
    """
    The reliable 18x of one INVITE, one at a time: the next waits for the PRACK of the one before.

    The owner sends what :meth:`send` and :meth:`acknowledge` return, and :attr:`pending` again when
    :meth:`due` says so.

    Args:
        first: RSeq of the first response.
        cseq: Number of the INVITE.
        timers: The first interval is T1; it doubles without the bound of T2 (RFC 3262, section 3).
    """

    def __init__(self, *, first: int, cseq: int, timers: Timers) -> None:
        self._next = first
        self._cseq = cseq
        self._timers = timers
        self._unacked: _Unacked | None = None
        self._waiting: tuple[Response, bool] | None = None
        self._acked: set[int] = set()

    @property
    def pending(self) -> Response | None:
        """The response whose PRACK is awaited."""
        return None if self._unacked is None else self._unacked.response

    @property
    def holds_answer(self) -> bool:
        """Whether a 2xx has to wait, because a description in an 18x is not acknowledged (section 3)."""
        unacked = self._unacked is not None and self._unacked.has_sdp
        return unacked or (self._waiting is not None and self._waiting[1])

    def send(self, response: Response, *, has_sdp: bool, now: float) -> Response | None:
        """
        Take an 18x without RSeq; return it, ready to be sent, or ``None`` when it waits for a PRACK.

        At most one waits: a later one takes its place, unless it would lose a description.
        """
        if self._unacked is None:
            return self._begin(response, has_sdp, now)
        if self._waiting is None or has_sdp or not self._waiting[1]:
            self._waiting = response, has_sdp
        return None

    def acknowledge(self, prack: Request, *, now: float) -> tuple[bool, Response | None]:
        """
        Take a PRACK; return whether it is one of ours (else 481), and the next 18x that may leave.

        A repeated one, in a new transaction, is also ours and changes nothing.
        """
        try:
            rack = Rack.parse(prack.headers.get("RAck") or "")
        except ValueError:
            return False, None
        if rack.cseq != self._cseq or rack.method != "INVITE":
            return False, None
        if self._unacked is None or rack.rseq != self._unacked.rseq:
            return rack.rseq in self._acked, None
        self._acked.add(rack.rseq)
        self._unacked = None
        waiting, self._waiting = self._waiting, None
        return True, None if waiting is None else self._begin(*waiting, now)

    def stop(self) -> None:
        """Send nothing any more: there is a final response. A PRACK that is on its way is still ours."""
        if self._unacked is not None:
            self._acked.add(self._unacked.rseq)
        self._unacked = self._waiting = None

    def next_timeout(self) -> float | None:
        return None if self._unacked is None else min(self._unacked.resend_at, self._unacked.expires_at)

    def due(self, now: float) -> RingDue:
        """Say what is to be done at ``now`` and arm the next interval."""
        unacked = self._unacked
        if unacked is None:
            return RingDue.NOTHING
        if now >= unacked.expires_at:
            return RingDue.EXPIRED
        if now < unacked.resend_at:
            return RingDue.NOTHING
        unacked.interval *= 2
        unacked.resend_at = now + unacked.interval
        return RingDue.RESEND

    def _begin(self, response: Response, has_sdp: bool, now: float) -> Response:
        rseq, self._next = self._next, self._next + 1
        response.headers.add("Require", OPTION)
        response.headers.add("RSeq", str(rseq))
        t1 = self._timers.t1
        self._unacked = _Unacked(response, rseq, has_sdp, t1, now + t1, now + self._timers.limit)
        return response
