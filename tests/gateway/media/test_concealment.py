"""Loss concealment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

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


# Measured on speech.

VOICES = sorted((Path(__file__).parents[3] / "deploy" / "demo" / "audio").glob("*.wav"))


def speech() -> np.ndarray:
    """The voices that ship, one behind the other, at 8 kHz."""
    pieces = []
    for path in VOICES:
        samples, rate = soundfile.read(path, dtype="int16", always_2d=True)
        places = np.arange(0, len(samples) - 1, rate / 8000)
        pieces.append(np.interp(places, np.arange(len(samples)), samples[:, 0]))
    whole = np.concatenate(pieces)
    return whole[: len(whole) // 160 * 160]


def lossy(make, truth: np.ndarray, loss: float, seeds=range(4)) -> tuple[float, float]:
    """Return both figures of :func:`once` as means over several runs."""
    runs = [once(make, truth, loss, seed) for seed in seeds]
    return float(np.mean([run[0] for run in runs])), float(np.mean([run[1] for run in runs]))


def once(make, truth: np.ndarray, loss: float, seed: int) -> tuple[float, float]:
    """
    Lose frames of 20 ms at random; return segmental SNR and log-spectral distance of what was made up, in dB.

    Both are means over the lost frames in which somebody speaks: of halves of 10 ms, and of 30 ms around.
    """
    rng = np.random.default_rng(seed)
    frames = frames_of("pcmu", truth)
    lost = [number for number in range(6, len(frames) - 1) if rng.random() < loss]
    concealer, heard = make(), []
    for number, frame in enumerate(frames):
        heard.append(concealer.lost(20) if number in lost else concealer.good(frame))
    reference, result = samples_of("pcmu", b"".join(frames)), samples_of("pcmu", b"".join(heard))
    ratios, distances = [], []
    for start in (160 * number for number in lost):
        if np.sqrt(np.mean(reference[start : start + 160] ** 2)) < 200:
            continue
        for half in (start, start + 80):
            wanted, error = reference[half : half + 80], (reference - result)[half : half + 80]
            ratios.append(10 * np.log10((wanted @ wanted + 1) / (error @ error + 1)))
        spectra = [
            np.abs(np.fft.rfft(each[start - 40 : start + 200] * np.hanning(240)))
            for each in (reference, result)
        ]
        decibels = 20 * np.log10(np.array(spectra)[:, 5:100] + 50)
        distances.append(np.sqrt(np.mean((decibels[0] - decibels[1]) ** 2)))
    assert len(distances) >= 10
    return float(np.mean(np.clip(ratios, -10, 35))), float(np.mean(distances))


class Silence:
    """What a gateway without concealment does."""

    def good(self, frame: bytes) -> bytes:
        return frame

    def lost(self, duration_ms: int) -> bytes:
        return b"\xff" * (8 * duration_ms)


@pytest.mark.parametrize("loss", [0.03, 0.1])
def test_speech_with_losses_is_nearer_to_the_truth_than_with_silence_in_them(loss) -> None:
    truth = speech()
    ratio, distance = lossy(lambda: Concealer("pcmu"), truth, loss)
    silent_ratio, silent_distance = lossy(Silence, truth, loss)
    print(
        f"{loss:.0%}: SNR {ratio:.1f} dB ({silent_ratio:.1f}), spectra {distance:.1f} ({silent_distance:.1f})"
    )
    assert ratio >= silent_ratio + 0.4
    assert distance <= silent_distance - 5.0


def test_a_high_voice_is_made_up_as_well_as_a_low_one() -> None:
    for pitch in (70.0, 130.0, 220.0, 330.0):
        frames = frames_of("pcmu", voice(pitch=pitch))
        concealer = Concealer("pcmu")
        for frame in frames[:10]:
            concealer.good(frame)
        made, truth = samples_of("pcmu", concealer.lost(20)), samples_of("pcmu", frames[10])
        assert np.corrcoef(made, truth)[0, 1] > 0.9, pitch


def test_a_noise_does_not_become_a_tone() -> None:
    """A hiss that is repeated with the period of a voice would hum; the most it has is 50 Hz."""
    rng = np.random.default_rng(5)
    concealer = Concealer("pcmu")
    for frame in frames_of("pcmu", rng.normal(0, 2000, 1600)):
        concealer.good(frame)
    made = samples_of("pcmu", concealer.lost(20))
    likeness = [np.corrcoef(made[:-lag], made[lag:])[0, 1] for lag in range(20, 80)]
    assert max(likeness) < 0.5
