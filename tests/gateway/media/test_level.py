import numpy as np
import pytest

from gateway.media import g711
from gateway.media.level import QUIET, ear
from providers.types import PCM16_16K, PCMA, PCMU, AudioFormat
from tests.kit import sound

FORMATS = [PCMU, PCMA, PCM16_16K]


def encoded(samples: np.ndarray, audio_format: AudioFormat) -> bytes:
    samples = samples.astype(np.int16)
    return (
        samples.tobytes() if audio_format.encoding == "pcm16" else g711.encode(audio_format.encoding, samples)
    )


@pytest.mark.parametrize("audio_format", FORMATS)
def test_speech_is_heard_at_the_level_of_a_quiet_caller(audio_format):
    speech = sound.utterance(7, 2.0, level=0.05)
    frames = [speech[at : at + 160] for at in range(0, len(speech), 160)]
    hears = ear(audio_format)
    audible = [hears(encoded(frame, audio_format)) for frame in frames]
    assert sum(audible) > 0.9 * len(frames)


@pytest.mark.parametrize("audio_format", FORMATS)
@pytest.mark.parametrize("level", [0, 4, 24, 60])
def test_near_silence_is_not_heard(audio_format, level):
    noise = np.random.default_rng(5).integers(-level, level + 1, 160)
    assert not ear(audio_format)(encoded(noise, audio_format))


@pytest.mark.parametrize("audio_format", FORMATS)
def test_a_single_click_is_not_heard(audio_format):
    samples = np.zeros(160)
    samples[40:44] = 20_000
    assert not ear(audio_format)(encoded(samples, audio_format))


@pytest.mark.parametrize("audio_format", FORMATS)
def test_a_tone_just_above_the_limit_is_heard(audio_format):
    wave = np.sin(np.arange(160) * 2 * np.pi * 440 / 8000) * QUIET * 1.5
    assert ear(audio_format)(encoded(wave, audio_format))


@pytest.mark.parametrize("audio_format", FORMATS)
def test_nothing_and_half_a_sample_are_silence(audio_format):
    assert not ear(audio_format)(b"")
    assert not ear(PCM16_16K)(b"\x00")
