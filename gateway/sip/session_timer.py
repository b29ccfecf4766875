"""
Session timers (RFC 4028): what is agreed in INVITE, UPDATE and their 2xx, and what is due when.

Both sides refresh the session by INVITE or UPDATE, so that neither they nor the proxies between
keep a call that the other has lost. Who does it is the refresher; the other one hangs up when no
refresh comes. What is sent for it: :mod:`gateway.sip.session`.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from gateway.sip.checks import Refusal
from gateway.sip.message import Headers, Request, Response
from gateway.sip.settings import SMALLEST_INTERVAL, SessionTerms

OPTION: Final = "timer"
LARGEST: Final = 2**31 - 1
"""Seconds: what is beyond a delta-seconds of RFC 3261 is cut to it."""
_FLOOR: Final = 30
"""Seconds: a 2xx with less breaks the RFC; we do not refresh a thousand times a minute for it."""
_GRACE: Final = 32.0

_DELTA = re.compile(r"[0-9]{1,20}")
_REFRESHER = re.compile(r"(?i);\s*refresher\s*=\s*\"?(uac|uas)\b")


class Refresher(Enum):
    """Who keeps the session alive."""

    US = auto()
    PEER = auto()


class SessionDue(Enum):
    NOTHING = auto()
    REFRESH = auto()
    """Send an UPDATE or a re-INVITE."""
    EXPIRED = auto()
    """Send a BYE: the peer, or the way to it, is gone (RFC 4028, section 10)."""


def judge(request: Request, terms: SessionTerms) -> Refusal | None:
    """
    Return the 422 for an INVITE or UPDATE with too small an interval, else ``None``.

    Only a peer that supports timers understands it (RFC 4028, section 9); the interval of another one
    comes from a proxy and is not followed.
    """
    wanted = session_expires(request.headers)
    if not terms.interval or wanted is None or wanted[0] >= terms.min_se or not _supports(request):
        return None
    return Refusal(422, f"a session interval of {wanted[0]} s", (("Min-SE", str(terms.min_se)),))


class SessionTimer:
    """
    The timer of one dialog, in both roles.

    It runs from the first 2xx that agrees on one; each later INVITE or UPDATE with a 2xx starts it again,
    with or without new terms. A refused one leaves it as it is.

    Args:
        terms: Of our side.
    """

    __slots__ = ("_expires_at", "_interval", "_min_se", "_refresh_at", "_refresher", "_terms")

    def __init__(self, terms: SessionTerms) -> None:
        self._terms = terms
        self._interval = 0
        self._min_se = terms.min_se
        self._refresher = Refresher.US
        self._refresh_at: float | None = None
        self._expires_at: float | None = None

    @property
    def interval(self) -> int:
        """Seconds as agreed; 0 while no timer runs."""
        return self._interval

    @property
    def refresher(self) -> Refresher:
        return self._refresher

    # Requests of the peer.

    def answer(self, request: Request, *, now: float) -> tuple[tuple[str, str], ...]:
        """Agree on the terms of an INVITE or UPDATE; return the headers of our 2xx (RFC 4028, section 9)."""
        terms = self._terms
        if not terms.interval:
            return ()
        supports = _supports(request)
        wanted = session_expires(request.headers)
        floor = max(terms.min_se, min_se(request.headers))
        if wanted is None or wanted[0] < terms.min_se:
            if not self._interval and not supports:
                return ()
            interval, asked = self._interval or terms.interval, ""
        else:
            interval, asked = min(wanted[0], terms.interval), wanted[1]
        self._interval = max(interval, floor)
        self._refresher = self._choose(asked, supports=supports)
        self._restart(now)
        role = "uac" if self._refresher is Refresher.PEER else "uas"
        headers = (("Session-Expires", f"{self._interval};refresher={role}"),)
        # Without its support the peer would have to refuse what we require.
        return (*headers, ("Require", OPTION)) if supports or role == "uac" else headers

    def _choose(self, asked: str, *, supports: bool) -> Refresher:
        match asked:
            case "uac" if supports:
                return Refresher.PEER
            case "uac" | "uas":
                return Refresher.US
            case _ if self._expires_at is not None:
                return self._refresher  # as it was (RFC 4028, section 7.4)
            case _:
                return Refresher.US  # whom we can rely on

    # Requests of ours.

    def opening(self) -> tuple[tuple[str, str], ...]:
        """Return what an INVITE of ours asks for; the refresher is left to the peer (section 7.1)."""
        if not self._terms.interval:
            return ()
        interval = max(self._terms.interval, self._min_se)
        return ("Session-Expires", str(interval)), *self._lower_bound()

    def refresh(self) -> tuple[tuple[str, str], ...]:
        """Return what a re-INVITE or UPDATE of ours says; who refreshed goes on doing so (section 7.4)."""
        if not self._interval:
            return self.opening()
        role = "uac" if self._refresher is Refresher.US else "uas"
        return (
            "Session-Expires",
            f"{max(self._interval, self._min_se)};refresher={role}",
        ), *self._lower_bound()

    def accepted(self, response: Response, *, now: float) -> None:
        """Take the 2xx to an INVITE or UPDATE of ours (RFC 4028, section 7.2)."""
        if not self._terms.interval:
            return
        told = session_expires(response.headers)
        if told is None:
            if self._interval and self._refresher is Refresher.US:
                self._restart(now)  # it does no harm, and the proxies between may want it
            else:
                self.stop()
            return
        self._interval = max(told[0], _FLOOR)
        self._refresher = Refresher.PEER if told[1] == "uas" else Refresher.US
        self._restart(now)

    def raise_to(self, response: Response) -> bool:
        """Take the Min-SE of a 422; ``False`` when asking again is no use (RFC 4028, section 7.3)."""
        wanted = min_se(response.headers)
        if response.status != 422 or not self._terms.interval or wanted <= max(self._min_se, self._interval):
            return False
        self._min_se = wanted
        return True

    def _lower_bound(self) -> tuple[tuple[str, str], ...]:
        return (("Min-SE", str(self._min_se)),)

    # Time.

    def next_timeout(self) -> float | None:
        return self._expires_at if self._refresh_at is None else self._refresh_at

    def due(self, now: float) -> SessionDue:
        """Say what is to be done at ``now``; a refresh is asked for once, until :meth:`retry`."""
        if self._expires_at is not None and now >= self._expires_at:
            self.stop()
            return SessionDue.EXPIRED
        if self._refresh_at is not None and now >= self._refresh_at:
            self._refresh_at = None
            return SessionDue.REFRESH
        return SessionDue.NOTHING

    def retry(self, at: float) -> None:
        """Ask for a refresh again at ``at``, unless the session expires before."""
        if self._expires_at is not None and at < self._expires_at:
            self._refresh_at = at

    def stop(self) -> None:
        self._interval = 0
        self._refresh_at = self._expires_at = None

    def _restart(self, now: float) -> None:
        """Begin an interval: half of it for the refresher, then a BYE shortly before its end (section 10)."""
        interval = float(self._interval)
        self._expires_at = now + interval - min(_GRACE, interval / 3)
        self._refresh_at = now + interval / 2 if self._refresher is Refresher.US else None


def session_expires(headers: Headers) -> tuple[int, str] | None:
    """Return seconds and refresher (``uac``, ``uas`` or empty); ``None`` when missing or unreadable."""
    text = headers.get("Session-Expires")
    seconds = None if text is None else _delta(text)
    if text is None or seconds is None:
        return None
    found = _REFRESHER.search(text)
    return seconds, "" if found is None else found[1].lower()


def min_se(headers: Headers) -> int:
    """Return the Min-SE of a message, :data:`SMALLEST_INTERVAL` where there is none."""
    return max(_delta(headers.get("Min-SE") or "") or 0, SMALLEST_INTERVAL)


def _delta(text: str) -> int | None:
    found = _DELTA.match(text.strip())
    return None if found is None else min(int(found[0]), LARGEST)


def _supports(request: Request) -> bool:
    return OPTION in request.headers.tokens("Supported") or OPTION in request.headers.tokens("Require")
