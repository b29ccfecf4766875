"""
Find a known recording inside captured audio, by its content.

The recording is cut into blocks of 100 ms. The best place of the whole, or of its first second, is found by
normalised cross-correlation; from there each block is looked for near the place where the one before it
ended, so a pause that was put in the middle of a sentence is followed and reported, and every 20 ms of the
recording are judged one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tests.kit.sound import FRAME, RATE, Pcm

BLOCK = FRAME * 5
SLACK = RATE // 2
"""How far a block may have moved from where the one before it says it should be."""
ALIKE = 0.85
"""Correlation from which two blocks are the same sound."""
SAME = 0.97
"""The same for 20 ms, where two vowels may be alike by chance; G.711 twice gives above 0.99."""
QUIET = 200.0
"""RMS below which 20 ms count as silence, which nobody can hear the lack of."""

Signal = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Heard:
    """How a recording was heard; times in ms from the start of the capture."""

    likeness: float
    """Normalised correlation of the unbroken whole at its best place, 0 to 1."""
    start_ms: float
    end_ms: float
    """Where its last audible 20 ms ended."""
    audible_ms: int
    heard_ms: int
    missing: tuple[int, ...]
    """Positions in the recording, in ms, of the audible 20 ms pieces that were not heard."""
    pauses_ms: float
    """How much time was put in between (or, below zero, cut out) after the first block."""

    @property
    def whole(self) -> bool:
        """Whether every audible 20 ms of the recording were heard, the last ones too."""
        return self.audible_ms > 0 and not self.missing


def hear(recording: Pcm, capture: Pcm) -> Heard:
    """Look for ``recording`` in ``capture``; both are 8 kHz."""
    known = recording.astype(np.float64)
    known = np.pad(known, (0, -len(known) % FRAME))
    # Room on both sides, so that a recording of which one end was cut off still has a place.
    heard = np.pad(capture.astype(np.float64), len(known) + SLACK)
    origin = len(known) + SLACK
    likeness, offset = best_match(known, heard)
    opening = best_match(known[:RATE], heard)
    if opening[0] > likeness:
        offset = opening[1]
    shifts = [0]
    first = None
    for at in range(0, len(known), BLOCK):
        block, shift = known[at : at + BLOCK], shifts[-1]
        if rms(block) >= QUIET:
            shift = _follow(block, heard, at + offset, shift)
            first = shift if first is None else first
        shifts.append(shift)
    first = first or 0
    missing: list[int] = []
    audible = 0
    end = offset
    for piece in range(0, len(known), FRAME):
        frame = known[piece : piece + FRAME]
        if rms(frame) < QUIET:
            continue
        audible += 20
        # The time may have jumped in the middle of a block, so the shifts before and after it count as well.
        block = piece // BLOCK
        there = _there(frame, heard, [piece + offset + shift for shift in shifts[block : block + 3]])
        if there is not None:
            end = there + FRAME
        else:
            missing.append(piece * 1000 // RATE)
    return Heard(
        likeness=round(likeness, 4),
        start_ms=(offset + first - origin) * 1000 / RATE,
        end_ms=(end - origin) * 1000 / RATE,
        audible_ms=audible,
        heard_ms=audible - 20 * len(missing),
        missing=tuple(missing),
        pauses_ms=(shifts[-1] - first) * 1000 / RATE,
    )


def _there(frame: Signal, heard: Signal, places: list[int]) -> int | None:
    """
    Return the last of the places where the frame is.

    A pause may also have been put in the middle of it: its head is at one place then, its tail at the next.
    """
    for place in reversed(places):
        if alike(frame, heard[place : place + FRAME]) >= SAME:
            return place
    for before, after in pairwise(places):
        if before != after:
            # Between two places there may have been a third, where only a frame or two stood.
            start, stop = sorted((before, after))
            likeness, place = best_match(frame, heard[start : stop + FRAME])
            if likeness >= SAME:
                return start + place
            for cut in range(20, FRAME, 20):
                joined = np.concatenate((heard[before : before + cut], heard[after + cut : after + FRAME]))
                if alike(frame, joined) >= SAME:
                    return after
    return None


def _follow(block: Signal, heard: Signal, place: int, shift: int) -> int:
    """Return where the block moved to, or the old shift where it is as expected or nowhere near."""
    expected = place + shift
    if expected >= 0 and alike(block, heard[expected : expected + len(block)]) >= ALIKE:
        return shift
    start = max(0, expected - SLACK)
    window = heard[start : expected + SLACK + len(block)]
    if len(window) <= len(block):
        return shift
    likeness, offset = best_match(block, window)
    return start + offset - place if likeness >= ALIKE else shift


def best_match(known: Signal, heard: Signal) -> tuple[float, int]:
    """Return the highest normalised cross-correlation and the sample where it stands."""
    size = 1 << int(np.ceil(np.log2(len(heard) + len(known))))
    spectrum = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(known, size))
    product = np.fft.irfft(spectrum, size)[: len(heard) - len(known) + 1]
    energy = np.concatenate(([0.0], np.cumsum(heard**2)))
    window = energy[len(known) :] - energy[: -len(known)]
    norm = np.sqrt(np.maximum(window, 1.0) * max(float(np.sum(known**2)), 1.0))
    score = product / norm
    best = int(np.argmax(score))
    return float(score[best]), best


def alike(one: Signal, other: Signal) -> float:
    """Return the normalised correlation of two pieces; 0 where one is silent or shorter."""
    if len(one) != len(other):
        return 0.0
    power = float(np.sum(one**2)) * float(np.sum(other**2))
    return float(np.sum(one * other)) / power**0.5 if power else 0.0


def rms(piece: Signal) -> float:
    return float(np.sqrt(np.mean(piece**2))) if len(piece) else 0.0
