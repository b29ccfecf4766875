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
from typing import TypeAlias

from gateway.sip.message import Request, Response


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


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """A response for the transaction's user; a 2xx to INVITE may come more than once."""

    response: Response


@dataclass(frozen=True, slots=True)
class Terminated:
    """The transaction is over; reported exactly once."""

    timed_out: bool
    """No answer (client) or no ACK (server) came in time, or the transport failed."""


TransactionEvent: TypeAlias = AckReceived | CancelReceived | ResponseReceived | Terminated

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
