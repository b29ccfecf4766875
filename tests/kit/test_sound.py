from __future__ import annotations

import numpy as np
import pytest

from tests.kit import sound


def test_ulaw_codes_of_the_recommendation():
    """G.711 table 2a: the largest values, the smallest ones, and silence."""
    assert sound.decode(b"\x00\x80\xff\x7f\xfe\x7e\xf0").tolist() == [-32124, 32124, 0, 0, 8, -8, 120]


def test_alaw_codes_of_the_recommendation():
    """G.711 table 1a with the even bits inverted."""
    assert sound.decode(b"\xd5\x55\xaa\x2a\xd4\x80", "PCMA").tolist() == [8, -8, 32256, -32256, 24, 5504]


@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
def test_every_code_but_negative_zero_comes_back(codec):
    codes = bytes(code for code in range(256) if (codec, code) != ("PCMU", 0x7F))
    back = sound.encode(sound.decode(codes, codec), codec)
    assert sound.decode(back, codec).tolist() == sound.decode(codes, codec).tolist()


@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
def test_speech_keeps_its_shape(codec):
    pcm = sound.utterance(1, 0.5)
    error = sound.decode(sound.encode(pcm, codec), codec).astype(float) - pcm
    assert 10 * np.log10(np.sum(pcm.astype(float) ** 2) / np.sum(error**2)) > 35


def test_utterances_of_two_seeds_are_not_alike():
    one, other = (sound.utterance(seed, 1).astype(float) for seed in (1, 2))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.2


def test_files_of_higher_rates_are_read_as_8_khz(tmp_path):
    import soundfile

    pcm = sound.tone(440, 0.2)
    soundfile.write(tmp_path / "a.flac", np.repeat(pcm, 3), 24000)
    assert sound.read(tmp_path / "a.flac").tolist() == pcm.tolist()
