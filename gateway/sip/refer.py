"""
Our REFER and the NOTIFYs that tell its outcome (RFC 3515), for a cold transfer.
"""

from __future__ import annotations

from enum import Enum, auto

from gateway.sip.body import sipfrag_status
from gateway.sip.message import Request, Response
from gateway.sip.text import param, parse_params


class ReferState(Enum):
    PENDING = auto()
    """Sent, no final response yet; a NOTIFY may overtake it (RFC 3515, section 2.4.4)."""
    ACTIVE = auto()
    """Accepted: NOTIFYs tell how it goes."""
    ENDED = auto()


class ReferSubscription:
    """
    One REFER of ours, from its sending to its outcome.

    Args:
        cseq: Its sequence number, which is also the subscription's id.
        expires_at: When to stop waiting for an outcome.
    """

    def __init__(self, cseq: int, *, expires_at: float) -> None:
        self.state = ReferState.PENDING
        self.cseq = cseq
        self.expires_at = expires_at

    @property
    def live(self) -> bool:
        return self.state is not ReferState.ENDED

    def matches(self, notify: Request) -> bool:
        """Whether a NOTIFY belongs here: event ``refer`` with our id, or without any."""
        package, identity = event_of(notify)
        return self.live and package == "refer" and identity in {"", str(self.cseq)}

    def answered(self, response: Response) -> bool:
        """
        Take the final response; return whether NOTIFYs will follow.

        A peer that answers ``Refer-Sub: false`` (RFC 4488) will not tell how it went.
        """
        silent = (response.headers.get("Refer-Sub") or "").strip().lower().startswith("false")
        if response.is_success and not silent:
            if self.state is ReferState.PENDING:
                self.state = ReferState.ACTIVE
            return True
        self.state = ReferState.ENDED
        return False

    def notified(self, notify: Request) -> tuple[int, str, bool]:
        """Take a matching NOTIFY; return status and reason of the transfer and whether this is the end."""
        state = (notify.headers.get("Subscription-State") or "").partition(";")[0].strip().lower()
        told = sipfrag_status(notify.body)
        if self.state is ReferState.PENDING:
            self.state = ReferState.ACTIVE
        status, reason = told or (0, "unknown")
        final = status >= 200
        if state == "terminated" and not final:
            # It ended without a final status: nobody knows whether the transfer came about.
            status, reason, final = 0, "unknown", True
        if final:
            self.state = ReferState.ENDED
        return status, reason, final

    def end(self) -> None:
        self.state = ReferState.ENDED


def event_of(request: Request) -> tuple[str, str]:
    """Return package and id of an Event header, in lower case; empty where missing."""
    package, _, rest = (request.headers.get("Event") or "").partition(";")
    try:
        identity = param(parse_params(rest), "id") or ""
    except ValueError:
        identity = ""
    return package.strip().lower(), identity
