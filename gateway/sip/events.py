"""What a user agent reports: a closed union of frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.sip.flow import Flow
from gateway.sip.message import Headers, Request

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
class CallProgressed:
    """A 18x to our INVITE."""

    call: str
    status: int
    reason: str
    sdp: bytes | None
    """
    An answer for sound before the call is taken (early media); ``None`` when it says nothing new. It may
    change: another place rings now, or the peer thought better of it (RFC 6337, section 3.1).
    """


@dataclass(frozen=True, slots=True)
class CallAccepted:
    """Our INVITE got a 2xx, and the 2xx its ACK: the call is up."""

    call: str
    sdp: bytes | None
    """The answer that counts now; ``None``: the peer gave none at all, so the call has to be ended."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call is over; exactly once for each call."""

    call: str
    by_peer: bool
    reason: EndReason
    status: int = 0
    """The peer's final rejection of our INVITE, where that was the end."""
    phrase: str = ""
    """Its reason phrase; else the Reason header of the peer's BYE or CANCEL (RFC 3326)."""


@dataclass(frozen=True, slots=True)
class ReofferAnswered:
    """
    Our re-INVITE or UPDATE is through.

    Any ``status`` but a 2xx leaves the session as it was. 408 also stands for no answer; after it, and after
    481, an answered call is ended. Without ``sdp`` nothing changes either.
    """

    call: str
    status: int
    sdp: bytes | None


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """
    The final response to a request out of dialog; exactly once for each.

    ``status`` 408 with ``reason`` ``timeout`` or ``transport`` and no headers: nobody answered.
    """

    request: str
    status: int
    reason: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class InfoReceived:
    """A key press came in an INFO; ``digit`` is one of ``0`` to ``9``, ``*``, ``#``, ``A`` to ``D``."""

    call: str
    digit: str
    duration_ms: int


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
class ReferReceived:
    """The peer of a call asks us to call ``target`` (a URI): ``answer_refer`` it."""

    call: str
    target: str


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
    | CallProgressed
    | CallAccepted
    | ReofferAnswered
    | CallEnded
    | RequestAnswered
    | InfoReceived
    | ReferAnswered
    | ReferProgressed
    | ReferReceived
    | RequestRefused
    | MessageDropped
)
