"""The live resampler: exact counts, little delay, no aliases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.media.resample import Resampler

RATES = [(8000, 16000), (8000, 24000), (16000, 8000), (24000, 8000), (16000, 24000), (24000, 16000)]
AMPLITUDE = 16000


def tone(frequency: float, rate: int, *, seconds: float = 0.5) -> np.ndarray:
    time = np.arange(int(rate * seconds)) / rate
    return (AMPLITUDE * np.sin(2 * np.pi * frequency * time)).astype(np.int16)


def in_frames(source: int, target: int, samples: np.ndarray) -> np.ndarray:
    resampler = Resampler(source, target)
    frames = np.split(samples, len(samples) // (source // 50))
    converted = [resampler.process(frame) for frame in frames]
    assert {len(frame) for frame in converted} == {target // 50}
    return np.concatenate(converted).astype(float)


def gain_db(signal: np.ndarray, frequency: float, rate: int) -> tuple[float, float]:
    """The level of a tone in a signal and of all else, against the tone that went in."""
    signal = signal[rate // 10 :]
    phase = np.exp(-2j * np.pi * frequency * np.arange(len(signal)) / rate)
    part = 2 / len(signal) * np.sum(signal * phase)
    rest = signal - np.real(part * np.conj(phase))
    return 20 * np.log10(abs(part) / AMPLITUDE), 20 * np.log10(np.std(rest) / (AMPLITUDE / np.sqrt(2)))


@pytest.mark.parametrize(("source", "target"), RATES)
@pytest.mark.parametrize("frequency", [300, 1000, 2000, 3000])
def test_speech_passes_with_64_db_of_quiet_around_it(source, target, frequency) -> None:
    level, rest = gain_db(in_frames(source, target, tone(frequency, source)), frequency, target)
    assert level == pytest.approx(0, abs=0.5)
    assert rest < -64


@pytest.mark.parametrize(("source", "target"), RATES)
def test_speech_keeps_its_brightness_up_to_the_end_of_the_telephone_band(source, target) -> None:
    level, _ = gain_db(in_frames(source, target, tone(3400, source)), 3400, target)
    assert level == pytest.approx(0, abs=0.5)


@pytest.mark.report("BR-057")
@pytest.mark.parametrize(
    ("source", "frequency"), [(24000, 5000), (24000, 9000), (16000, 5000), (16000, 7000)]
)
def test_what_the_telephone_cannot_carry_is_taken_out_and_does_not_come_back_as_a_hiss(
    source, frequency
) -> None:
    converted = in_frames(source, 8000, tone(frequency, source))
    left = np.std(converted[800:]) / (AMPLITUDE / np.sqrt(2))
    assert 20 * np.log10(left) < -64
    level, _ = gain_db(in_frames(source, 8000, tone(1000, source)), 1000, 8000)
    assert abs(level) < 1


@pytest.mark.parametrize(("source", "target"), RATES)
def test_the_delay_is_a_millisecond_and_a_half(source, target) -> None:
    click = np.zeros(source // 10, np.int16)
    click[100] = 30000
    peak = int(np.argmax(Resampler(source, target).process(click)))
    assert 0.5 <= peak / target * 1000 - 100 / source * 1000 <= 1.6


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(RATES), st.lists(st.integers(0, 500), min_size=1, max_size=12), st.integers(0, 2**32 - 1)
)
def test_the_cuts_between_calls_cannot_be_heard(rates, lengths, seed) -> None:
    source, target = rates
    samples = np.random.default_rng(seed).integers(-20000, 20000, sum(lengths)).astype(np.int16)
    whole = Resampler(source, target).process(samples)
    resampler, pieces, position = Resampler(source, target), [], 0
    for length in lengths:
        pieces.append(resampler.process(samples[position : position + length]))
        position += length
        produced = sum(map(len, pieces))
        assert produced == -(-position * target // source)
    assert np.abs(np.concatenate(pieces).astype(int) - whole.astype(int)).max(initial=0) <= 1


def test_what_is_too_loud_is_clipped_and_does_not_wrap() -> None:
    square = np.tile(np.repeat(np.array([32767, -32768], np.int16), 20), 20)
    converted = Resampler(8000, 24000).process(square).astype(int)
    plateau = converted[1200:1260]
    assert converted.max() == 32767
    assert converted.min() == -32768
    assert (np.abs(plateau) > 20000).mean() > 0.7


def test_a_constant_passes_unchanged() -> None:
    for source, target in RATES:
        converted = Resampler(source, target).process(np.full(source // 10, 1000, np.int16))
        assert set(converted[target // 50 :].tolist()) == {1000}
