"""What a user agent reports: a closed union of frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.sip.flow import Flow
from gateway.sip.message import Request

EndReason: TypeAlias = Literal["bye", "cancel", "ack_timeout", "local", "rejected", "timeout", "transport"]


@dataclass(frozen=True, slots=True)
class CallOffered:
    """A new call; 100 was already sent. ``ring``, ``answer`` or ``reject`` it by its handle."""

    call: str
    request: Request
    offer: bytes | None
    """The peer's SDP; ``None`` asks for ours (late offer), to be given to ``answer``."""
    flow: Flow


@dataclass(frozen=True, slots=True)
class CallConfirmed:
    """
    The ACK came. Reported once for the call, and again for each re-INVITE that asked for our offer.

    ``answer`` is the SDP of the ACK when the offer was ours; if it is missing then, there is no
    session and the call has to be ended.
    """

    call: str
    answer: bytes | None


@dataclass(frozen=True, slots=True)
class CallReoffered:
    """A re-INVITE, or an UPDATE with SDP: ``answer_reoffer`` it. ``None`` asks for our offer."""

    call: str
    offer: bytes | None


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call is over; exactly once for each offered call."""

    call: str
    by_peer: bool
    reason: EndReason


@dataclass(frozen=True, slots=True)
class ReferAnswered:
    """The final response to our REFER; 408 stands for none at all."""

    call: str
    status: int


@dataclass(frozen=True, slots=True)
class ReferProgressed:
    """
    A NOTIFY told how the transfer goes; it may follow :class:`CallEnded`, when the peer hangs up first.

    After an accepted REFER exactly one has ``final`` set. Its ``status`` is 0 when the outcome is
    not known; ``reason`` is then ``unknown`` (the peer ended the subscription without saying it)
    or ``timeout``.
    """

    call: str
    status: int
    reason: str
    final: bool


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """The user agent itself refused a request that the application never saw."""

    source: str
    status: int
    why: str


@dataclass(frozen=True, slots=True)
class MessageDropped:
    """A message got no answer because none is allowed or possible."""

    source: str
    why: str


SipEvent: TypeAlias = (
    CallOffered
    | CallConfirmed
    | CallReoffered
    | CallEnded
    | ReferAnswered
    | ReferProgressed
    | RequestRefused
    | MessageDropped
)
