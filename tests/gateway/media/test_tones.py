"""Ring-back and waiting tones."""

import numpy as np
import pytest

from gateway.media import g711
from gateway.media.tones import BRITAIN, EUROPE, NORTH_AMERICA, WAITING, ringback, tone
from providers.types import PCM16_16K, PCMA, PCMU


@pytest.mark.parametrize(
    ("number", "cadence"),
    [
        ("+12125551234", NORTH_AMERICA),
        ("+442071234567", BRITAIN),
        ("+4930123", EUROPE),
        ("sip:night@pbx.example.com", EUROPE),
        ("4711", EUROPE),
    ],
)
def test_the_ringing_is_that_of_the_country(number, cadence):
    assert ringback(number) == cadence


@pytest.mark.parametrize("line", [PCMU, PCMA])
@pytest.mark.parametrize("cadence", [EUROPE, NORTH_AMERICA, BRITAIN, WAITING])
def test_a_period_sounds_as_long_as_it_should_at_its_frequencies(cadence, line):
    samples = g711.decode(line.encoding, tone(cadence, line)).astype(float)
    assert len(samples) == round(sum(on + off for on, off in cadence.pattern) * 8000)
    loud = samples[: int(cadence.pattern[0][0] * 8000)]
    spectrum = np.abs(np.fft.rfft(loud * np.hanning(len(loud))))
    strongest = np.argsort(spectrum)[-1] * 8000 / len(loud)

    assert min(abs(strongest - hertz) for hertz in cadence.hertz) < 8
    assert 1000 < np.sqrt(np.mean(loud**2)) < 3000
    assert abs(samples[-800:]).max() < 20


def test_a_tone_comes_in_any_format_of_a_line():
    assert len(tone(EUROPE, PCM16_16K)) == 5 * 16000 * 2
