"""
What the fakes say: recorded files and tones, in any format of a wire.

The recordings in ``audio/`` are 8 kHz mono FLAC made by ``audio/make.sh`` from ``audio/lines.txt``,
which also has their words. Encoded audio is cached: a thousand calls share one copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import soundfile

from providers.fakes.g711 import Samples, encode
from providers.types import AudioFormat

AUDIO_FOLDER = Path(__file__).parent / "audio"
RATE = 8000


class SpeechError(Exception):
    """A recording cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A sound file: mono, 8 kHz, any container that libsndfile reads."""

    path: Path


@dataclass(frozen=True, slots=True)
class Tone:
    """A sine at -12 dBFS, easy to find again in a capture."""

    hz: int
    ms: int


Sound: TypeAlias = Recording | Tone


def words_of(path: Path) -> str:
    """Return the words of a packaged recording, or nothing for a file of the user's own."""
    return _packaged_words().get(path.stem, "") if path.parent == AUDIO_FOLDER else ""


def check(sound: Sound) -> None:
    """Raise :exc:`SpeechError` when ``sound`` cannot be played."""
    _samples(sound)


@lru_cache(maxsize=256)
def render(sound: Sound, fmt: AudioFormat) -> bytes:
    """Return the whole of ``sound`` as bytes of ``fmt``; its rate is a multiple of 8 kHz."""
    return encode(_upsampled(_samples(sound), fmt.rate // RATE), fmt.encoding)


def silence(ms: int, fmt: AudioFormat) -> bytes:
    """Return ``ms`` of silence in ``fmt``."""
    return encode(np.zeros(fmt.rate // 1000 * ms, dtype=np.int16), fmt.encoding)


def hum(ms: int, amplitude: int, fmt: AudioFormat) -> bytes:
    """Return samples of this amplitude in turn of sign: with a small one nobody hears anything."""
    pairs = np.array([amplitude, -amplitude], dtype=np.int16)
    return encode(np.tile(pairs, fmt.rate // 2000 * ms), fmt.encoding)


@lru_cache(maxsize=256)
def _samples(sound: Sound) -> Samples:
    if isinstance(sound, Tone):
        phase = np.arange(RATE * sound.ms // 1000) * (2 * np.pi * sound.hz / RATE)
        return np.asarray(np.sin(phase) * 8192, dtype=np.int16)
    try:
        data, rate = soundfile.read(sound.path, dtype="int16", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise SpeechError(f"{sound.path} cannot be read: {error}") from error
    if rate != RATE or data.shape[1] != 1:
        raise SpeechError(
            f"{sound.path} has {rate} Hz and {data.shape[1]} channels; make it 8000 Hz mono: "
            f"sox {sound.path.name} -r 8000 -c 1 out.flac"
        )
    samples: Samples = np.ascontiguousarray(data[:, 0])
    return samples


def _upsampled(samples: Samples, factor: int) -> Samples:
    if factor == 1:
        return samples
    # Zero-stuffing, then a windowed sinc that ends where the images of the telephone band begin.
    reach = 16 * factor
    taps = np.sinc(np.arange(-reach, reach + 1) / factor) * np.hamming(2 * reach + 1)
    stuffed = np.zeros(len(samples) * factor)
    stuffed[::factor] = samples
    return np.asarray(np.clip(np.convolve(stuffed, taps, "same"), -32768, 32767), dtype=np.int16)


@lru_cache(maxsize=1)
def _packaged_words() -> dict[str, str]:
    lines = (AUDIO_FOLDER / "lines.txt").read_text(encoding="utf-8").splitlines()
    cells = [line.split("|", 2) for line in lines if line.count("|") == 2 and not line.startswith("#")]
    return {name.strip(): words.strip() for name, _voice, words in cells}
