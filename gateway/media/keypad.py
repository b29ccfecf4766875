"""
Keys as pairs of tones in the audio (ITU-T Q.23, Q.24): heard, and made.

A key is heard in blocks of 12.75 ms (102 samples, whose resolution of 78 Hz keeps the tones of a group apart
and takes one that is off by 1.5 %). A block counts when one tone of each group stands out of its group, the
two are about equally strong, and hardly anything else is there: a voice has harmonics everywhere. Two blocks
in a row are a key, so 40 ms are enough; two blocks without it are its end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.media.g711 import Law, decode, encode
from gateway.media.playout import SILENCE_BYTE

_RATE = 8000
_BLOCK = 102
_ROWS = (697, 770, 852, 941)
_COLUMNS = (1209, 1336, 1477, 1633)
KEYS = "123A456B789C*0#D"
"""Row by row."""

_PURITY = 0.7
"""The two tones' share of a block's energy, at least."""
_TWIST = 6.3
"""8 dB between the two tones, at most."""
_STANDS_OUT = 6.3
"""8 dB above the other tones of the group, at least."""
_AMPLITUDE = 200.0
"""Of each tone, at least: -44 dBm0."""
_HITS = 2
_MISSES = 2

_OUT = (5500.0, 6500.0)
"""Amplitudes of row and column: -12 and -11 dBm0, the column louder as Q.23 likes it."""

_angles = 2 * np.pi * np.outer(np.arange(_BLOCK), np.array(_ROWS + _COLUMNS)) / _RATE
_WAVES: NDArray[np.float32] = np.concatenate((np.cos(_angles), np.sin(_angles)), axis=1).astype(np.float32)
_WEAKEST = _AMPLITUDE**2 * _BLOCK / 2


@dataclass(frozen=True, slots=True)
class ToneHeard:
    """A key was pressed, as its tones say; reported once."""

    digit: str


class ToneDetector:
    """
    Listens for keys in one stream.

    Args:
        law: Of the audio.
    """

    def __init__(self, law: Law) -> None:
        self._law: Law = law
        self._rest = b""
        self._candidate = ""
        self._hits = 0
        self._misses = 0
        self._present = ""

    def hear(self, audio: bytes) -> str:
        """Take the next piece of audio, of any length; return the keys that begin in it, mostly none."""
        audio = self._rest + audio
        found = ""
        start = 0
        while len(audio) - start >= _BLOCK:
            found += self._step(self._classify(audio[start : start + _BLOCK]))
            start += _BLOCK
        self._rest = audio[start:]
        return found

    def _step(self, key: str) -> str:
        if key != self._candidate:
            self._candidate, self._hits = key, 0
        self._hits += 1
        if key == self._present:
            self._misses = 0
        elif self._present:
            self._misses += 1
            if self._misses >= _MISSES:
                self._present = ""
        if not key or self._hits < _HITS or key == self._present:
            return ""
        self._present, self._misses = key, 0
        return key

    def _classify(self, block: bytes) -> str:
        samples = decode(self._law, block).astype(np.float32)
        energy = float(samples @ samples)
        if energy < 2 * _WEAKEST:
            return ""
        both = samples @ _WAVES
        powers: NDArray[np.float32] = (both[:8] ** 2 + both[8:] ** 2) * np.float32(2 / _BLOCK)
        rows, columns = powers[:4], powers[4:]
        row, column = int(rows.argmax()), int(columns.argmax())
        low, high = float(rows[row]), float(columns[column])
        if low + high < _PURITY * energy or min(low, high) < _WEAKEST:
            return ""
        if low > _TWIST * high or high > _TWIST * low:
            return ""
        if _stands_out(rows, row) and _stands_out(columns, column):
            return KEYS[4 * row + column]
        return ""


def _stands_out(powers: NDArray[np.float32], best: int) -> bool:
    return float(powers[best]) >= _STANDS_OUT * max(
        float(power) for n, power in enumerate(powers) if n != best
    )


def tone_frames(digits: str, law: Law, *, press_ms: int = 100, pause_ms: int = 80) -> list[bytes]:
    """
    Make keys as frames of 20 ms, each key followed by its pause.

    Raises:
        ValueError: A character is no key of a telephone.
    """
    frames: list[bytes] = []
    size = _RATE // 50
    for digit in digits:
        place = KEYS.find(digit.upper())
        if place < 0:
            raise ValueError(f"not a telephone key: {digit!r}")
        time = np.arange(press_ms * _RATE // 1000) / _RATE
        low, high = _ROWS[place // 4], _COLUMNS[place % 4]
        tone = _OUT[0] * np.sin(2 * np.pi * low * time) + _OUT[1] * np.sin(2 * np.pi * high * time)
        audio = encode(law, tone.astype(np.int16)) + SILENCE_BYTE[law] * (pause_ms * _RATE // 1000)
        frames += [audio[start : start + size] for start in range(0, len(audio), size)]
    return frames
