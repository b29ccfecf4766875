"""What the demo measured, as the caller saw it."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from deploy.demo.checks import Evidence, silence_after_ms
from deploy.demo.evidence import CallerSide


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds, ``None`` where there was nothing to measure."""

    setup_ms: float
    """INVITE sent to 200 received."""
    first_audio_ms: float | None
    """200 received to the first sound."""
    responses_ms: tuple[float, ...]
    """End of each turn of the caller to the first sound of the answer, the model's own patience included."""
    silence_ms: float | None
    """The caller's interrupting word to the last sound of the interrupted answer."""
    ledger_ms: int | None
    """How much of that answer was heard, says the gateway."""
    captured_ms: int | None
    """The same, says the caller's capture."""
    jitter_ms: float
    spacing_p99_ms: float
    longest_gap_ms: float
    packets: int


def measure(it: Evidence) -> Figures:
    caller = it.caller
    match = it.hear("hours") if it.record.interruptions else None
    return Figures(
        setup_ms=(caller.answered_at - caller.invited_at) * 1000,
        first_audio_ms=_first_after(caller, caller.answered_at),
        responses_ms=tuple(
            latency
            for said in caller.said
            if (latency := _first_after(caller, said.ended_at)) is not None and latency < 5000
        ),
        silence_ms=silence_after_ms(it),
        ledger_ms=it.record.interruptions[0].heard_ms if it.record.interruptions else None,
        captured_ms=match.heard_ms if match else None,
        jitter_ms=caller.jitter_ms,
        spacing_p99_ms=caller.spacing_p99_ms,
        longest_gap_ms=caller.longest_gap_ms,
        packets=caller.packets,
    )


def _first_after(caller: CallerSide, at: float) -> float | None:
    index = bisect.bisect_left(caller.audible_at, at)
    return (caller.audible_at[index] - at) * 1000 if index < len(caller.audible_at) else None
