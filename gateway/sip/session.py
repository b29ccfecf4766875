"""The session timer of a call at work: our refreshes, and the end when none comes (RFC 4028)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, Protocol

from gateway.sip.checks import Refusal
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Request, Response
from gateway.sip.session_timer import SessionDue, SessionTimer, judge
from gateway.sip.settings import SessionTerms
from gateway.sip.transaction import ResponseReceived, Terminated, TransactionEvent

_AGAIN_S: Final = 10.0
"""Seconds until a refresh that was refused for no lasting reason is tried again."""
_NO_UPDATE: Final = frozenset({405, 501})


class Refreshing(Protocol):
    """What a session timer needs of its call."""

    def send(
        self,
        method: str,
        extra: ExtraHeaders,
        handler: Callable[[TransactionEvent, float], None],
        *,
        now: float,
    ) -> object: ...

    def refresh_by_invite(self, *, now: float) -> bool:
        """
        Send our last session description again in a re-INVITE; ``False`` while an offer is open.

        Its answer comes to :meth:`Session.accepted` or :meth:`Session.refused`.
        """
        ...

    def offer_headers(self) -> ExtraHeaders:
        """What an UPDATE says beside its terms: :meth:`Session.refresh` and more."""
        ...

    def follow(self, response: Response) -> None:
        """Take the Contact of a 2xx to an INVITE or UPDATE of ours (RFC 3261, section 12.2.1.2)."""
        ...

    def hang_up_lost(self, *, now: float) -> None:
        """End the call: the peer knows nothing of it any more, or is gone."""
        ...

    def changed(self) -> None: ...


class Session:
    """
    Keeps one call's session alive, or ends the call when the peer does not.

    Args:
        call: What is refreshed.
        kit: Shared parts of the user agent.
        terms: With an interval of 0 nothing is ever asked for or sent.
    """

    def __init__(self, call: Refreshing, kit: Kit, terms: SessionTerms) -> None:
        self._call = call
        self._kit = kit
        self._terms = terms
        self.timer = SessionTimer(terms)
        self._by_update = False
        self._over = False

    # Requests of the peer.

    def judge(self, request: Request) -> Refusal | None:
        """Return the 422 for a re-INVITE or UPDATE; the running timer stays (RFC 4028, section 9)."""
        return judge(request, self._terms)

    def answer(self, request: Request, *, now: float) -> ExtraHeaders:
        """Return the headers of our 2xx to an INVITE or UPDATE; the timer starts again."""
        self._learn(request)
        return self.timer.answer(request, now=now)

    # Requests of ours.

    def opening(self) -> ExtraHeaders:
        """Return the headers of our INVITE."""
        return self.timer.opening()

    def refresh(self) -> ExtraHeaders:
        """Return the headers of our re-INVITE or UPDATE."""
        return self.timer.refresh()

    def accepted(self, response: Response, *, now: float) -> None:
        """Take the 2xx to our INVITE, re-INVITE or UPDATE."""
        if self._over:
            return
        self._learn(response)
        self.timer.accepted(response, now=now)

    def refused(self, response: Response, *, now: float) -> None:
        """Take a final response to a refresh that is none of 408, 481 and 2xx."""
        if response.status in _NO_UPDATE and self._by_update:
            self._by_update = False
            self.timer.retry(now)
        elif self.timer.raise_to(response):
            self.timer.retry(now)
        elif response.status == 491:
            self.timer.retry(now + self._short_wait())
        else:
            # The refresh failed, not the call (RFC 4028, section 10): there is time to try again.
            self.timer.retry(now + _AGAIN_S)

    # Time.

    def next_timeout(self) -> float | None:
        return self.timer.next_timeout()

    def handle_timeout(self, *, now: float) -> None:
        match self.timer.due(now):
            case SessionDue.REFRESH:
                self._refresh(now)
            case SessionDue.EXPIRED:
                self._call.hang_up_lost(now=now)
            case SessionDue.NOTHING:
                pass

    def stop(self) -> None:
        """The call has ended: what still comes changes nothing."""
        self._over = True
        self.timer.stop()

    def _refresh(self, now: float) -> None:
        if self._by_update:
            self._call.send("UPDATE", self._call.offer_headers(), self._on_update_event, now=now)
        elif not self._call.refresh_by_invite(now=now):
            self.timer.retry(now + self._short_wait())

    def _on_update_event(self, event: TransactionEvent, now: float) -> None:
        match event:
            case ResponseReceived(response) if not response.is_provisional:
                self._answered(response, now)
            case Terminated(undelivered=True):
                self.timer.retry(now + _AGAIN_S)
            case Terminated(timed_out=True):
                # No answer at all counts as 408, which ends the dialog (RFC 3261, section 12.2.1.2).
                self._call.hang_up_lost(now=now)
            case _:
                return
        self._call.changed()

    def _answered(self, response: Response, now: float) -> None:
        if response.is_success:
            self._call.follow(response)
            self.accepted(response, now=now)
        elif response.status in {408, 481}:
            self._call.hang_up_lost(now=now)
        else:
            self.refused(response, now=now)

    def _learn(self, message: Request | Response) -> None:
        allowed = message.headers.tokens("Allow")
        if allowed:
            self._by_update = "update" in allowed

    def _short_wait(self) -> float:
        """2.1 to 4 s: who began the call waits longer than who was called (RFC 3261, section 14.1)."""
        return 2.1 + zlib.crc32(self._kit.token().encode()) % 190 / 100
