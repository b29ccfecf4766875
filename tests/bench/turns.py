"""
Turn-taking as callers hear it: first audio, barge-in, gaps in the answers.

A caller gives ``index``, ``sent`` (the time of each frame), ``pieces()`` (arrival time and audio bytes of
what came back, in order) and ``stops(since, until)`` (when the answer stopped after the caller began).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

PLAYER_S = 0.060
"""A player starts so long after the first audio; what comes later than its turn is a gap."""


class Heard(Protocol):
    index: int
    sent: list[float]

    def pieces(self) -> list[tuple[float, bytes]]: ...

    def stops(self, since: float, until: float) -> float | None: ...


@dataclass(frozen=True)
class Cycle:
    """When callers speak: ``speech_ms`` at the start of each ``cycle_ms``, staggered over the calls."""

    calls: int
    speech_ms: int = 600
    cycle_ms: int = 5000
    vad_silence_ms: int = 200

    @property
    def frames(self) -> int:
        return self.cycle_ms // 20

    def ahead(self, index: int) -> int:
        """Frames by which a caller is ahead of the first one, so that turns do not coincide."""
        return index * self.frames // self.calls

    def speaks(self, index: int, frame: int) -> bool:
        return (frame + self.ahead(index)) % self.frames < self.speech_ms // 20

    @property
    def last_frame(self) -> int:
        """The frame of a cycle whose silence ends the turn."""
        return (self.speech_ms + self.vad_silence_ms) // 20 - 1


@dataclass
class Turns:
    """Everything measured, over all callers and turns, in seconds."""

    first: list[float] = field(default_factory=list)
    barge_in: list[float] = field(default_factory=list)
    stale: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    answers: int = 0
    heard: float = 0.0

    def summary(self) -> dict[str, object]:
        lost = sum(self.gaps)
        return {
            "turns": len(self.first),
            "answers": self.answers,
            "first_audio_ms": percentiles(self.first),
            "barge_ins": len(self.barge_in),
            "barge_in_missed": int(np.isnan(self.barge_in).sum()) if self.barge_in else 0,
            "barge_in_ms": percentiles(self.barge_in),
            "stale_audio_ms": percentiles(self.stale),
            "gaps": len(self.gaps),
            "gap_ms_total": round(1000 * lost, 1),
            "longest_gap_ms": round(1000 * max(self.gaps, default=0.0), 1),
            "playout_ok_pct": round(100 * (1 - lost / max(self.heard, 1e-9)), 3),
            "heard_s": round(self.heard, 1),
        }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95, p99 and the maximum in milliseconds, without what never came (NaN)."""
    values = np.array(seconds, float) * 1000
    values = values[~np.isnan(values)]
    if not values.size:
        return {"n": 0}
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    rounded = {"p50": p50, "p95": p95, "p99": p99, "max": values.max()}
    return {"n": int(values.size), **{name: round(float(value), 2) for name, value in rounded.items()}}


def measure(callers: Sequence[Heard], cycle: Cycle, begin: float) -> Turns:
    """Look at every turn that began after ``begin`` and ended within the capture."""
    turns = Turns()
    for caller in callers:
        pieces = caller.pieces()
        times = np.array([at for at, _ in pieces])
        lengths = np.array([len(audio) / 8000 for _, audio in pieces])
        for start in range(-cycle.ahead(caller.index) % cycle.frames, len(caller.sent), cycle.frames):
            if start + cycle.frames >= len(caller.sent):
                break
            began, ended = caller.sent[start], caller.sent[start + cycle.last_frame]
            if began < begin:
                continue
            if start >= cycle.frames:
                _interruption(turns, caller, times, lengths, began, ended)
            _answer(turns, times, lengths, ended, caller.sent[start + cycle.frames])
    return turns


def _interruption(
    turns: Turns, caller: Heard, times: np.ndarray, lengths: np.ndarray, began: float, ended: float
) -> None:
    stopped = caller.stops(began, ended)
    turns.barge_in.append(np.nan if stopped is None else stopped - began)
    if stopped is not None:
        turns.stale.append(float(lengths[(times > stopped) & (times < ended)].sum()))


def _answer(turns: Turns, times: np.ndarray, lengths: np.ndarray, since: float, until: float) -> None:
    inside = (times >= since) & (times < until)
    if not inside.any():
        turns.first.append(np.nan)
        return
    at, length = times[inside], lengths[inside]
    turns.answers += 1
    turns.first.append(float(at[0] - since))
    turns.heard += float(length.sum())
    playing = at[0] + PLAYER_S
    for arrived, lasts in zip(at, length, strict=True):
        if arrived > playing:
            turns.gaps.append(float(arrived - playing))
            playing = arrived
        playing += lasts
