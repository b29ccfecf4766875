"""
G.711 as tables (ITU-T G.711): companded byte to linear 16 bit and back.

The fakes have their own, because providers do not import the gateway's.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = NDArray[np.int16]


def _ulaw_decode_table() -> Samples:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    exponent = (code >> 4) & 7
    magnitude = ((((code & 0x0F) << 3) + 132) << exponent) - 132
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw_decode_table() -> Samples:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment = (code & 0x70) >> 4
    step = (code & 0x0F) << 4
    magnitude = np.where(segment == 0, step + 8, (step + 0x108) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _ulaw_encode_table() -> NDArray[np.uint8]:
    linear = np.arange(65536, dtype=np.int32).astype(np.uint16).view(np.int16).astype(np.int32)
    biased = np.minimum(np.abs(linear), 32635) + 132
    exponent = np.floor(np.log2(biased)).astype(np.int32) - 7
    mantissa = (biased >> (exponent + 3)) & 0x0F
    sign = np.where(linear < 0, 0x80, 0)
    code: NDArray[np.uint8] = (~(sign | (exponent << 4) | mantissa) & 0xFF).astype(np.uint8)
    return code


def _alaw_encode_table() -> NDArray[np.uint8]:
    linear = np.arange(65536, dtype=np.int32).astype(np.uint16).view(np.int16).astype(np.int32) >> 3
    positive = linear >= 0
    magnitude = np.where(positive, linear, -linear - 1)
    segment = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int32) - 4, 0)
    mantissa = (magnitude >> np.maximum(segment, 1)) & 0x0F
    return (((segment << 4) | mantissa) ^ np.where(positive, 0xD5, 0x55)).astype(np.uint8)


ULAW_TO_LINEAR = _ulaw_decode_table()
ALAW_TO_LINEAR = _alaw_decode_table()
_LINEAR_TO_ULAW = _ulaw_encode_table()
_LINEAR_TO_ALAW = _alaw_encode_table()


def encode_ulaw(samples: Samples) -> bytes:
    """Compand 16-bit samples to μ-law, one byte a sample."""
    return _LINEAR_TO_ULAW[samples.view(np.uint16)].tobytes()


def encode_alaw(samples: Samples) -> bytes:
    """Compand 16-bit samples to A-law, one byte a sample."""
    return _LINEAR_TO_ALAW[samples.view(np.uint16)].tobytes()


def decode(audio: bytes, encoding: str) -> Samples:
    """
    Return the 16-bit samples of ``audio`` in ``pcmu``, ``pcma`` or ``pcm16`` (little-endian).

    An odd last byte of ``pcm16`` is half a sample and is left out.
    """
    match encoding:
        case "pcmu":
            return ULAW_TO_LINEAR[np.frombuffer(audio, dtype=np.uint8)]
        case "pcma":
            return ALAW_TO_LINEAR[np.frombuffer(audio, dtype=np.uint8)]
        case _:
            return np.frombuffer(audio, dtype="<i2", count=len(audio) // 2)


def encode(samples: Samples, encoding: str) -> bytes:
    """Return ``samples`` in ``pcmu``, ``pcma`` or ``pcm16``."""
    match encoding:
        case "pcmu":
            return encode_ulaw(samples)
        case "pcma":
            return encode_alaw(samples)
        case _:
            return samples.astype("<i2").tobytes()
