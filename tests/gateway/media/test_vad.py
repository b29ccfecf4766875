"""Voice activity by energy."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.media.g711 import encode
from gateway.media.vad import EnergyVad, SpeechStarted, SpeechStopped
from providers.types import PCM16_16K, PCMU


def noise(milliseconds: int, level: float, *, rate: int = 8000, seed: int = 1) -> np.ndarray:
    samples = np.random.default_rng(seed).normal(0, level, milliseconds * rate // 1000)
    return samples.clip(-32768, 32767).astype(np.int16)


def events_of(samples: np.ndarray, *, frame_ms: int = 20, audio_format=PCMU, **options) -> list:
    vad = EnergyVad(audio_format, **options)
    pcm = audio_format.encoding == "pcm16"
    audio = samples.tobytes() if pcm else encode(audio_format.encoding, samples)
    size = frame_ms * audio_format.bytes_per_ms
    found = [vad.feed(audio[start : start + size]) for start in range(0, len(audio), size)]
    return [event for event in found if event is not None]


@pytest.mark.parametrize("frame_ms", [10, 20, 30, 60])
def test_a_word_between_silences_has_a_beginning_and_an_end(frame_ms) -> None:
    samples = np.concatenate([noise(600, 5), noise(600, 3000), noise(600, 5)])
    started, stopped = events_of(samples, frame_ms=frame_ms)
    assert isinstance(started, SpeechStarted)
    assert started.at_ms == pytest.approx(600, abs=frame_ms)
    assert isinstance(stopped, SpeechStopped)
    assert stopped.at_ms == pytest.approx(1200, abs=frame_ms)


def test_a_click_is_no_speech_and_a_short_breath_ends_none() -> None:
    click = np.concatenate([noise(500, 5), noise(40, 9000), noise(500, 5)])
    assert events_of(click) == []
    breath = np.concatenate([noise(500, 5), noise(500, 3000), noise(200, 5), noise(500, 3000), noise(500, 5)])
    started, stopped = events_of(breath)
    assert (started.at_ms, stopped.at_ms) == (500, 1700)


def test_a_loud_background_is_learnt_and_speech_above_it_is_found() -> None:
    background = noise(20_000, 400)
    loud = np.concatenate([background, noise(600, 6000), noise(2000, 400, seed=2)])
    events = events_of(loud)
    assert [type(event) for event in events[-2:]] == [SpeechStarted, SpeechStopped]
    assert events[-2].at_ms == pytest.approx(20_000, abs=20)
    assert events[-1].at_ms == pytest.approx(20_600, abs=20)


def test_thresholds_can_be_set_and_formats_differ_in_nothing() -> None:
    samples = np.concatenate(
        [noise(600, 5, rate=16000), noise(600, 100, rate=16000), noise(600, 5, rate=16000)]
    )
    assert events_of(samples, audio_format=PCM16_16K) == []
    found = events_of(samples, audio_format=PCM16_16K, floor=50, hang_ms=100, attack_ms=20)
    assert [event.at_ms for event in found] == [600, 1200]


def test_the_end_is_known_after_the_pause_only() -> None:
    vad = EnergyVad(PCMU, hang_ms=300)
    loud, quiet = encode("pcmu", noise(20, 3000)), b"\xff" * 160
    for _ in range(10):
        vad.feed(loud)
    assert vad.speaking
    assert [vad.feed(quiet) for _ in range(14)] == [None] * 14
    assert vad.feed(quiet) == SpeechStopped(200)
    assert not vad.speaking
    assert vad.position_ms == 500
