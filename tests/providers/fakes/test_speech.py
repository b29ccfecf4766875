"""Recordings and tones in the formats of a wire."""

import numpy as np
import pytest
import soundfile

from providers.fakes.g711 import decode
from providers.fakes.speech import (
    AUDIO_FOLDER,
    Recording,
    SpeechError,
    Tone,
    check,
    render,
    silence,
    words_of,
)
from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU, AudioFormat

RECORDINGS = sorted(AUDIO_FOLDER.glob("*.flac"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_each_recording_is_8_khz_mono_and_has_words(path):
    check(Recording(path))
    info = soundfile.info(path)
    assert (info.samplerate, info.channels, info.subtype) == (8000, 1, "PCM_16")
    assert words_of(path).endswith((".", "?"))


def test_the_recordings_are_small():
    assert len(RECORDINGS) >= 15
    assert sum(path.stat().st_size for path in RECORDINGS) < 1_000_000


def test_a_file_of_the_user_has_no_words(tmp_path):
    assert words_of(tmp_path / "greeting.flac") == ""


@pytest.mark.parametrize("fmt", [PCMU, PCMA, PCM16_16K, PCM16_24K], ids=str)
def test_a_recording_is_as_long_in_every_format(fmt):
    frames = soundfile.info(AUDIO_FOLDER / "okay.flac").frames
    assert len(render(Recording(AUDIO_FOLDER / "okay.flac"), fmt)) == frames * fmt.bytes_per_ms // 8


@pytest.mark.parametrize("rate", [16000, 24000])
def test_a_higher_rate_has_the_same_tone_and_no_images(rate):
    samples = decode(render(Tone(1000, 1000), AudioFormat("pcm16", rate)), "pcm16").astype(float)
    spectrum = np.abs(np.fft.rfft(samples[rate // 4 : rate // 4 + rate // 2])) * 2 / (rate // 2)
    peak = int(np.argmax(spectrum)) * 2
    assert peak == 1000
    assert spectrum[500] == pytest.approx(8192, rel=0.02)
    assert spectrum[2000:].max() < spectrum[500] / 1000  # from 4 kHz on: -60 dB


def test_silence_is_as_long_as_it_says():
    assert silence(20, PCMU) == b"\xff" * 160
    assert silence(20, PCM16_24K) == bytes(960)


def test_a_recording_of_another_rate_says_how_to_convert_it(tmp_path):
    path = tmp_path / "loud.wav"
    soundfile.write(path, np.zeros((100, 2), dtype=np.int16), 44100)
    with pytest.raises(SpeechError, match=r"44100 Hz and 2 channels.*sox"):
        check(Recording(path))


def test_what_is_no_sound_cannot_be_read(tmp_path):
    path = tmp_path / "note.wav"
    path.write_text("la la la")
    with pytest.raises(SpeechError, match="cannot be read"):
        check(Recording(path))
