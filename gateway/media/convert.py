"""From one wire format to another, once for each direction of a call, and not at all where they agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from gateway.media.g711 import PCMA_TO_PCMU, PCMU_TO_PCMA, decode, encode
from providers.types import AudioFormat


class Converter(Protocol):
    """Converts a stream piece by piece; keeps what it needs of the piece before."""

    def convert(self, audio: bytes) -> bytes: ...


class _Each:
    """A conversion without memory."""

    def __init__(self, convert: Callable[[bytes], bytes]) -> None:
        self._convert = convert

    def convert(self, audio: bytes) -> bytes:
        return self._convert(audio)


def converter(source: AudioFormat, target: AudioFormat) -> Converter:
    """Make a converter; the same format hands the same object through."""
    if source == target:
        return _Each(lambda audio: audio)
    if source.rate != target.rate:
        raise ValueError(f"no conversion from {source} to {target}")
    match source.encoding, target.encoding:
        case "pcmu", "pcma":
            return _Each(lambda audio: audio.translate(PCMU_TO_PCMA))
        case "pcma", "pcmu":
            return _Each(lambda audio: audio.translate(PCMA_TO_PCMU))
        case "pcm16", ("pcmu" | "pcma") as law:
            return _Each(lambda audio: encode(law, np.frombuffer(audio, "<i2").astype(np.int16)))
        case ("pcmu" | "pcma") as law, _:
            return _Each(lambda audio: decode(law, audio).astype("<i2").tobytes())
        case _:
            raise ValueError(f"no conversion from {source} to {target}")
