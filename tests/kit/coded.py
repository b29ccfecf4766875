"""
Speech that says where it is from: each 20 ms of it carry a code, by which a listener knows them again.

A recording is noise that its number seeds. No 20 ms of one sound like any 20 ms of it or of another, and the
likeness survives G.711, a change of law and a change of rate: two strange pieces of 160 samples are alike by
0.08 (one standard deviation), the same piece through G.711 by 0.99. So what was heard is found by its content
alone, to the sample, also where a packet holds the end of one recording and the beginning of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tests.kit.sound import FRAME, RATE, Pcm

SAME = 0.8
"""Two pieces that are alike by so much are the same one; ten standard deviations for a whole frame."""
LEAST = 24
"""Fewer samples than this (3 ms) at the seam of two recordings prove nothing."""
QUIET = 100
"""What stays below this is silence."""
LATE = 17
"""A change of the rate on the way rings for up to 2 ms before a recording begins."""
_LEVEL = 6000

Signal = NDArray[np.float32]


@lru_cache(maxsize=512)
def coded(number: int, ms: int) -> Pcm:
    """Return the recording of a number; a longer one begins with the shorter ones."""
    count = ms * RATE // 1000
    frames = -(-count // FRAME)
    codes = [np.random.default_rng((number, frame)).uniform(-1, 1, FRAME) for frame in range(frames)]
    return (np.concatenate(codes)[:count] * _LEVEL).astype(np.int16)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of a recording that was heard: ``start`` to ``end``, in samples of the recording."""

    number: int
    start: int
    end: int


class Finder:
    """
    Finds pieces of known recordings in frames that come in order.

    Args:
        recordings: Number and sound of everything that may be heard.
    """

    def __init__(self, recordings: Iterable[tuple[int, Pcm]]) -> None:
        self._known: dict[int, Signal] = {number: pcm.astype(np.float32) for number, pcm in recordings}
        self._at: tuple[int, int] | None = None
        """The recording that is being heard, and where its next sample is expected."""
        self.searched = 0
        """How often all of every recording was looked through: where a frame did not go on as expected."""

    def find(self, frame: Pcm) -> list[Piece] | None:
        """Return the pieces in one frame, none for silence; ``None`` when it is neither."""
        heard = frame.astype(np.float32)
        loud = np.flatnonzero(np.abs(heard) >= QUIET)
        if not len(loud) or len(heard) - loud[0] < LEAST:
            return []  # silence, or the very first samples of something: the next frame shows of what
        found = self._continued(heard) or self._begun(heard) or self._anywhere(heard)
        if found:
            self._at = (found[-1].number, found[-1].end)
        return found

    def _continued(self, heard: Signal) -> list[Piece] | None:
        """The frame goes on where the last one ended, perhaps to the end of it and into another recording."""
        if self._at is None:
            return None
        number, at = self._at
        left = self._known[number][at : at + len(heard)]
        if not len(left):
            return None
        if len(left) >= LEAST and _alike(left, heard[: len(left)]) < SAME:
            return None
        return self._with_tail([Piece(number, at, at + len(left))], heard[len(left) :])

    def _with_tail(self, found: list[Piece], rest: Signal) -> list[Piece] | None:
        """Say what stands behind a recording's end: silence, too little to tell, or another's beginning."""
        if not len(rest) or np.max(np.abs(rest)) < QUIET:
            return found
        if len(rest) < LEAST:
            # The next frame shows what it was: its recording is found there, and goes on from here.
            return found
        for number, known in self._known.items():
            if _alike(known[: len(rest)], rest) >= SAME:
                return [*found, Piece(number, 0, len(rest))]
        return None

    def _begun(self, heard: Signal) -> list[Piece] | None:
        """A recording begins in this frame, at its first sample or behind less than a frame of silence."""
        first = int(np.flatnonzero(np.abs(heard) >= QUIET)[0])
        for number, known in self._known.items():
            for start in range(max(0, first - 4), first + LATE):  # its own first samples may be small
                whole = min(len(heard) - start, len(known))
                if whole >= LEAST and _alike(known[:whole], heard[start : start + whole]) >= SAME:
                    return self._with_tail([Piece(number, 0, whole)], heard[start + whole :])
        return None

    def _anywhere(self, heard: Signal) -> list[Piece] | None:
        self.searched += 1
        best: tuple[float, int, int] = (0.0, 0, 0)
        for number, known in self._known.items():
            if len(known) >= len(heard):
                likeness, at = _best(heard, known)
                best = max(best, (likeness, number, at))
        likeness, number, at = best
        return [Piece(number, at, at + len(heard))] if likeness >= SAME else self._broken(heard)

    def _broken(self, heard: Signal) -> list[Piece] | None:
        """A recording's last samples and then silence, where the frames before them were not heard."""
        last = int(np.flatnonzero(np.abs(heard) >= QUIET)[-1]) + 1
        for number, known in self._known.items():
            for end in range(last, min(last + 4, len(heard)) + 1):
                if end >= LEAST and _alike(known[-end:], heard[:end]) >= SAME:
                    return [Piece(number, len(known) - end, len(known))]
        return None


def _alike(one: Signal, other: Signal) -> float:
    power = float(one @ one) * float(other @ other)
    return float(one @ other) / power**0.5 if power and len(one) == len(other) else 0.0


def _best(heard: Signal, known: Signal) -> tuple[float, int]:
    """Return the highest likeness of a piece anywhere in a recording, and where."""
    size = 1 << (len(known) + len(heard)).bit_length()
    product = np.fft.irfft(np.fft.rfft(known, size) * np.conj(np.fft.rfft(heard, size)), size)
    product = product[: len(known) - len(heard) + 1]
    energy = np.concatenate(([0.0], np.cumsum(known.astype(np.float64) ** 2)))
    power = (energy[len(heard) :] - energy[: -len(heard)]) * float(heard @ heard)
    score = product / np.sqrt(np.maximum(power, 1.0))
    best = int(np.argmax(score))
    return float(score[best]), best


def joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Join pieces that follow each other without a gap."""
    found: list[Piece] = []
    for piece in pieces:
        if found and found[-1].number == piece.number and found[-1].end == piece.start:
            found[-1] = Piece(piece.number, found[-1].start, piece.end)
        else:
            found.append(piece)
    return found
