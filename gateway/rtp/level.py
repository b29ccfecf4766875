"""Whether a piece of G.711 is so quiet that nobody misses it (ITU-T G.711, without decoding it)."""

from __future__ import annotations

_QUIET = 250
"""Magnitude of 32,767: -42 dB, above the noise of a line and below any voice."""
_LOUD_SAMPLES = 1 / 40
"""So many louder samples are still no voice."""


def _pcmu(code: int) -> int:
    code = ~code
    return (((code & 0x0F) << 3) + 132 << (code >> 4 & 7)) - 132


def _pcma(code: int) -> int:
    code ^= 0x55
    segment = code >> 4 & 7
    step = (code & 0x0F) << 4
    return step + 8 if segment == 0 else step + 0x108 << segment - 1


QUIET_CODES = {
    0: bytes(code for code in range(256) if _pcmu(code) < _QUIET),
    8: bytes(code for code in range(256) if _pcma(code) < _QUIET),
}
"""By static payload type (RFC 3551), the bytes of quiet samples."""


def is_quiet(payload: bytes, quiet_codes: bytes) -> bool:
    """Tell whether hardly a sample is louder than the noise of a line."""
    return len(payload.translate(None, quiet_codes)) <= len(payload) * _LOUD_SAMPLES
