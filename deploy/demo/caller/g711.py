"""G.711 mu-law (ITU-T G.711, table 2a/2b) by table look-up on numpy arrays."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Pcm = npt.NDArray[np.int16]

SILENCE = 0xFF
"""The code of the smallest positive level, which decodes to 0."""


@functools.cache
def _decoded() -> Pcm:
    inverted = ~np.arange(256) & 0xFF
    exponent, mantissa = inverted >> 4 & 7, inverted & 15
    magnitude = ((mantissa << 3) + 0x84 << exponent) - 0x84
    return np.where(inverted & 0x80, -magnitude, magnitude).astype(np.int16)


@functools.cache
def _encoded() -> npt.NDArray[np.uint8]:
    """For each 16-bit sample, from -32768 on, its code."""
    pcm = np.arange(-32768, 32768)
    biased = np.minimum(np.abs(pcm), 32635) + 0x84
    exponent = np.floor(np.log2(biased)).astype(int) - 7
    mantissa = biased >> exponent + 3 & 15
    sign = np.where(pcm < 0, 0x80, 0)
    codes: npt.NDArray[np.uint8] = (~(sign | exponent << 4 | mantissa) & 0xFF).astype(np.uint8)
    return codes


def decode(codes: bytes) -> Pcm:
    """Turn mu-law bytes into 16-bit samples."""
    return _decoded()[np.frombuffer(codes, np.uint8)]


def encode(pcm: Pcm) -> bytes:
    """Turn 16-bit samples into mu-law bytes."""
    return _encoded()[pcm.astype(np.int32) + 32768].tobytes()
