"""
How loud a piece of audio is, in any format of a session (pure).

Nobody tells a gateway of GPT-Live when somebody speaks or stops: it has to measure. The measure is the mean
power of a piece, in which a table takes the place of decoding G.711.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from providers.types import AudioFormat

Power: TypeAlias = float
"""Mean square of 16-bit samples."""


def power_at(dbfs: float) -> Power:
    """Return the power at a level below full scale."""
    return (32768.0 * math.pow(10.0, dbfs / 20.0)) ** 2


def _pcmu(code: int) -> int:
    code = ~code & 0xFF
    magnitude: int = (((code & 0x0F) << 3) + 132 << (code >> 4 & 7)) - 132
    return magnitude


def _pcma(code: int) -> int:
    code ^= 0x55
    segment = code >> 4 & 7
    step = (code & 0x0F) << 4
    return step + 8 if segment == 0 else step + 0x108 << segment - 1


def _squares(decode: Callable[[int], int]) -> NDArray[np.float32]:
    return np.array([decode(code) ** 2 for code in range(256)], dtype=np.float32)


_SQUARES = {"pcmu": _squares(_pcmu), "pcma": _squares(_pcma)}


def power_meter(audio_format: AudioFormat) -> Callable[[bytes], Power]:
    """Return a function that measures pieces of audio in this format; an empty piece has no power."""
    squares = _SQUARES.get(audio_format.encoding)

    def companded(audio: bytes) -> Power:
        assert squares is not None
        if not audio:
            return 0.0
        return float(np.add.reduce(squares[np.frombuffer(audio, np.uint8)])) / len(audio)

    def linear(audio: bytes) -> Power:
        samples = np.frombuffer(audio, "<i2", count=len(audio) // 2).astype(np.float32)
        return float(np.dot(samples, samples)) / len(samples) if len(samples) else 0.0

    return companded if squares is not None else linear
