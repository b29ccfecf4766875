"""What waits between two lines stays little."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.media.backlog import LIMIT_MS, TARGET_MS, WINDOW, Backlog
from gateway.media.convert import converter
from providers.types import PCM16_16K, PCMA, PCMU, AudioFormat

QUIET, LOUD = b"\xff" * 160, b"\x21" * 160


def relayed(seconds, *, clock=1.0, pauses=(), frame=lambda at: QUIET):
    """Relay frames into a line whose clock differs or stops; return what waited and what was lost."""
    backlog, waiting, log, lost = Backlog(PCMU), 40.0, [], []
    for number in range(int(seconds * 50)):
        audio = frame(number / 50)
        if backlog.admits(audio, waiting):
            waiting += 20
        else:
            lost.append(audio)
        if not any(start <= number / 50 < end for start, end in pauses):
            waiting = max(0.0, waiting - 20 * clock)
        log.append(waiting)
    assert backlog.dropped == len(lost)
    return log, lost


def test_two_lines_of_one_clock_lose_nothing():
    log, lost = relayed(600)

    assert lost == []
    assert max(log) == 40


def test_a_slower_listener_never_hears_ever_later():
    log, lost = relayed(3600, clock=0.999)

    assert max(log) <= TARGET_MS + 60
    assert 165 <= len(lost) <= 190  # 3.6 s of one hour


def test_a_hold_leaves_no_delay_behind():
    log, _ = relayed(20, pauses=((2, 12),))

    assert max(log) <= LIMIT_MS + 20
    assert log[12 * 50 + 2 * WINDOW] <= TARGET_MS + 20


def test_no_word_is_cut_where_there_is_a_pause_to_cut():
    """Half a second of speech, half a second of pause, and a network that holds everything back once."""
    log, lost = relayed(10, pauses=((2, 2.16),), frame=lambda at: LOUD if at % 1 < 0.5 else QUIET)

    assert lost == [QUIET] * len(lost) != []
    assert log[-1] <= TARGET_MS


def test_somebody_who_never_pauses_is_heard_late_but_not_ever_later():
    log, lost = relayed(60, clock=0.99, frame=lambda at: LOUD)

    assert max(log) <= LIMIT_MS + 20
    assert set(lost) == {LOUD}


@pytest.mark.parametrize("line", [PCMU, PCMA, PCM16_16K])
@pytest.mark.parametrize(("level", "quiet"), [(0, True), (150, True), (2000, False)])
def test_quiet_is_what_is_quiet_in_every_format(line, level, quiet):
    pcm = (np.sin(np.arange(320) / 5) * level).astype("<i2").tobytes()
    audio = converter(AudioFormat("pcm16", line.rate), line).convert(pcm)
    backlog = Backlog(line)
    for _ in range(WINDOW):
        assert backlog.admits(audio, 200)

    assert backlog.admits(audio, 200) is not quiet


@settings(max_examples=100, deadline=None)
@given(
    clock=st.floats(0.98, 1.02),
    pauses=st.lists(
        st.tuples(st.floats(0, 20), st.floats(0, 2)).map(lambda p: (p[0], p[0] + p[1])), max_size=5
    ),
)
def test_whatever_stops_the_listener_the_delay_is_bounded_and_recovers(clock, pauses):
    log, _ = relayed(30, clock=clock, pauses=pauses)

    assert max(log) <= LIMIT_MS + 40
    assert min(log[-WINDOW:]) <= TARGET_MS + 40
