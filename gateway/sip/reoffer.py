"""
Our own re-INVITE: a new offer in a call that is up (RFC 3261, section 14.1; RFC 6141), or the last
description again, to refresh the session (RFC 4028).

At most one at a time. Where the peer's offer is under way already, ours waits a random while and is
sent then; the same after a 491.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, Protocol

from gateway.sip.early import sdp_of
from gateway.sip.errors import LocalProtocolError
from gateway.sip.events import ReofferAnswered
from gateway.sip.exchange import Exchange
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Request, Response
from gateway.sip.session import Session
from gateway.sip.transaction import ResponseReceived, Terminated, TransactionEvent

MAX_TRIES: Final = 6
"""How often one offer is sent while the peer's own get in its way."""
MAX_RETRY_AFTER: Final = 10
"""Seconds; the Retry-After of a 500 that speaks of a pending offer is not above that (14.2)."""


class Reoffering(Protocol):
    """What a re-INVITE needs of its call."""

    @property
    def handle(self) -> str: ...

    @property
    def session(self) -> Session: ...

    def offer_headers(self) -> ExtraHeaders:
        """What a re-INVITE or UPDATE of ours says beside the description."""
        ...

    @property
    def offer_pending(self) -> bool:
        """Whether an INVITE of the peer, or the ACK of its answer, is under way."""
        ...

    def send(
        self,
        method: str,
        extra: ExtraHeaders,
        handler: Callable[[TransactionEvent, float], None],
        *,
        body: bytes,
        now: float,
    ) -> Exchange: ...

    @property
    def may_update(self) -> bool:
        """Whether the offer goes by UPDATE, because the first INVITE is not answered yet."""
        ...

    def accept_answer(self, offer: Request, response: Response, *, again: bool) -> None:
        """Send the ACK of a 2xx; unless it came before, follow its Contact and note what we offered."""
        ...

    def hang_up_lost(self, *, now: float) -> None: ...

    def changed(self) -> None: ...


class Reoffer:
    """
    The re-INVITEs of one call.

    Args:
        call: Whose they are.
        kit: Shared parts of the user agent.
        owner: Whether we began the call, so that its Call-ID is ours: then we wait longer after a 491.
    """

    def __init__(self, call: Reoffering, kit: Kit, *, owner: bool) -> None:
        self._call = call
        self._kit = kit
        self._owner = owner
        self._sdp = b""
        self._refreshes = False
        self._next = b""
        """An offer that came while a refresh was under way."""
        self._tries = 0
        self._ended = False
        self._request: Exchange | None = None
        self._retry_at: float | None = None
        self._answer_by: float | None = None

    @property
    def in_flight(self) -> bool:
        """Whether our INVITE has no final response: one of the peer's gets 491 meanwhile (14.2)."""
        return self._answer_by is not None

    @property
    def live(self) -> bool:
        """Whether the outcome of an offer is still open; after the end of the call: an ACK may be due."""
        return self.in_flight or self._retry_at is not None

    def start(self, sdp: bytes, *, refreshes: bool = False, now: float) -> None:
        """
        Offer ``sdp`` now, or as soon as another offer is through.

        ``refreshes``: it is what we said last. Only an answer is reported then; a failure is the session's.
        """
        if not sdp:
            raise LocalProtocolError("an offer needs a session description")
        if self.live:
            if not self._refreshes or self._next:
                raise LocalProtocolError("an offer of ours is still unanswered")
            self._next = sdp
            return
        self._sdp = sdp
        self._refreshes = refreshes
        self._tries = 0
        self._attempt(now)

    def end(self) -> None:
        """The call has ended: try no more, report nothing. An INVITE under way still gets its ACK."""
        self._ended = True
        self._retry_at = None
        self._next = b""
        if self._request is not None:
            self._request.stop()

    def drop(self) -> None:
        """The early dialog in which an UPDATE is under way is none any more (RFC 3261, section 12.3)."""
        if self.live:
            self._retry_at = self._answer_by = None
            if self._request is not None:
                self._request.stop()
                self._request = None
            self._kit.events.append(ReofferAnswered(self._call.handle, 481, None))

    def receive_late(self, response: Response) -> bool:
        """Acknowledge a 2xx whose transaction is over; ``False`` if it is none of ours."""
        request = self._request
        if request is None or not request.answered or response.cseq.number != request.cseq:
            return False
        self._call.accept_answer(request.request, response, again=True)
        return True

    # Time.

    def next_timeout(self) -> float | None:
        return self._retry_at if self._answer_by is None else self._answer_by

    def handle_timeout(self, *, now: float) -> None:
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            self._attempt(now)
        elif self._answer_by is not None and now >= self._answer_by:
            # A provisional response ended timer B, and nothing came after it.
            if self._request is not None:
                self._request.abandon()
            self._lose(408, now)

    # Tries.

    def _attempt(self, now: float) -> None:
        if self._call.offer_pending:
            self._wait(now)
            return
        self._tries += 1
        # Timer B and a peer that is slow with its final response: whichever is later has to be over.
        self._answer_by = now + 2 * self._kit.settings.timers.limit
        extra = self._call.offer_headers()
        method = "UPDATE" if self._call.may_update else "INVITE"
        self._request = self._call.send(method, extra, self._on_event, body=self._sdp, now=now)

    def _wait(self, now: float) -> None:
        """Come back after 2.1 to 4 s where the Call-ID is ours, else after 0 to 2 s, in steps of 10 ms."""
        draw = zlib.crc32(self._kit.token().encode())
        after_ms = 2100 + 10 * (draw % 191) if self._owner else 10 * (draw % 201)
        self._retry_at = now + after_ms / 1000

    def _on_event(self, event: TransactionEvent, now: float) -> None:
        match event:
            case ResponseReceived(response) if response.is_provisional:
                return
            case ResponseReceived(response) if response.is_success:
                self._accepted(response, now)
            case ResponseReceived(response) if self.in_flight:
                self._answer_by = None
                self._refused(response, now)
            case Terminated(timed_out=True) if self.in_flight:
                self._lose(408, now)
            case _:
                return  # the end of the transaction, or of a call that is over
        self._call.changed()

    def _accepted(self, response: Response, now: float) -> None:
        # A 2xx to a try that was refused before contradicts that; it gets its ACK and decides nothing.
        decides = self.in_flight and self._request is not None and self._request.answered
        if self._request is not None:
            self._call.accept_answer(self._request.request, response, again=not decides)
        if decides:
            self._answer_by = None
            self._call.session.accepted(response, now=now)
            self._report(response.status, sdp_of(response), now)

    def _refused(self, response: Response, now: float) -> None:
        wait = _retry_after(response)
        if self._ended:
            return
        if response.status == 491 and self._tries < MAX_TRIES:
            self._wait(now)
        elif response.status == 500 and wait is not None and self._tries < MAX_TRIES:
            self._retry_at = now + wait
        elif response.status in {408, 481}:
            self._lose(response.status, now)
        elif self._tries < MAX_TRIES and self._call.session.timer.raise_to(response):
            self._attempt(now)
        else:
            if self._refreshes:
                self._call.session.refused(response, now=now)
            self._report(response.status, None, now)

    def _lose(self, status: int, now: float) -> None:
        """The peer knows the dialog no more, or is gone (12.2.1.2)."""
        self._answer_by = None
        self._next = b""
        self._report(status, None, now)
        self._call.hang_up_lost(now=now)

    def _report(self, status: int, sdp: bytes | None, now: float) -> None:
        if self._ended:
            return
        if sdp is not None or not self._refreshes:
            self._kit.events.append(ReofferAnswered(self._call.handle, status, sdp))
        if self._next:
            sdp, self._next = self._next, b""
            self.start(sdp, now=now)


def _retry_after(response: Response) -> int | None:
    """Return the seconds of a Retry-After that only asks to let another offer pass."""
    text = (response.headers.get("Retry-After") or "").partition(";")[0].partition("(")[0].strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 2:
        return None
    return int(text) if int(text) <= MAX_RETRY_AFTER else None
