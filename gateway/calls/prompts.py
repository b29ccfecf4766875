"""Recorded prompts: what a caller hears when no model can speak."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import soundfile

from gateway.media.convert import Utterances
from providers.types import PCM16_16K, PCM16_24K, AudioFormat


class PromptError(Exception):
    """A recording that cannot be read."""


class Prompts:
    """Reads each recording once for each line format, in a thread."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[Path, AudioFormat], bytes] = {}

    async def load(self, path: Path, line: AudioFormat) -> bytes:
        """Return a recording in the line's format; raises :exc:`PromptError`."""
        key = (path, line)
        if key not in self._loaded:
            self._loaded[key] = await asyncio.to_thread(read_prompt, path, line)
        return self._loaded[key]


def read_prompt(path: Path, line: AudioFormat) -> bytes:
    """Read a mono or stereo file of 8, 16 or 24 kHz."""
    try:
        samples, rate = soundfile.read(path, dtype="int16", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise PromptError(f"{path}: cannot be read as audio: {error}") from error
    formats = {8000: AudioFormat("pcm16", 8000), 16000: PCM16_16K, 24000: PCM16_24K}
    if rate not in formats:
        raise PromptError(f"{path}: {rate} Hz; write a file of 8000, 16000 or 24000 Hz")
    mono = samples[:, 0].astype(np.int16) if samples.shape[1] == 1 else samples.mean(axis=1).astype(np.int16)
    whole = Utterances(formats[rate], line)
    return whole.convert(mono.astype("<i2").tobytes()) + whole.finish()
