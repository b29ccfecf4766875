"""
G.711: logarithmic 8-bit samples at 8000 Hz and their 16-bit values (ITU-T G.711), by numpy tables.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Law: TypeAlias = Literal["pcmu", "pcma"]
Samples: TypeAlias = NDArray[np.int16]

_BIAS = 132
_CLIP = 32635


def _decode_pcmu() -> Samples:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = (((code & 0x0F) << 3) + _BIAS << (code >> 4 & 7)) - _BIAS
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _decode_pcma() -> Samples:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment = code >> 4 & 7
    step = (code & 0x0F) << 4
    magnitude = np.where(segment == 0, step + 8, step + 0x108 << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _encode_pcmu() -> NDArray[np.uint8]:
    value = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int32)
    magnitude = np.minimum(np.abs(value), _CLIP) + _BIAS
    exponent = np.floor(np.log2(magnitude)).astype(np.int32) - 7
    code = np.where(value < 0, 0x80, 0) | exponent << 4 | (magnitude >> exponent + 3 & 0x0F)
    table: NDArray[np.uint8] = (~code & 0xFF).astype(np.uint8)
    return table


def _encode_pcma() -> NDArray[np.uint8]:
    value = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int32)
    positive = value >= 0
    magnitude = np.where(positive, value, -value - 1) >> 3  # 12 bits and a sign
    segment = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int32) - 4, 0)
    code = segment << 4 | (magnitude >> np.maximum(segment, 1) & 0x0F)
    table: NDArray[np.uint8] = (code ^ np.where(positive, 0xD5, 0x55)).astype(np.uint8)
    return table


_DECODE: dict[Law, Samples] = {"pcmu": _decode_pcmu(), "pcma": _decode_pcma()}
_ENCODE: dict[Law, NDArray[np.uint8]] = {"pcmu": _encode_pcmu(), "pcma": _encode_pcma()}

PCMU_TO_PCMA = _ENCODE["pcma"][_DECODE["pcmu"].view(np.uint16)].tobytes()
"""For :meth:`bytes.translate`."""
PCMA_TO_PCMU = _ENCODE["pcmu"][_DECODE["pcma"].view(np.uint16)].tobytes()


def decode(law: Law, audio: bytes) -> Samples:
    """Turn G.711 bytes into 16-bit samples, one for each byte."""
    return _DECODE[law][np.frombuffer(audio, np.uint8)]


def encode(law: Law, samples: Samples) -> bytes:
    """Turn 16-bit samples into G.711, one byte for each."""
    return _ENCODE[law][samples.view(np.uint16)].tobytes()
