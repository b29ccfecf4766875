"""A REFER of the peer: its answer, and our NOTIFYs until the outcome (RFC 3515; RFC 4488)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol

from gateway.sip.events import ReferReceived
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import REASONS, Request
from gateway.sip.transaction import TransactionEvent
from gateway.sip.transactions import Served
from gateway.sip.uri import NameAddr, Uri, scheme_of

_SCHEMES: Final = frozenset({"sip", "sips", "tel"})
_EXPIRES_S: Final = 180
"""How long the peer may expect to be told: longer than anything rings."""


class Referred(Protocol):
    """What a referral needs of its call."""

    @property
    def handle(self) -> str: ...

    def send(
        self,
        method: str,
        extra: ExtraHeaders,
        handler: Callable[[TransactionEvent, float], None],
        *,
        body: bytes = b"",
        now: float,
    ) -> object: ...


class ReferralState(Enum):
    IDLE = auto()
    ASKED = auto()
    """The application has not said yet whether it does so."""
    ACCEPTED = auto()
    """202 was sent; the peer is told how it goes."""


class Referral:
    """At most one at a time; a second REFER meanwhile gets 491."""

    def __init__(self, call: Referred, kit: Kit) -> None:
        self.state = ReferralState.IDLE
        self._call = call
        self._kit = kit
        self._served: Served | None = None
        self._cseq = 0
        self._silent = False
        self._answer_by = 0.0

    def receive(self, served: Served, *, now: float) -> None:
        """Take a REFER; the application hears of it unless it can only be refused."""
        request = served.request
        try:
            target = refer_target(request)
        except ValueError as error:
            self._kit.refuse(served, 400, str(error), now=now)
            return
        if self.state is not ReferralState.IDLE:
            self._kit.refuse(served, 491, "another REFER is under way", now=now)
            return
        if scheme_of(target) not in _SCHEMES:
            self._kit.refuse(served, 416, "the scheme of the Refer-To", now=now)
            return
        if not _is_plain_call(target):
            self._kit.refuse(served, 501, "a REFER for anything but a plain call", now=now)
            return
        self.state = ReferralState.ASKED
        self._served, self._cseq = served, request.cseq.number
        wish = (request.headers.get("Refer-Sub") or "").strip().lower()
        self._silent = wish.startswith("false")
        self._answer_by = now + self._kit.settings.timers.limit
        self._kit.events.append(ReferReceived(self._call.handle, target))

    def answer(self, status: int, *, now: float) -> None:
        """
        Say what comes of it: first accept (below 200) or refuse, then how it goes until the final status.

        Harmless when nothing is asked any more.
        """
        match self.state:
            case ReferralState.ASKED if self._served is not None:
                self._decide(self._served, status, now)
            case ReferralState.ACCEPTED:
                self._tell(status, now)
            case _:
                pass  # the call ended, or the peer was not answered in time

    def end(self, *, now: float) -> None:
        """The call is over: an open question is refused, and nothing more is told."""
        if self.state is ReferralState.ASKED and self._served is not None:
            self._kit.respond(self._served, 603, now=now)
        self._close()

    def next_timeout(self) -> float | None:
        return self._answer_by if self.state is ReferralState.ASKED else None

    def handle_timeout(self, *, now: float) -> None:
        if self.state is ReferralState.ASKED and now >= self._answer_by:
            self.end(now=now)

    def _decide(self, served: Served, status: int, now: float) -> None:
        if status >= 300:
            self._kit.respond(served, status, now=now)
            self._close()
            return
        extra = (("Refer-Sub", "false"),) if self._silent else ()
        self._kit.respond(served, 202, extra=extra, now=now)
        self.state = ReferralState.ACCEPTED
        self._served = None
        self._tell(status, now)

    def _tell(self, status: int, now: float) -> None:
        final = status >= 200
        if not self._silent:
            state = "terminated;reason=noresource" if final else f"active;expires={_EXPIRES_S}"
            extra = (
                ("Event", f"refer;id={self._cseq}"),
                ("Subscription-State", state),
                ("Content-Type", "message/sipfrag;version=2.0"),
            )
            fragment = f"SIP/2.0 {status} {REASONS.get(status, 'Unknown')}\r\n"
            self._call.send("NOTIFY", extra, _ignore, body=fragment.encode(), now=now)
        if final:
            self._close()

    def _close(self) -> None:
        self.state = ReferralState.IDLE
        self._served = None


def refer_target(request: Request) -> str:
    """Return the one URI of a Refer-To; raise ``ValueError`` where there is none, or several."""
    values = request.headers.elements("Refer-To")
    if len(values) != 1:
        raise ValueError("not exactly one Refer-To")
    uri = NameAddr.parse(values[0]).uri
    scheme_of(uri)
    return uri


def _is_plain_call(target: str) -> bool:
    """Whether an INVITE without further headers is asked for: no other method, no Replaces (RFC 3891)."""
    uri = Uri(target).sip
    return uri is None or ((uri.param("method") or "INVITE").upper() == "INVITE" and not uri.headers)


def _ignore(_event: TransactionEvent, _now: float) -> None:
    """A NOTIFY that the peer refuses or does not answer changes nothing."""
