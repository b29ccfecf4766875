"""
How loud audio is, for meters, voice activity and records.
"""

from __future__ import annotations

from math import log10, sqrt

import numpy as np

from gateway.media import g711
from gateway.media.g711 import Law, Samples
from providers.types import AudioFormat

SILENCE_DBFS = -96.0
"""The level of nothing, and the lowest that is reported."""


def _squares(law: Law) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    codes = bytes(range(256))
    return g711.decode(law, codes).astype(np.float32) ** 2


_SQUARES = {"pcmu": _squares("pcmu"), "pcma": _squares("pcma")}


def rms(audio_format: AudioFormat, audio: bytes) -> float:
    """Root mean square on the scale of 16-bit samples; 0 for no audio."""
    if audio_format.encoding == "pcm16":
        samples: Samples = np.frombuffer(audio[: len(audio) & ~1], np.int16)
        if not len(samples):
            return 0.0
        wide = samples.astype(np.float32)
        return sqrt(float(np.dot(wide, wide)) / len(wide))
    if not audio:
        return 0.0
    squares = _SQUARES[audio_format.encoding][np.frombuffer(audio, np.uint8)]
    return sqrt(float(squares.mean()))


def dbfs(value: float) -> float:
    """Write an RMS value in dB below a full-scale square wave."""
    return SILENCE_DBFS if value < 1.0 else max(SILENCE_DBFS, 20 * log10(value / 32768))
