"""
From one audio format to another, once and only where they differ.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gateway.media import g711
from gateway.media.g711 import PCMA_TO_PCMU, PCMU_TO_PCMA, Law, Samples
from gateway.media.resample import Resampler, delay
from providers.types import AudioFormat


class Converter(Protocol):
    """One direction of one stream; it has a memory, so it serves no second stream."""

    def convert(self, audio: bytes) -> bytes:
        """Convert the next piece of the stream, of any length."""
        ...


def converter(source: AudioFormat, target: AudioFormat) -> Converter:
    """
    Make a converter between two formats.

    Equal formats pass the very same object through; mu-law and A-law are exchanged byte by byte; everything
    else is decoded, resampled without delay beyond the filter's own, and encoded.
    """
    match source.encoding, target.encoding:
        case _ if source == target:
            return _Identity()
        case ("pcmu", "pcma"):
            return _Translation(PCMU_TO_PCMA)
        case ("pcma", "pcmu"):
            return _Translation(PCMA_TO_PCMU)
        case _:
            return _Transcoder(source, target)


class Utterances:
    """
    Converts one utterance after the other, each to exactly its own length.

    A filter is a millisecond late: at the end of a stream it still holds the end of the last word. What it is
    late with is left out at the beginning and fetched at the end, and no word's end is heard before the next.
    """

    def __init__(self, source: AudioFormat, target: AudioFormat) -> None:
        self._source = source
        self._target = target
        self._behind, self._ahead = 0, 0
        if source.rate != target.rate:
            samples_in, samples_out = delay(source.rate, target.rate)
            self._behind = samples_in * source.bytes_per_ms * 1000 // source.rate
            self._ahead = samples_out * target.bytes_per_ms * 1000 // target.rate
        self._begin()

    def _begin(self) -> None:
        self._stream = converter(self._source, self._target)
        self._skip = self._ahead
        self._begun = False

    def convert(self, audio: bytes) -> bytes:
        """Convert the next piece of the utterance."""
        self._begun = True
        converted = self._stream.convert(audio)
        if self._skip:
            skip, self._skip = self._skip, max(0, self._skip - len(converted))
            return converted[skip:]
        return converted

    def finish(self) -> bytes:
        """Return what is left of the utterance; the next piece begins another."""
        rest = b""
        if self._begun and self._ahead:
            rest = self.convert(_silence(self._source, self._behind))[: self._ahead]
        self._begin()
        return rest


def _silence(audio_format: AudioFormat, size: int) -> bytes:
    if audio_format.encoding == "pcm16":
        return bytes(size)
    return g711.encode(audio_format.encoding, np.zeros(size, np.int16))


class _Identity:
    def convert(self, audio: bytes) -> bytes:
        return audio


class _Translation:
    def __init__(self, table: bytes) -> None:
        self._table = table

    def convert(self, audio: bytes) -> bytes:
        return audio.translate(self._table)


class _Transcoder:
    def __init__(self, source: AudioFormat, target: AudioFormat) -> None:
        self._source: Law | None = None if source.encoding == "pcm16" else source.encoding
        self._target: Law | None = None if target.encoding == "pcm16" else target.encoding
        same_rate = source.rate == target.rate
        self._resampler = None if same_rate else Resampler(source.rate, target.rate)
        self._carry = b""

    def convert(self, audio: bytes) -> bytes:
        samples = self._samples(audio) if self._source is None else g711.decode(self._source, audio)
        if self._resampler is not None:
            samples = self._resampler.process(samples)
        return samples.tobytes() if self._target is None else g711.encode(self._target, samples)

    def _samples(self, audio: bytes) -> Samples:
        """Read PCM; half a sample waits for the next piece."""
        if self._carry:
            audio, self._carry = self._carry + audio, b""
        if len(audio) & 1:
            audio, self._carry = audio[:-1], audio[-1:]
        return np.frombuffer(audio, np.int16)
