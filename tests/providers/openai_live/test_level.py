"""How loud a piece of audio is, whatever its format."""

import numpy as np
import pytest

from providers.fakes.g711 import encode
from providers.openai_live.level import power_at, power_meter, sound_detector
from providers.types import PCM16_16K, PCMA, PCMU


@pytest.mark.parametrize("fmt", [PCMU, PCMA, PCM16_16K], ids=["pcmu", "pcma", "pcm16"])
@pytest.mark.parametrize("dbfs", [-10.0, -25.0, -40.0])
def test_the_level_is_the_same_in_every_format(fmt, dbfs):
    amplitude = 32768 * 10 ** (dbfs / 20) * np.sqrt(2)
    tone = np.sin(np.arange(fmt.rate // 5) * 2 * np.pi * 400 / fmt.rate) * amplitude
    measured = power_meter(fmt)(encode(tone.astype(np.int16), fmt.encoding))
    assert 10 * np.log10(measured / power_at(dbfs)) == pytest.approx(0, abs=1.0)


@pytest.mark.parametrize("fmt", [PCMU, PCMA, PCM16_16K], ids=["pcmu", "pcma", "pcm16"])
def test_silence_and_nothing_have_hardly_any_power(fmt):
    assert power_meter(fmt)(b"") == 0.0
    assert power_meter(fmt)(encode(np.zeros(160, np.int16), fmt.encoding)) <= power_at(-70.0)


@pytest.mark.parametrize("fmt", [PCMU, PCMA, PCM16_16K], ids=["pcmu", "pcma", "pcm16"])
def test_the_quietest_speech_is_sound_and_the_noise_of_a_codec_is_not(fmt):
    is_sound = sound_detector(fmt)
    random = np.random.default_rng(1)

    def piece(dbfs: float) -> bytes:
        samples = random.normal(0, 32768 * 10 ** (dbfs / 20), fmt.rate // 25)
        return encode(samples.astype(np.int16), fmt.encoding)

    assert all(is_sound(piece(-50.0)) for _ in range(50))
    assert not any(is_sound(piece(-62.0)) for _ in range(50))
    assert not is_sound(encode(np.zeros(800, np.int16), fmt.encoding))


def test_a_click_alone_is_no_sound():
    samples = np.zeros(640, np.int16)
    samples[100:105] = 20_000
    assert not sound_detector(PCMU)(encode(samples, "pcmu"))
