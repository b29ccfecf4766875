"""The settings of a user agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.sip.timers import Timers

SMALLEST_INTERVAL: Final = 90
"""Seconds: no Min-SE is lower (RFC 4028, section 5)."""


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """What we want of a session timer."""

    interval: int = 1800
    """Seconds that we ask for, and the most that we accept; 0 for no session timers at all."""
    min_se: int = SMALLEST_INTERVAL
    """The smallest interval that a peer may ask for."""

    def __post_init__(self) -> None:
        if self.interval and not SMALLEST_INTERVAL <= self.min_se <= self.interval:
            raise ValueError(
                f"a session interval is not below Min-SE, and that is {SMALLEST_INTERVAL} s or more"
            )


@dataclass(frozen=True, slots=True)
class UaSettings:
    """Read once at start; a user agent never changes them."""

    public_host: str | None = None
    """
    Host of our Contact and Via, when peers reach us by another address than the one we listen
    on; ``None`` uses ``Flow.local``.
    """
    user_agent: str = "Trunkline"
    timers: Timers = field(default_factory=Timers)
    refer_timeout: float = 60.0
    """Seconds from a REFER to its last NOTIFY; then the outcome is unknown."""
    answer_timeout: float = 180.0
    """
    Seconds that an offered call may ring, then 480, and that a call of ours may, then CANCEL.
    RFC 3261's proxies give up after 3 minutes.
    """
    failover_after: float = 6.0
    """Seconds that an address of a target may stay silent before the next one is tried (RFC 3263, 4.3)."""
    retry_after: int = 5
    """Seconds in the Retry-After of our 503."""
    return_to_source: bool = True
    """
    Send in-dialog requests to where the peer's packets come from when its Contact is a private
    address but its packets are not (callers behind NAT).
    """
    session: SessionTerms = field(default_factory=SessionTerms)
    """Session timers (RFC 4028)."""
    max_transactions: int = 20_000
    """Server transactions at once; further requests get a stateless 503."""
    max_dialogs: int = 40_000
    """Calls in memory, with those that are about to end; one more gets 503 with Retry-After."""

    def __post_init__(self) -> None:
        times = self.refer_timeout, self.answer_timeout, self.failover_after
        if min(times) <= 0 or min(self.max_transactions, self.max_dialogs) < 1:
            raise ValueError("times and caps of a user agent are positive")
