"""
Test audio as numpy ``int16`` at 8 kHz, and G.711 by its formulas.

Written from ITU-T G.711 alone, with nothing of the gateway's, so that a mistake there cannot hide here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

Pcm = NDArray[np.int16]
RATE = 8000
FRAME = 160
"""Samples in 20 ms."""


def _ulaw_table() -> Pcm:
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    magnitude = (((mantissa << 3) + 0x84) << exponent) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw_table() -> Pcm:
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    magnitude = np.where(
        exponent, ((mantissa << 4) + 0x108) << np.maximum(exponent, 1) - 1, (mantissa << 4) + 8
    )
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


TABLES = {"PCMU": _ulaw_table(), "PCMA": _alaw_table()}


def _encoder(table: Pcm) -> NDArray[np.uint8]:
    """Return the nearest code for each of the 65536 samples."""
    order = np.argsort(table, kind="stable")
    levels = table[order].astype(np.int32)
    edges = (levels[1:] + levels[:-1]) // 2
    samples = np.arange(-32768, 32768)
    return order[np.searchsorted(edges, samples, side="left")].astype(np.uint8)


ENCODERS = {name: _encoder(table) for name, table in TABLES.items()}


def encode(pcm: Pcm, codec: str = "PCMU") -> bytes:
    """Return one byte for each sample."""
    return ENCODERS[codec][pcm.astype(np.int32) + 32768].tobytes()


def decode(data: bytes, codec: str = "PCMU") -> Pcm:
    return TABLES[codec][np.frombuffer(data, np.uint8)]


def tone(hz: float, seconds: float, *, level: float = 0.3) -> Pcm:
    """Return a sine; ``level`` is relative to full scale."""
    at = np.arange(int(seconds * RATE)) / RATE
    return (np.sin(2 * np.pi * hz * at) * level * 32767).astype(np.int16)


def silence(seconds: float) -> Pcm:
    return np.zeros(int(seconds * RATE), np.int16)


def utterance(seed: int, seconds: float, *, level: float = 0.4) -> Pcm:
    """
    Return something like speech: a voice of its own pitch and colour in syllables of about a quarter second.

    No two seeds sound alike, and no part of one sounds like another part of it, so :mod:`tests.kit.hear` can
    tell where in a call it was.
    """
    random = np.random.default_rng(seed)
    count = int(seconds * RATE)
    syllables = max(2, int(seconds * 4) + 1)
    knots = np.linspace(0, count, syllables + 1)
    pitch = np.interp(np.arange(count), knots, random.uniform(90, 220, syllables + 1))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    voice = np.zeros(count)
    for harmonic in range(1, 12):
        colour = np.interp(np.arange(count), knots, random.uniform(0.05, 1, syllables + 1))
        voice += colour / harmonic * np.sin(harmonic * phase + random.uniform(0, 6.28))
    voice += 0.1 * random.standard_normal(count)
    beat = 0.35 + 0.65 * np.abs(np.sin(np.pi * np.arange(count) / (RATE / 4)))
    voice *= beat / np.max(np.abs(voice))
    return (voice * level * 32767).astype(np.int16)


def read(path: Path) -> Pcm:
    """Read any sound file as 8 kHz mono; 16 and 24 kHz are averaged down, which is enough to compare."""
    data, rate = soundfile.read(path, dtype="int16", always_2d=True)
    mono = data[:, 0]
    step = rate // RATE
    usable = len(mono) // step * step
    return mono[:usable].reshape(-1, step).mean(axis=1).astype(np.int16)


def write(path: Path, pcm: Pcm) -> Path:
    soundfile.write(path, pcm, RATE, subtype="PCM_16")
    return path
