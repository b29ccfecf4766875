"""The timer values of RFC 3261 (table 4) and what is derived from them, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timers:
    """Settings, never globals: a test passes its own."""

    t1: float = 0.5
    """Estimate of the round trip; first interval of a retransmission."""
    t2: float = 4.0
    """Largest interval of retransmissions other than of INVITE."""
    t4: float = 5.0
    """How long a message may stay in the network."""
    timer_d: float = 32.0
    """How long an INVITE client keeps answering a repeated rejection over UDP."""

    def __post_init__(self) -> None:
        if min(self.t1, self.t2, self.t4, self.timer_d) <= 0 or self.t2 < self.t1:
            raise ValueError("timers are positive and T2 is not below T1")

    @property
    def limit(self) -> float:
        """64*T1: timers B, F, H, J, L and M, and how long a 2xx waits for its ACK."""
        return 64 * self.t1
