"""What the calls of one user agent share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.sip.events import RequestRefused, SipEvent
from gateway.sip.message import Request
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

    def finish(self, request: Request, extra: ExtraHeaders = (), body: bytes = b"") -> Request:
        """Add further headers, our name and a session description to a request of ours."""
        for name, value in extra:
            request.headers.add(name, value)
        if self.settings.user_agent and "User-Agent" not in request.headers:
            request.headers.add("User-Agent", self.settings.user_agent)
        if body:
            request.body = body
            if "Content-Type" not in request.headers:
                request.headers.add("Content-Type", "application/sdp")
        return request

    def refuse(
        self, served: Served, status: int, why: str, *, tag: str = "", extra: ExtraHeaders = (), now: float
    ) -> None:
        """Answer a request that the application will not see, and report it."""
        self.respond(served, status, tag=tag, extra=extra, now=now)
        self.events.append(RequestRefused(str(served.flow), status, why))
