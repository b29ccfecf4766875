import numpy as np
import pytest

from deploy.demo.sound import find
from tests.kit import sound


@pytest.fixture(scope="module")
def recording():
    return np.concatenate((sound.utterance(1, 2.0), sound.silence(0.3)))


def through_the_line(*parts):
    return sound.decode(sound.encode(np.concatenate(parts)))


def test_a_whole_recording_is_found_where_it_lies_though_its_tail_of_silence_is_missing(recording):
    capture = through_the_line(sound.utterance(2, 1.0), sound.silence(0.5), recording[:16000])
    match = find(recording, capture)

    assert match is not None
    assert match.complete
    assert match.begins_ms == pytest.approx(1500, abs=1)
    assert match.worst > 0.95


def test_the_last_20_ms_are_missed_when_they_are_missing(recording):
    last = find(recording, through_the_line(recording)).heard_ms
    capture = through_the_line(sound.silence(0.1), recording[: (last - 20) * 8], sound.silence(0.5))
    match = find(recording, capture)

    assert match is not None
    assert not match.complete
    assert match.of_ms - match.heard_ms == 20


def test_a_recording_that_was_cut_off_was_heard_to_the_cut(recording):
    capture = through_the_line(sound.silence(0.2), recording[: 1000 * 8], sound.silence(2.0))
    match = find(recording, capture)

    assert match is not None
    assert 940 <= match.heard_ms <= 1000


def test_a_hole_in_the_middle_ends_what_was_heard(recording):
    broken = recording.copy()
    broken[6400:7200] = 0
    match = find(recording, through_the_line(broken))

    assert match is not None
    assert not match.complete
    assert match.heard_ms <= 800


@pytest.mark.parametrize("at_ms", [200, 640])
def test_a_pause_between_two_frames_takes_nothing_away(recording, at_ms):
    at = at_ms * 8
    capture = through_the_line(sound.silence(0.3), recording[:at], sound.silence(0.1), recording[at:])
    match = find(recording, capture)

    assert match is not None
    assert match.complete
    assert match.paused_ms == 100
    assert match.begins_ms == pytest.approx(300, abs=1)


def test_a_long_pause_is_a_break(recording):
    capture = through_the_line(recording[:6400], sound.silence(0.5), recording[6400:])
    match = find(recording, capture)

    assert match is not None
    assert not match.complete


def test_another_voice_is_not_found(recording):
    assert find(recording, through_the_line(sound.utterance(3, 4.0))) is None


def test_silence_and_short_captures_are_not_found(recording):
    assert find(recording, sound.silence(3.0)) is None
    assert find(recording, sound.silence(0.01)) is None
