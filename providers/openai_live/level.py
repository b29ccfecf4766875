"""
How loud a piece of audio is, in any format of a session (pure).

Nobody tells a gateway of GPT-Live when somebody speaks or stops: it has to measure. For G.711 nothing is
decoded: a table gives each code the root of its magnitude, and their sum says how loud a piece is.
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
_SOUND = 90
"""-51 dBFS: what is below it is no sound."""
_FEW = 64
"""One sample in so many may be louder in silence."""


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


def _roots(decode: Callable[[int], int]) -> bytes:
    """Return for each code the root of its magnitude, 0 to 255: quiet samples are told apart as well."""
    return bytes(round(255 * math.sqrt(abs(decode(code)) / 32768)) for code in range(256))


def _quiet(decode: Callable[[int], int]) -> bytes:
    return bytes(code for code in range(256) if abs(decode(code)) < _SOUND)


_ROOTS = {"pcmu": _roots(_pcmu), "pcma": _roots(_pcma)}
_QUIET = {"pcmu": _quiet(_pcmu), "pcma": _quiet(_pcma)}
_SINE = 0.5 * (32768 / 255**2 / 0.7628**2) ** 2
"""From the fourth power of the mean root to the power, right for a sine: the mean root of one is 0.7628."""


def power_meter(audio_format: AudioFormat) -> Callable[[bytes], Power]:
    """Return a function that measures pieces of audio in this format; an empty piece has no power."""
    roots = _ROOTS.get(audio_format.encoding)

    def companded(audio: bytes) -> Power:
        mean: float = sum(audio.translate(roots)) / (len(audio) or 1)
        return _SINE * mean**4

    def linear(audio: bytes) -> Power:
        samples = _samples(audio)
        return float(np.dot(samples, samples)) / len(samples) if len(samples) else 0.0

    return companded if roots is not None else linear


def sound_detector(audio_format: AudioFormat) -> Callable[[bytes], bool]:
    """Return a function that tells sound from silence, whatever a codec makes of silence."""
    quiet = _QUIET.get(audio_format.encoding)

    def companded(audio: bytes) -> bool:
        return len(audio.translate(None, quiet or b"")) * _FEW > len(audio)

    def linear(audio: bytes) -> bool:
        samples = _samples(audio)
        return int(np.count_nonzero(np.abs(samples) >= _SOUND)) * _FEW > len(samples)

    return companded if quiet is not None else linear


def _samples(audio: bytes) -> NDArray[np.float32]:
    return np.frombuffer(audio, "<i2", count=len(audio) // 2).astype(np.float32)
