"""What the calls of one user agent share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.sip.events import RequestRefused, SipEvent
from gateway.sip.respond import Responder
from gateway.sip.settings import UaSettings
from gateway.sip.transactions import Served, Transactions

ExtraHeaders: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Kit:
    """Settings, transactions, the source of tokens, and where events are reported."""

    settings: UaSettings
    transactions: Transactions
    responder: Responder
    token: Callable[[], str]
    """Returns a new unguessable token: letters and digits only."""
    events: list[SipEvent]

    def respond(
        self,
        served: Served,
        status: int,
        *,
        tag: str = "",
        contact: str = "",
        extra: ExtraHeaders = (),
        body: bytes = b"",
        now: float,
    ) -> None:
        """Answer a request."""
        response = self.responder.build(
            served.request, status, tag=tag, contact=contact, extra=extra, body=body
        )
        self.transactions.respond(served, response, now=now)

    def refuse(
        self, served: Served, status: int, why: str, *, tag: str = "", extra: ExtraHeaders = (), now: float
    ) -> None:
        """Answer a request that the application will not see, and report it."""
        self.respond(served, status, tag=tag, extra=extra, now=now)
        self.events.append(RequestRefused(str(served.flow), status, why))
