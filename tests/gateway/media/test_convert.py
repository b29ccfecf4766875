"""One format to another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.media.convert import Utterances, converter
from gateway.media.g711 import decode, encode
from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU, AudioFormat

PCM16_8K = AudioFormat("pcm16", 8000)
FORMATS = [PCMU, PCMA, PCM16_8K, PCM16_16K, PCM16_24K]


def tone(rate: int, seconds: float = 0.2) -> np.ndarray:
    return (10000 * np.sin(2 * np.pi * 700 * np.arange(int(rate * seconds)) / rate)).astype(np.int16)


def written(audio_format: AudioFormat, samples: np.ndarray) -> bytes:
    return samples.tobytes() if audio_format.encoding == "pcm16" else encode(audio_format.encoding, samples)


def read(audio_format: AudioFormat, audio: bytes) -> np.ndarray:
    if audio_format.encoding == "pcm16":
        return np.frombuffer(audio, np.int16)
    return decode(audio_format.encoding, audio)


@pytest.mark.parametrize("audio_format", FORMATS)
def test_equal_formats_pass_the_same_object_through(audio_format) -> None:
    audio = bytes(320)
    assert converter(audio_format, audio_format).convert(audio) is audio


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_a_tone_survives_every_pair_of_formats(source, target) -> None:
    audio = written(source, tone(source.rate))
    stream = converter(source, target)
    size = 20 * source.bytes_per_ms
    pieces = [stream.convert(audio[start : start + size]) for start in range(0, len(audio), size)]
    assert {len(piece) for piece in pieces} == {20 * target.bytes_per_ms}
    heard = read(target, b"".join(pieces)).astype(float)
    skip = target.rate // 100
    delays = range(target.rate // 500 + 1)
    wanted = tone(target.rate).astype(float)
    errors = [np.std(heard[skip:] - np.roll(wanted, delay)[skip:]) for delay in delays]
    assert 20 * np.log10(10000 / np.sqrt(2) / max(min(errors), 0.1)) > 30


def test_the_laws_are_exchanged_byte_by_byte() -> None:
    assert converter(PCMU, PCMA).convert(b"\xff\x80") == b"\xd5\xaa"
    assert converter(PCMA, PCMU).convert(b"\xd5\xaa") == b"\xfe\x80"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=12), st.sampled_from([PCMU, PCMA, PCM16_16K]))
def test_half_a_sample_waits_for_its_other_half(pieces, target) -> None:
    whole = b"".join(pieces)
    expected = converter(PCM16_8K, target).convert(whole[: len(whole) & ~1])
    stream = converter(PCM16_8K, target)
    assert b"".join(stream.convert(piece) for piece in pieces) == expected


def test_no_audio_is_no_audio() -> None:
    for source in FORMATS:
        for target in FORMATS:
            assert converter(source, target).convert(b"") == b""


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_an_utterance_keeps_its_length_and_its_last_sample(source, target) -> None:
    """It may be cut off in the middle of a vowel; and nothing of one is in the next."""
    voice = Utterances(source, target)
    for seconds in (0.2, 0.1):
        audio = written(source, tone(source.rate, seconds))
        size = 20 * source.bytes_per_ms
        pieces = [voice.convert(audio[start : start + size]) for start in range(0, len(audio), size)]
        heard = b"".join(pieces) + voice.finish()
        assert len(heard) == seconds * 1000 * target.bytes_per_ms
        wanted = tone(target.rate, seconds).astype(float)
        error = read(target, heard).astype(float) - wanted
        middle = slice(target.rate // 500, -target.rate // 500)
        assert np.std(error[middle]) < 300
        last = slice(-target.rate // 500, None)
        assert np.std(error[last]) < 0.4 * np.std(wanted[last])


def test_an_utterance_that_never_began_has_no_rest() -> None:
    assert Utterances(PCM16_24K, PCMU).finish() == b""
