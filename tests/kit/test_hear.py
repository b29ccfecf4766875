from __future__ import annotations

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.hear import hear

FAREWELL = sound.utterance(7, 2)


def over_the_line(*parts: sound.Pcm) -> sound.Pcm:
    """Return parts as a caller hears them: through G.711 there and back, twice."""
    pcm = np.concatenate(parts)
    return sound.decode(sound.encode(sound.decode(sound.encode(pcm, "PCMA"), "PCMA")))


def test_a_recording_is_found_where_it_is():
    heard = hear(FAREWELL, over_the_line(sound.utterance(8, 1.5), FAREWELL, sound.silence(0.5)))
    assert heard.whole
    assert heard.start_ms == pytest.approx(1500)
    assert heard.end_ms == pytest.approx(3500)
    assert heard.likeness > 0.98
    assert heard.pauses_ms == 0


def test_a_recording_at_the_very_end_of_the_capture_is_whole():
    assert hear(FAREWELL, over_the_line(sound.silence(1), FAREWELL)).whole


@pytest.mark.parametrize("cut_ms", [20, 40, 200])
def test_a_cut_end_is_not_whole(cut_ms):
    heard = hear(FAREWELL, over_the_line(sound.silence(1), FAREWELL[: -cut_ms * 8]))
    assert not heard.whole
    assert heard.missing == tuple(range(2000 - cut_ms, 2000, 20))


def test_a_cut_end_is_not_whole_where_other_sound_follows():
    heard = hear(FAREWELL, over_the_line(sound.silence(1), FAREWELL[:-160], sound.utterance(9, 1)))
    assert heard.missing == (1980,)


def test_a_cut_beginning_is_not_whole():
    assert hear(FAREWELL, over_the_line(FAREWELL[320:], sound.silence(1))).missing == (0, 20)


def test_a_lost_packet_in_the_middle_is_seen():
    broken = FAREWELL.copy()
    broken[8000:8160] = 0
    assert hear(FAREWELL, over_the_line(broken)).missing == (1000,)


@pytest.mark.parametrize("gap_ms", [20, 100, 300])
@pytest.mark.parametrize("at", [8000, 8000 + 320, 8000 + 610, 8000 + 720])
def test_a_pause_put_in_the_middle_is_followed(gap_ms, at):
    parts = (FAREWELL[:at], sound.silence(gap_ms / 1000), FAREWELL[at:])
    heard = hear(FAREWELL, over_the_line(sound.silence(0.3), *parts))
    assert heard.whole
    assert heard.pauses_ms == gap_ms


def test_pauses_one_after_another_are_followed():
    parts = [part for at in range(0, 16000, 4000) for part in (FAREWELL[at : at + 4000], sound.silence(0.15))]
    heard = hear(FAREWELL, over_the_line(sound.silence(0.3), *parts))
    assert heard.whole
    assert heard.pauses_ms == 450


def test_two_pauses_close_to_each_other_are_followed():
    parts = (FAREWELL[:8160], sound.silence(0.04), FAREWELL[8160:8480], sound.silence(0.06), FAREWELL[8480:])
    assert hear(FAREWELL, over_the_line(sound.silence(0.3), *parts)).whole


def test_a_missing_piece_that_was_closed_up_is_seen():
    heard = hear(FAREWELL, over_the_line(sound.silence(0.3), FAREWELL[:8000], FAREWELL[8800:]))
    assert heard.missing == tuple(range(1000, 1100, 20))
    assert heard.pauses_ms == -100


def test_something_else_is_not_heard():
    heard = hear(FAREWELL, over_the_line(sound.utterance(10, 6)))
    assert not heard.whole
    assert heard.heard_ms < heard.audible_ms / 2


def test_silence_and_an_empty_capture_hold_nothing():
    assert hear(FAREWELL, sound.silence(5)).heard_ms == 0
    assert hear(FAREWELL, sound.silence(0)).heard_ms == 0


def test_a_silent_recording_is_never_whole():
    assert not hear(sound.silence(1), sound.silence(2)).whole


def test_quiet_edges_of_a_recording_need_not_be_there():
    padded = np.concatenate((sound.silence(0.2), FAREWELL, sound.silence(0.2)))
    heard = hear(padded, over_the_line(FAREWELL))
    assert heard.audible_ms == 2000
