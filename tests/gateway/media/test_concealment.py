"""Loss concealment."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.media.concealment import Concealer
from gateway.media.g711 import decode, encode

SILENCE = {"pcmu": 0xFF, "pcma": 0xD5}


def voice(seconds: float = 0.4, pitch: float = 110.0) -> np.ndarray:
    """A buzz with the harmonics of a voice."""
    time = np.arange(int(8000 * seconds)) / 8000
    return sum(4000 / n * np.sin(2 * np.pi * pitch * n * time + n) for n in range(1, 8))


def frames_of(law: str, samples: np.ndarray) -> list[bytes]:
    audio = encode(law, samples.astype(np.int16))
    return [audio[start : start + 160] for start in range(0, len(audio), 160)]


def samples_of(law: str, audio: bytes) -> np.ndarray:
    return decode(law, audio).astype(float)


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
def test_an_undisturbed_stream_passes_untouched(law) -> None:
    concealer = Concealer(law)
    for frame in frames_of(law, voice()):
        assert concealer.good(frame) is frame


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
@pytest.mark.parametrize("pitch", [75.0, 110.0, 160.0])
def test_one_lost_frame_of_a_voice_is_made_up_closely(law, pitch) -> None:
    frames = frames_of(law, voice(pitch=pitch))
    concealer = Concealer(law)
    for frame in frames[:10]:
        concealer.good(frame)
    made, truth = samples_of(law, concealer.lost(20)), samples_of(law, frames[10])
    assert np.corrcoef(made, truth)[0, 1] > 0.9
    assert np.std(made - truth) < 0.5 * np.std(truth)  # silence would be 1.0


def test_the_first_good_frame_is_joined_without_a_click() -> None:
    frames = frames_of("pcmu", voice())
    concealer = Concealer("pcmu")
    for frame in frames[:10]:
        concealer.good(frame)
    heard = concealer.lost(20) + concealer.good(frames[11])
    steps = np.abs(np.diff(samples_of("pcmu", heard)))
    usual = np.abs(np.diff(samples_of("pcmu", b"".join(frames)))).max()
    assert steps.max() <= 1.3 * usual
    assert heard[200:] == frames[11][40:]


def test_a_long_gap_fades_to_silence_within_60_ms() -> None:
    concealer = Concealer("pcmu")
    for frame in frames_of("pcmu", voice())[:10]:
        concealer.good(frame)
    levels = [np.std(samples_of("pcmu", concealer.lost(20))) for _ in range(5)]
    assert levels[0] > levels[1] > levels[2] > 0
    assert levels[3:] == [0, 0]


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
def test_a_gap_in_one_piece_and_in_several_sounds_the_same(law) -> None:
    one, several = Concealer(law), Concealer(law)
    for frame in frames_of(law, voice())[:10]:
        one.good(frame)
        several.good(frame)
    assert one.lost(70) == several.lost(20) + several.lost(40) + several.lost(10)


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
def test_without_a_past_or_a_voice_the_gap_is_silent(law) -> None:
    silence = bytes([SILENCE[law]])
    assert Concealer(law).lost(20) == silence * 160
    quiet = Concealer(law)
    for _ in range(5):
        quiet.good(silence * 160)
    assert quiet.lost(30) == silence * 240
    assert quiet.good(b"\x11" * 160) == b"\x11" * 160


def test_meant_silence_is_silence_and_ends_a_gap() -> None:
    concealer = Concealer("pcmu")
    for frame in frames_of("pcmu", voice())[:10]:
        concealer.good(frame)
    concealer.lost(20)
    assert concealer.silence(40) == b"\xff" * 320
    assert concealer.good(b"\x11" * 160) == b"\x11" * 160


@pytest.mark.parametrize("length", [80, 240, 480])
def test_frames_of_every_length_are_concealed(length) -> None:
    audio = b"".join(frames_of("pcmu", voice(seconds=0.48)))
    concealer = Concealer("pcmu")
    for start in range(0, length * 6, length):
        concealer.good(audio[start : start + length])
    made = samples_of("pcmu", concealer.lost(length // 8))
    assert len(made) == length
    assert np.std(made) > 0
