"""
A registration at a registrar, kept alive (RFC 3261, section 10.2; no I/O).

The owner takes :meth:`Registration.to_send`, sends each REGISTER (challenges are answered further down),
reports the outcome with :meth:`answered`, and comes back at :meth:`next_timeout`. Nothing here knows an
address: the owner names the contact by which it is to be reached.

Back-off is that of RFC 5626, section 4.5; a refusal that only a person can mend is tried rarely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from gateway.sip.fields import Via
from gateway.sip.message import Headers
from gateway.sip.text import param
from gateway.sip.uri import NameAddr

BASE_S: Final = 30.0
MAX_S: Final = 1800.0
"""RFC 5626, section 4.5: the base and the end of the back-off."""
REFUSED_S: Final = 600.0
"""Before a refusal that asks for a person (a wrong password, an unknown user) is tried again."""
MAX_EXPIRES: Final = 86_400
MAX_RETRY_AFTER: Final = 86_400.0


class RegistrationState(StrEnum):
    """Where a registration stands."""

    IDLE = "idle"
    """Not begun, or ended by us."""
    REGISTERING = "registering"
    """The first answer is awaited."""
    REGISTERED = "registered"
    FAILED = "failed"
    """It will be tried again."""
    UNREGISTERING = "unregistering"


@dataclass(frozen=True, slots=True)
class Register:
    """A REGISTER to send; 0 seconds takes the contact away."""

    expires: int

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("Expires", str(self.expires)),)


@dataclass(frozen=True, slots=True)
class Registered:
    """The registrar has our contact, for the first time or again after a failure."""

    expires: float
    """Seconds that it granted."""


@dataclass(frozen=True, slots=True)
class RegistrationFailed:
    """The registrar does not have our contact, as far as we know."""

    status: int
    """408 where nobody answered."""
    reason: str
    retry_after: float
    """Seconds until the next attempt."""


@dataclass(frozen=True, slots=True)
class RefreshFailed:
    """A refresh was refused or not answered; the registrar still has our contact for ``seconds``."""

    status: int
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Unregistered:
    """Our contact was taken away, or nobody was there to do it."""

    status: int


@dataclass(frozen=True, slots=True)
class SeenFrom:
    """The registrar sees us at another address than before; ``told`` is the one that we named."""

    host: str
    port: int
    told: tuple[str, int]

    @property
    def translated(self) -> bool:
        """Whether something on the way, a NAT, has changed it."""
        return (self.host, self.port) != self.told


RegistrationEvent: TypeAlias = Registered | RegistrationFailed | RefreshFailed | Unregistered | SeenFrom


class Registration:
    """
    One contact at one registrar.

    Args:
        user: The user part of our contact: a token that nobody else can know.
        expires: Seconds to ask for.
        spread: Returns a number from 0 to 1, so that many clients do not come back at once.
    """

    def __init__(self, *, user: str, expires: int, spread: Callable[[], float]) -> None:
        self.user = user
        self.state = RegistrationState.IDLE
        self._expires = expires
        self._spread = spread
        self._failures = 0
        self._awaited: Register | None = None
        self._due: float | None = None
        self._ends: float | None = None
        self._seen: tuple[str, int] | None = None
        self._registered_at = 0.0
        self._renew = False
        self._was_refused = False
        self._to_send: list[Register] = []
        self._events: list[RegistrationEvent] = []

    @property
    def is_valid(self) -> bool:
        """Whether the registrar has our contact as far as we know."""
        return self.state is RegistrationState.REGISTERED

    # Inputs.

    def start(self, *, now: float) -> None:
        """Register now, or once more."""
        self._due = now
        self.handle_timeout(now=now)

    def stop(self) -> None:
        """Take the contact away; ends in :class:`Unregistered`, at once when there is nothing to take."""
        self._due = self._ends = None
        if not self.is_valid and self._awaited is None:
            self._unregistered(200)
            return
        self.state = RegistrationState.UNREGISTERING
        self._send(0)

    def handle_timeout(self, *, now: float) -> None:
        """Refresh, try again, or see that the registration ran out."""
        if self._ends is not None and now >= self._ends and self.state is RegistrationState.REGISTERED:
            self._ends = None
            wait = max((self._due or now) - now, 0.0)
            self._fail(408, "it ran out before it was refreshed", retry_after=wait)
        if self._due is None or now < self._due or self._awaited is not None:
            return
        self._due = None
        if self.state is not RegistrationState.REGISTERED:
            self.state = RegistrationState.REGISTERING
        self._send(self._expires)

    def renew(self, *, now: float, at_once: bool) -> None:
        """
        Register anew: the connection by which the registrar reached us is gone, or it was away itself.

        A registration that was refused, and not just lost, keeps its pause.

        Args:
            now: The present time in seconds.
            at_once: Whether no pause is needed after the last registration. Some registrars close each
                connection when they have answered: they are not asked at once again.
        """
        if self._awaited is not None:
            self._renew = True  # the REGISTER that is under way may have gone down with it
        elif self.is_valid:
            soon = now if at_once else max(now, self._registered_at + BASE_S)
            self._due = soon if self._due is None else min(self._due, soon)
        elif self.state is RegistrationState.FAILED and not self._was_refused:
            self._due = now

    def answered(self, status: int, reason: str, headers: Headers, *, now: float) -> None:
        """Take the final response to the REGISTER; 408 stands for none at all."""
        sent, self._awaited = self._awaited, None
        if sent is None:
            return
        if sent.expires == 0 or self.state is RegistrationState.UNREGISTERING:
            self._after_stop(sent, status)
            return
        self._notice_source(headers)
        renew, self._renew = self._renew, False
        if 200 <= status < 300:
            self._succeed(headers, now)
            if renew:
                self.renew(now=now, at_once=False)
        elif status == 423 and (least := _least(headers)) > self._expires:
            self._expires = least
            self._send(self._expires)
        else:
            self._refused(status, reason, headers, now)

    # Outputs.

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`."""
        times = (self._due if self._awaited is None else None, self._ends)
        return min((at for at in times if at is not None), default=None)

    def to_send(self) -> list[Register]:
        """Take what is to be sent; there is never more than one REGISTER under way (section 10.2)."""
        ready, self._to_send = self._to_send, []
        return ready

    def events(self) -> list[RegistrationEvent]:
        """Take what happened."""
        ready, self._events = self._events, []
        return ready

    # How it goes on.

    def _send(self, expires: int) -> None:
        if self._awaited is None:
            self._awaited = Register(expires)
            self._to_send.append(self._awaited)

    def _succeed(self, headers: Headers, now: float) -> None:
        granted = granted_to(self.user, headers)
        if granted is None:
            granted = float(self._expires)
        if granted <= 0:
            self._refused(500, "the registrar granted no time", headers, now)
            return
        was, self.state = self.state, RegistrationState.REGISTERED
        self._failures = 0
        self._registered_at = now
        self._ends = now + granted
        self._due = now + refresh_after(granted)
        if was is not RegistrationState.REGISTERED:
            self._events.append(Registered(granted))

    def _refused(self, status: int, reason: str, headers: Headers, now: float) -> None:
        self._failures += 1
        self._was_refused = _asks_for_a_person(status)
        wait = min(MAX_S, BASE_S * 2 ** min(self._failures, 16))
        if self._was_refused:
            wait = max(wait, 2 * REFUSED_S)
        wait *= 0.5 + 0.5 * self._spread()
        wait = max(wait, min(_seconds(headers.get("Retry-After")) or 0.0, MAX_RETRY_AFTER))
        self._due = now + wait
        if self._ends is not None and now < self._ends and not self._was_refused:
            # A refresh that failed takes nothing away: the contact is there until it runs out.
            self._due = min(self._due, now + max((self._ends - now) / 2, 1.0))
            self._events.append(RefreshFailed(status, reason, self._ends - now))
            return
        self._ends = None
        self._fail(status, reason, retry_after=wait)

    def _fail(self, status: int, reason: str, *, retry_after: float) -> None:
        self.state = RegistrationState.FAILED
        self._events.append(RegistrationFailed(status, reason, retry_after))

    def _after_stop(self, sent: Register, status: int) -> None:
        if sent.expires:  # stopped while it registered: only now is there something to take away
            self._send(0)
        else:
            self._unregistered(status)

    def _unregistered(self, status: int) -> None:
        self.state = RegistrationState.IDLE
        self._events.append(Unregistered(status))

    def _notice_source(self, headers: Headers) -> None:
        """See in the Via that comes back where the registrar saw the request come from (RFC 3581)."""
        try:
            via = Via.parse(headers.elements("Via")[0])
            host = param(via.params, "received") or via.host
            port = int(param(via.params, "rport") or via.port or 5060)
        except (ValueError, IndexError):
            return
        if (host, port) != self._seen:
            self._seen = (host, port)
            self._events.append(SeenFrom(host, port, via.sent_by))


def granted_to(user: str, headers: Headers) -> float | None:
    """
    Return the seconds that a 200 grants to our contact (RFC 3261, section 10.2.4).

    The response lists the contacts of all clients of that address, so ours is looked for; the Expires
    header counts where it has no ``expires`` of its own. ``None`` where the registrar says nothing.
    """
    general = _seconds(headers.get("Expires"))
    try:
        contacts = [NameAddr.parse(text) for text in headers.elements("Contact") if text != "*"]
    except ValueError:
        return general
    for contact in contacts:
        if contact.uri.user == user:
            own = _seconds(contact.param("expires"))
            return general if own is None else own
    return general


def _least(headers: Headers) -> int:
    """Return what a 423 asks for, 0 where it does not say or goes beyond all reason."""
    least = _seconds(headers.get("Min-Expires")) or 0.0
    return int(least) if least <= MAX_EXPIRES else 0


def refresh_after(granted: float) -> float:
    """
    Return when to refresh, in seconds from the answer.

    Half of the time for short registrations, ten minutes before the end of long ones (as 3GPP TS 24.229,
    section 5.1.1.4.1 has it): what is lost on the way can be sent again.
    """
    return granted - 600 if granted > 1200 else max(granted / 2, 1.0)


def _asks_for_a_person(status: int) -> bool:
    """Whether the same request will be refused the same way until somebody changes a setting."""
    passing = status in {408, 423, 429, 480, 491}
    return (300 <= status < 500 and not passing) or status >= 600


def _seconds(text: str | None) -> float | None:
    """Read delta-seconds; what stands behind them (a comment, parameters) is cut off."""
    digits = (text or "").strip().partition(";")[0].partition("(")[0].strip()
    return float(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None
