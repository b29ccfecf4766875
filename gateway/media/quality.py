"""
How a call sounded, in figures: loss, delay, and a MOS by the E-model (ITU-T G.107 in short form; no I/O).

The rating of the E-model is R = 93.2 - Id - Ie,eff: all of its inputs but delay, loss and codec have their
default values (G.107, table 3), whose sum is 93.2.

* Id, what delay costs: 0.024 d + 0.11 (d - 177.3) where d is above 177.3 ms, mouth to ear (the approximation
  of R. Cole and J. Rosenbluth, "Voice over IP performance monitoring", 2001, of G.107 section 7.4).
* Ie,eff, what codec and loss cost: Ie + (95 - Ie) P / (P / B + Bpl), with the loss P in per cent and the
  burst ratio B (G.107 section 7.5). For G.711 Ie is 0; Bpl is 25.1 with concealment, 4.3 without (G.113,
  appendix I).
* MOS = 1 + 0.035 R + R (R - 60) (100 - R) 7e-6 (G.107, annex B).

Loss here is what was not there when it was to be played: lost in the network or too late. The burst ratio is
the mean length of a gap against that of a random loss of the same rate, 1 / (1 - P) (G.107 section 7.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gateway.rtp.session import SessionStatistics

Figures: TypeAlias = dict[str, float | int | None]

_BEST = 93.2
_WORST_LOSS = 95.0
_ROBUST = 25.1
_FRAGILE = 4.3
_FREE_MS = 177.3
_PACKET_MS = 20
_SHORTEST_BUFFER_MS = 40
"""What a peer that says nothing of its jitter buffer is taken to have at least."""


def rating(*, delay_ms: float, loss: float, burst: float = 1.0, conceals: bool = True) -> float:
    """
    Return R for G.711.

    Args:
        delay_ms: Mouth to ear.
        loss: Share of the packets that were not played, 0 to 1.
        burst: Burst ratio; 1 is random, more comes in bursts.
        conceals: Whether the listener makes up for losses.
    """
    late_ms = max(delay_ms - _FREE_MS, 0.0)
    delay_impairment = 0.024 * delay_ms + 0.11 * late_ms
    per_cent = loss * 100
    robustness = _ROBUST if conceals else _FRAGILE
    loss_impairment = _WORST_LOSS * per_cent / (per_cent / max(burst, 0.01) + robustness)
    return max(_BEST - delay_impairment - loss_impairment, 0.0)


def mean_opinion(r: float) -> float:
    """Turn R into a MOS of 1 to 4.5."""
    if r <= 0:
        return 1.0
    if r >= 100:
        return 4.5
    return max(1.0, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6)


@dataclass(frozen=True, slots=True)
class Hearing:
    """How one side hears the other."""

    r: float
    mos: float
    loss: float
    """Share of the packets that never came."""
    discard: float
    """Share of the packets that came too late to be heard."""
    burst: float
    """Burst ratio of what was missing."""
    jitter_ms: float
    delay_ms: float
    """One way, as far as it is known: half the round trip, the buffer, one packet."""

    def figures(self) -> Figures:
        """Return everything by name, rounded."""
        return {
            "mos": round(self.mos, 2),
            "r": round(self.r, 1),
            "loss": round(self.loss, 4),
            "discard": round(self.discard, 4),
            "burst": round(self.burst, 2),
            "jitter_ms": round(self.jitter_ms, 1),
            "delay_ms": round(self.delay_ms, 1),
        }


@dataclass(frozen=True, slots=True)
class MediaQuality:
    """How one call's media went."""

    caller: Hearing | None
    """The caller's voice as we heard it; ``None`` when nothing came."""
    agent: Hearing | None
    """The agent's voice as the peer heard it, by its own reports; ``None`` without one."""
    statistics: SessionStatistics
    protection: str = "none"
    """``none``, or ``sdes`` or ``dtls`` and the suite of SRTP."""
    undecryptable: int = 0
    """Packets that were not sent with the key of the call."""
    replayed: int = 0
    """Protected packets that had come before, or that were far too old."""

    def figures(self) -> dict[str, Figures | str | None]:
        """Return everything by name, for the record of the call."""
        counted = self.statistics
        return {
            "protection": self.protection,
            "caller": self.caller.figures() if self.caller else None,
            "agent": self.agent.figures() if self.agent else None,
            "counted": {
                "received": counted.received,
                "sent": counted.sent,
                "lost": counted.lost,
                "late": counted.late,
                "duplicates": counted.duplicates,
                "concealed_ms": counted.concealed_ms,
                "buffer_ms": round(counted.buffer_ms, 1),
                "target_ms": round(counted.target_ms),
                "rtt_ms": None if counted.rtt_ms is None else round(counted.rtt_ms, 1),
                "refused": counted.refused,
                "source_moves": counted.source_moves,
                "stream_changes": counted.stream_changes,
                "undecryptable": self.undecryptable,
                "replayed": self.replayed,
            },
        }


def judge(counted: SessionStatistics) -> MediaQuality:
    """Work both directions out from what was counted."""
    way_ms = (counted.rtt_ms or 0.0) / 2 + _PACKET_MS
    return MediaQuality(_caller(counted, way_ms), _agent(counted, way_ms), counted)


def _caller(counted: SessionStatistics, way_ms: float) -> Hearing | None:
    if not counted.expected:
        return None
    missing = min(counted.missing / counted.expected, 1.0)
    return _hearing(
        loss=counted.lost / counted.expected,
        discard=min(counted.late / counted.expected, 1.0),
        missing=missing,
        burst=counted.missing / counted.gaps * (1 - missing) if counted.gaps else 1.0,
        jitter_ms=counted.jitter_ms,
        delay_ms=way_ms + counted.buffer_ms,
        conceals=True,
    )


def _agent(counted: SessionStatistics, way_ms: float) -> Hearing | None:
    remote, metrics = counted.remote, counted.remote.metrics
    if not remote.expected:
        return None
    loss = min(remote.lost / remote.expected, 1.0)
    discard = metrics.discard if metrics else 0.0
    buffer_ms = max(_SHORTEST_BUFFER_MS, 2 * remote.jitter_ms)
    return _hearing(
        loss=loss,
        discard=discard,
        missing=min(loss + discard, 1.0),
        burst=1.0,
        jitter_ms=remote.jitter_ms,
        delay_ms=way_ms + (metrics.end_system_ms if metrics and metrics.end_system_ms else buffer_ms),
        conceals=True,
    )


def _hearing(
    *,
    loss: float,
    discard: float,
    missing: float,
    burst: float,
    jitter_ms: float,
    delay_ms: float,
    conceals: bool,
) -> Hearing:
    r = rating(delay_ms=delay_ms, loss=missing, burst=burst, conceals=conceals)
    return Hearing(r, mean_opinion(r), loss, discard, burst, jitter_ms, delay_ms)
