"""
Resampling between telephony and model rates: numpy polyphase filters for live audio.

Every call returns exactly the samples that its input is worth (n x up / down, carried over where that is no
whole number), delayed by a millisecond and a half. Nothing is buffered beyond the filter's own memory, so
there is nothing to flush: what a stream ends with is a millisecond of its fading, and adding it would make
every utterance longer than its provider counts it.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from gateway.media.g711 import Samples

_CYCLES = 12.25
"""Half the filter's length, in periods of the lower rate: 1.5 ms of delay at 8 kHz."""
_CUTOFF = 0.97
"""Where the filter has lost half, in units of the lower rate's band."""
_BETA = 6.2
"""
Shape of the Kaiser window; 64 dB in the stop band.

Together: -0.2 dB at 3.4 kHz, where telephone speech ends, -2.5 at 3.7 (an s lives there), -51 at 4.5 kHz.
A frame of 20 ms costs 10 to 14 us.
"""


class Resampler:
    """
    One stream's conversion from one rate to another; keeps its state between calls.

    Args:
        source_rate: Hz of what goes in.
        target_rate: Hz of what comes out.
    """

    def __init__(self, source_rate: int, target_rate: int) -> None:
        common = gcd(source_rate, target_rate)
        self._up = target_rate // common
        self._down = source_rate // common
        self._phases = _phases(self._up, self._down)
        self._taps = self._phases.shape[1]
        self._history = np.zeros(self._taps - 1, np.float32)
        self._offset = 0  # of the next output behind the first new input, at up x source_rate

    def process(self, samples: Samples) -> Samples:
        """Convert the next samples of the stream, any number of them."""
        if not len(samples):
            return np.empty(0, np.int16)
        line = np.concatenate((self._history, samples), dtype=np.float32)
        self._history = line[len(line) - self._taps + 1 :]
        # One row of outputs for each phase; read column by column they are the signal at up x source_rate.
        if self._up == 1:
            fine = np.correlate(line, self._phases[0], "valid")
        else:
            rows = np.empty((len(samples), self._up), np.float32)
            for phase, taps in enumerate(self._phases):
                rows[:, phase] = np.correlate(line, taps, "valid")
            fine = rows.reshape(-1)
        if self._down > 1:
            first = self._offset
            self._offset = (first - len(fine)) % self._down
            fine = fine[first :: self._down]
        return _round(fine)


def delay(source_rate: int, target_rate: int) -> tuple[int, int]:
    """Return how late a :class:`Resampler` is: in samples that go in and in samples that come out."""
    common = gcd(source_rate, target_rate)
    up, down = target_rate // common, source_rate // common
    half = int(_CYCLES * max(up, down))
    return -(-half // up), half // down


def _round(values: NDArray[np.float32]) -> Samples:
    """Round to 16 bits; what is too loud is clipped."""
    rounded = np.rint(values)
    np.minimum(rounded, 32767, out=rounded)
    np.maximum(rounded, -32768, out=rounded)
    return rounded.astype(np.int16)


@lru_cache(maxsize=16)
def _phases(up: int, down: int) -> NDArray[np.float32]:
    """Design the low-pass and split it: row ``p`` makes the output at ``p / up`` behind an input."""
    ratio = max(up, down)
    half = int(_CYCLES * ratio)
    place = np.arange(-half, half + 1)
    band = _CUTOFF / ratio
    taps = band * np.sinc(band * place) * np.kaiser(2 * half + 1, _BETA) * up
    length = -(-len(taps) // up)
    padded = np.zeros(length * up)
    padded[: len(taps)] = taps
    # Output p / up takes taps p, p + up, ...; the newest input meets the first of them.
    rows = padded.reshape(length, up).T[:, ::-1]
    rows = rows / rows.sum(axis=1, keepdims=True)  # each phase passes a constant unchanged
    return np.ascontiguousarray(rows, np.float32)
