"""
What the four transactions share: timers, events, and the key that matches a message to its
transaction (RFC 3261, section 17).

The transactions open no socket and read no clock. Their owner makes one call that changes one
(``receive``, ``respond`` or ``handle_timeout``), then takes what there is to send and to report,
then arms one timer for ``next_timeout()``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeAlias, TypeVar

from gateway.sip.message import Request, Response
from gateway.sip.timers import Timers


class State(Enum):
    """States of all four machines; each uses those that its figure in the RFC has."""

    CALLING = auto()
    TRYING = auto()
    PROCEEDING = auto()
    ACCEPTED = auto()
    COMPLETED = auto()
    CONFIRMED = auto()
    TERMINATED = auto()


class Timer(Enum):
    """RFC 3261, table 4; L and M are of RFC 6026."""

    A = "INVITE request retransmit interval"
    B = "INVITE transaction timeout"
    D = "wait for response retransmits"
    E = "non-INVITE request retransmit interval"
    F = "non-INVITE transaction timeout"
    G = "INVITE response retransmit interval"
    H = "wait for ACK receipt"
    I = "wait for ACK retransmits"  # noqa: E741 (the RFC's own name)
    J = "wait for non-INVITE request retransmits"
    K = "wait for non-INVITE response retransmits"
    L = "wait for accepted INVITE request retransmits"
    M = "wait for retransmission of 2xx to INVITE"


@dataclass(frozen=True, slots=True)
class AckReceived:
    """The ACK of a final response came (for a 2xx: only if it has the INVITE's own branch)."""

    ack: Request


@dataclass(frozen=True, slots=True)
class CancelReceived:
    """A CANCEL named this INVITE before it had a final response; its owner has to send one."""

    reason: str = ""
    """Its Reason header (RFC 3326)."""


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """A response for the transaction's user; a 2xx to INVITE may come more than once."""

    response: Response


@dataclass(frozen=True, slots=True)
class Terminated:
    """The transaction is over; reported exactly once."""

    timed_out: bool
    """No answer (client) or no ACK (server) came in time, or the transport failed."""
    undelivered: bool = False
    """It was the transport."""


TransactionEvent: TypeAlias = AckReceived | CancelReceived | ResponseReceived | Terminated

Sent = TypeVar("Sent", Request, Response)
"""What a machine sends: a client requests, a server responses."""


class Transaction(Generic[Sent]):
    """
    What all four machines have in common: their deadlines, and what waits to be taken.

    Args:
        request: The request that opened the transaction.
        state: The first state of the machine's figure.
        reliable: Whether the transport retransmits for us (TCP).
        timers: RFC 3261 timer values.
    """

    def __init__(self, request: Request, state: State, *, reliable: bool, timers: Timers) -> None:
        self.request = request
        self.state = state
        self._reliable = reliable
        self._timers = timers
        self._resend_after = timers.t1
        self._deadlines: dict[Timer, float] = {}
        self._to_send: list[Sent] = []
        self._events: list[TransactionEvent] = []

    def handle_timeout(self, *, now: float) -> None:
        """Fire every timer that is due. Calling early is harmless."""
        while (at := self.next_timeout()) is not None and at <= now:
            self._fire(min(self._deadlines, key=self._deadlines.__getitem__), now)

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        return min(self._deadlines.values(), default=None)

    def to_send(self) -> list[Sent]:
        """Take the messages that are ready for the wire."""
        ready, self._to_send = self._to_send, []
        return ready

    def events(self) -> list[TransactionEvent]:
        """Take what the owner has to know."""
        ready, self._events = self._events, []
        return ready

    def _fire(self, timer: Timer, now: float) -> None:
        """Act on a timer; the machines with more than one timer have their own."""
        del timer, now
        self._terminate(timed_out=False)

    def _terminate(self, *, timed_out: bool, undelivered: bool = False) -> None:
        self.state = State.TERMINATED
        self._deadlines = {}
        self._events.append(Terminated(timed_out, undelivered))


ServerKey: TypeAlias = tuple[str | int, ...]


def server_key(request: Request) -> ServerKey:
    """
    Return what identifies the server transaction of a request (RFC 3261, section 17.2.3).

    An ACK has the key of its INVITE. A request without an RFC 3261 branch falls back on the rules of
    RFC 2543; the To tag is left out there, because an ACK carries ours and its INVITE did not.
    """
    via = request.via
    method = "INVITE" if request.method == "ACK" else request.method
    if via.is_rfc3261:
        return (via.branch, *via.sent_by, method)
    cseq = request.cseq
    return ("2543", request.uri, request.from_.tag, request.call_id, cseq.number, str(via), method)


def cancelled_key(cancel: Request) -> ServerKey:
    """Return the key of the INVITE that a CANCEL asks to end (RFC 3261, section 9.2)."""
    return (*server_key(cancel)[:-1], "INVITE")


def client_key(message: Request | Response) -> tuple[str, str]:
    """Return what matches a response to its client transaction (RFC 3261, section 17.1.3)."""
    return message.via.branch, message.cseq.method
