"""Turns from energy, on the clock of the audio."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.g711 import encode
from providers.fakes.speech import AUDIO_FOLDER, Recording, Tone, render, silence
from providers.fakes.vad import EnergyVad, TimelineVad, VadSettings, VoiceStarted, VoiceStopped, detector
from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU

FORMATS = [PCMU, PCMA, PCM16_16K, PCM16_24K]


def hear(vad, audio, fmt, size_ms=20):
    size = fmt.bytes_per_ms * size_ms
    return [event for at in range(0, len(audio), size) for event in vad.hear(audio[at : at + size])]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_a_turn_begins_before_the_voice_and_ends_after_the_silence(fmt):
    vad = EnergyVad(fmt, VadSettings())
    audio = silence(1000, fmt) + render(Tone(300, 400), fmt) + silence(600, fmt)
    assert hear(vad, audio, fmt) == [VoiceStarted(700), VoiceStopped(1900)]
    assert vad.heard_ms == 2000


def test_the_end_comes_exactly_when_the_silence_is_long_enough():
    vad = EnergyVad(PCMU, VadSettings(silence_ms=500))
    hear(vad, render(Tone(300, 400), PCMU) + silence(480, PCMU), PCMU)
    assert vad.speaking
    assert hear(vad, silence(20, PCMU), PCMU) == [VoiceStopped(900)]


def test_a_pause_that_is_too_short_does_not_end_the_turn():
    vad = EnergyVad(PCMU, VadSettings(silence_ms=500))
    tone = render(Tone(300, 300), PCMU)
    audio = tone + silence(400, PCMU) + tone + silence(500, PCMU)
    assert hear(vad, audio, PCMU) == [VoiceStarted(0), VoiceStopped(1500)]


def test_a_click_is_not_speech():
    vad = EnergyVad(PCMU, VadSettings())
    audio = silence(200, PCMU) + render(Tone(300, 40), PCMU) + silence(200, PCMU)
    assert hear(vad, audio, PCMU) == []


@pytest.mark.parametrize(("threshold", "speaks"), [(0.0, True), (0.5, True), (0.7, False), (1.0, False)])
def test_the_threshold_decides_how_loud_speech_has_to_be(threshold, speaks):
    rng = np.random.default_rng(1)
    noise = encode(
        (rng.standard_normal(8000) * 32768 * 10 ** (-30 / 20)).astype(np.int16), "pcmu"
    )  # -30 dBFS
    vad = EnergyVad(PCMU, VadSettings(threshold=threshold))
    assert bool(hear(vad, noise, PCMU)) == speaks


def test_padding_never_reaches_into_the_turn_before():
    vad = EnergyVad(PCMU, VadSettings(prefix_padding_ms=1000, silence_ms=100))
    tone = render(Tone(300, 200), PCMU)
    events = hear(vad, tone + silence(140, PCMU) + tone, PCMU)
    assert events == [VoiceStarted(0), VoiceStopped(300), VoiceStarted(300)]


def test_another_format_goes_on_with_the_clock_and_the_turn():
    vad = EnergyVad(PCMU, VadSettings(prefix_padding_ms=0))
    assert hear(vad, silence(5000, PCMU) + render(Tone(300, 105), PCMU), PCMU) == [VoiceStarted(5000)]
    vad.follow(PCM16_24K, VadSettings(silence_ms=100))
    assert vad.speaking
    assert hear(vad, silence(100, PCM16_24K), PCM16_24K) == [VoiceStopped(5205)]
    assert vad.heard_ms == 5205


def test_resetting_forgets_the_turn_but_not_the_clock():
    vad = EnergyVad(PCMU, VadSettings())
    hear(vad, render(Tone(300, 200), PCMU), PCMU)
    vad.reset()
    assert not vad.speaking
    assert hear(vad, silence(1000, PCMU), PCMU) == []
    assert vad.heard_ms == 1200


@pytest.mark.parametrize(
    "name", ["caller_hours", "caller_interrupts", "caller_number", "caller_sales", "caller_thanks"]
)
def test_each_recorded_caller_is_one_turn(name):
    vad = EnergyVad(PCMU, VadSettings())
    audio = render(Recording(AUDIO_FOLDER / f"{name}.flac"), PCMU) + silence(600, PCMU)
    assert [type(event) for event in hear(vad, audio, PCMU)] == [VoiceStarted, VoiceStopped]


PARTS = st.lists(st.tuples(st.booleans(), st.integers(1, 900)), min_size=1, max_size=8)


@settings(deadline=None)
@given(PARTS, st.lists(st.integers(1, 700), min_size=1, max_size=10), st.sampled_from(FORMATS))
def test_it_does_not_matter_how_the_audio_is_cut(parts, cuts, fmt):
    audio = b"".join(render(Tone(300, ms), fmt) if loud else silence(ms, fmt) for loud, ms in parts)
    whole, pieces = EnergyVad(fmt, VadSettings()), EnergyVad(fmt, VadSettings())
    expected = whole.hear(audio)
    found, at = [], 0
    while at < len(audio):
        size = cuts[at % len(cuts)]
        found += pieces.hear(audio[at : at + size])
        at += size
    assert found == expected
    assert pieces.heard_ms == whole.heard_ms
    assert [type(event) for event in found] == ([VoiceStarted, VoiceStopped] * len(found))[: len(found)]
    times = [event.start_ms if isinstance(event, VoiceStarted) else event.end_ms for event in found]
    assert times == sorted(times)


def test_a_timeline_speaks_when_it_says():
    vad = TimelineVad(PCMU, [(100, 300), (1000, 1200)])
    assert hear(vad, silence(1100, PCMU), PCMU) == [VoiceStarted(100), VoiceStopped(300), VoiceStarted(1000)]
    assert vad.speaking
    vad.reset()
    assert hear(vad, silence(1000, PCMU), PCMU) == []


def test_a_timeline_counts_through_a_change_of_format():
    vad = TimelineVad(PCMU, [(100, 300), (1000, 1200)])
    hear(vad, silence(200, PCMU), PCMU)
    vad.follow(PCM16_24K, VadSettings())
    assert hear(vad, silence(100, PCM16_24K), PCM16_24K) == [VoiceStopped(300)]


def test_a_timeline_is_chosen_where_there_is_one():
    assert isinstance(detector(PCMU, VadSettings(), [(0, 1)]), TimelineVad)
    assert isinstance(detector(PCMU, VadSettings(), None), EnergyVad)
