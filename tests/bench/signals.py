"""
The caller's test signal: band-limited noise, in mu-law at 8 kHz.

The level moves like speech but never reaches silence, so that every detector hears one utterance; the noise
never repeats within the loop.
"""

from __future__ import annotations

import functools

import numpy as np

FRAME = 160
"""Samples, which are mu-law bytes, in 20 ms at 8 kHz."""
FRAME_S = 0.020
SIGNAL_S = 16
SIGNAL_FRAMES = SIGNAL_S * 50
SILENCE = b"\xff" * FRAME


def ulaw(pcm: np.ndarray) -> bytes:
    """Encode samples as ITU-T G.711 mu-law."""
    sign = np.where(pcm < 0, 0x80, 0)
    biased = np.minimum(np.abs(pcm.astype(np.int32)), 32635) + 0x84
    exponent = np.floor(np.log2(biased)).astype(np.int32) - 7
    mantissa = (biased >> (exponent + 3)) & 0x0F
    return (~(sign | (exponent << 4) | mantissa) & 0xFF).astype(np.uint8).tobytes()


@functools.cache
def caller_signal() -> bytes:
    """Return the whole loop; it has no audible seam."""
    rng = np.random.default_rng(20240229)
    samples = SIGNAL_S * 8000
    freqs = np.fft.rfftfreq(samples, 1 / 8000)
    spectrum = ((freqs > 300) & (freqs < 2500)) * np.exp(2j * np.pi * rng.random(freqs.size))
    noise = np.fft.irfft(spectrum, samples)
    level = 0.6 + 0.4 * np.sin(2 * np.pi * 3.0 * np.arange(samples) / 8000)
    return ulaw(np.clip(noise / noise.std() * 3000 * level, -32000, 32000))


def frames() -> list[bytes]:
    """Return the loop in 20 ms frames, and silence as the last one, so that index -1 is silence."""
    signal = caller_signal()
    return [signal[at : at + FRAME] for at in range(0, len(signal), FRAME)] + [SILENCE]
