"""Loudness."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.media.g711 import encode
from gateway.media.levels import SILENCE_DBFS, dbfs, rms
from providers.types import PCM16_16K, PCMA, PCMU


@pytest.mark.parametrize("audio_format", [PCMU, PCMA, PCM16_16K])
def test_a_tone_has_its_level_in_every_format(audio_format) -> None:
    samples = (10000 * np.sin(np.arange(1600) * 0.2)).astype(np.int16)
    encoding = audio_format.encoding
    audio = samples.tobytes() if encoding == "pcm16" else encode(encoding, samples)
    assert rms(audio_format, audio) == pytest.approx(10000 / 2**0.5, rel=0.02)


@pytest.mark.parametrize(
    ("audio_format", "silence"), [(PCMU, b"\xff"), (PCMA, b"\xd5"), (PCM16_16K, b"\0\0")]
)
def test_silence_and_nothing_are_silent(audio_format, silence) -> None:
    assert rms(audio_format, silence * 160) <= 8
    assert rms(audio_format, b"") == 0
    assert rms(PCM16_16K, b"\x01") == 0


def test_the_loudest_square_wave_is_0_dbfs() -> None:
    assert dbfs(32768) == 0
    assert dbfs(3276.8) == pytest.approx(-20)
    assert dbfs(0) == dbfs(0.5) == SILENCE_DBFS
