"""Keys as tones: heard whatever the line does to them, and never heard in a voice or in noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from gateway.media.g711 import encode
from gateway.media.keypad import KEYS, ToneDetector, tone_frames

ROWS, COLUMNS = (697, 770, 852, 941), (1209, 1336, 1477, 1633)
ROOT = Path(__file__).parents[3]
VOICES = sorted([*ROOT.glob("deploy/demo/audio/*.wav"), *ROOT.glob("config/**/*.wav")])


def heard(samples: np.ndarray, law: str = "pcmu", frame: int = 160) -> str:
    audio = encode(law, np.clip(samples, -32768, 32767).astype(np.int16))
    detector = ToneDetector(law)
    return "".join(detector.hear(audio[start : start + frame]) for start in range(0, len(audio), frame))


def key(
    digit: str, ms: int, *, level: float = 4000.0, twist_db: float = 0.0, detuned: float = 0.0
) -> np.ndarray:
    time = np.arange(ms * 8) / 8000
    row, column = divmod(KEYS.index(digit), 4)
    factor = 1 + detuned
    low = level * np.sin(2 * np.pi * ROWS[row] * factor * time)
    high = level * 10 ** (twist_db / 20) * np.sin(2 * np.pi * COLUMNS[column] * factor * time + 0.7)
    return low + high


def dialled(digits: str, *, ms: int = 50, pause_ms: int = 50, offset: int = 0, **tone: float) -> np.ndarray:
    silence = np.zeros(pause_ms * 8)
    return np.concatenate(
        [np.zeros(offset), *(part for each in digits for part in (key(each, ms, **tone), silence))]
    )


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
@pytest.mark.parametrize("frame", [80, 160, 240, 480])
def test_every_key_is_heard_once_in_frames_of_every_length(law, frame) -> None:
    assert heard(dialled(KEYS), law, frame) == KEYS


@pytest.mark.parametrize("offset", range(0, 102, 17))
def test_forty_milliseconds_are_enough_wherever_they_begin(offset) -> None:
    """ITU-T Q.24: what lasts 40 ms is a signal."""
    assert heard(dialled("147*2580", ms=40, pause_ms=40, offset=offset)) == "147*2580"


@pytest.mark.parametrize("offset", range(0, 102, 17))
def test_what_lasts_a_moment_only_is_none(offset) -> None:
    assert heard(dialled("147*2580", ms=12, offset=offset)) == ""


@pytest.mark.parametrize(
    "line",
    [
        {"twist_db": 6.0, "level": 2500.0},
        {"twist_db": -6.0},
        {"level": 300.0},
        {"level": 14000.0},
        {"detuned": 0.015},
        {"detuned": -0.015},
    ],
)
def test_keys_are_heard_whatever_the_line_does_to_their_tones(line) -> None:
    assert heard(dialled(KEYS, **line)) == KEYS


@pytest.mark.parametrize("line", [{"detuned": 0.035}, {"twist_db": 12.0, "level": 1500.0}, {"level": 60.0}])
def test_what_q24_says_to_refuse_is_refused(line) -> None:
    assert heard(dialled(KEYS, **line)) == ""


@pytest.mark.parametrize("snr_db", [15, 20, 30])
def test_keys_are_heard_in_noise(snr_db) -> None:
    rng = np.random.default_rng(snr_db)
    digits = "".join(rng.choice(list(KEYS), 50))
    clean = dialled(digits)
    assert heard(clean + rng.normal(0, 4000 * 10 ** (-snr_db / 20), len(clean))) == digits


def test_a_short_interruption_does_not_make_two_keys_of_one() -> None:
    tone = key("5", 300)
    tone[1200:1280] = 0
    assert heard(np.concatenate([tone, np.zeros(800)])) == "5"


def test_the_same_key_twice_is_two_keys() -> None:
    assert heard(dialled("5555")) == "5555"


@pytest.mark.parametrize("level", [300, 1000, 4000, 9000])
def test_noise_is_never_a_key(level) -> None:
    assert heard(np.random.default_rng(level).normal(0, level, 8000 * 60)) == ""


@pytest.mark.parametrize("speed", [0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4])
def test_speech_is_never_a_key(speed) -> None:
    """The talk-off test: every voice that ships, as it is and at other pitches."""
    assert len(VOICES) >= 5
    for path in VOICES:
        samples, rate = soundfile.read(path, dtype="int16", always_2d=True)
        places = np.arange(0, len(samples) - 1, speed * rate / 8000)
        voice = np.interp(places, np.arange(len(samples)), samples[:, 0])
        for gain in (0.3, 1.0, 2.0):
            assert heard(gain * voice) == "", path.name


def test_one_tone_alone_or_a_dial_tone_is_no_key() -> None:
    time = np.arange(8000) / 8000
    for pair in ((697, 0), (1336, 0), (350, 440), (440, 480), (480, 620), (941, 941)):
        assert heard(sum(4000 * np.sin(2 * np.pi * hz * time) for hz in pair if hz)) == ""


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
def test_keys_that_we_make_are_heard(law) -> None:
    frames = tone_frames("0123456789*#abcd", law)
    assert {len(frame) for frame in frames} == {160}
    detector = ToneDetector(law)
    assert "".join(map(detector.hear, frames)) == "0123456789*#ABCD"


def test_what_is_no_key_is_refused() -> None:
    with pytest.raises(ValueError, match="not a telephone key: 'x'"):
        tone_frames("1x", "pcmu")
