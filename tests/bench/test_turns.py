import numpy as np
import pytest

from tests.bench.turns import Cycle, measure, percentiles

CYCLE = Cycle(calls=1, speech_ms=600, cycle_ms=5000, vad_silence_ms=200)


class Caller:
    """Speaks at 0, 5, 10 and 15 s; an answer begins ``first`` after its turn and lasts until the next one."""

    index = 0

    def __init__(self, *, first=0.002, lost=(), late=(), deaf=False):
        self.sent = [0.02 * frame for frame in range(800)]
        self._pieces = []
        for turn in range(3):
            ended = 5.0 * turn + 0.02 * CYCLE.last_frame
            if turn in lost:
                continue
            for piece in range(210):
                at = ended + first + 0.02 * piece
                if (turn, piece) in late:
                    at += 0.1
                self._pieces.append((at, b"\x10" * 160))
        self._deaf = deaf

    def pieces(self):
        return self._pieces

    def stops(self, since, until):
        return None if self._deaf else since + 0.01


def test_a_perfect_caller_hears_every_answer_without_a_gap():
    summary = measure([Caller()], CYCLE, begin=0.0).summary()

    assert (summary["turns"], summary["answers"], summary["gaps"]) == (3, 3, 0)
    assert summary["first_audio_ms"]["p50"] == pytest.approx(2.0, abs=0.01)
    assert summary["barge_ins"] == 2
    assert summary["barge_in_ms"]["max"] == pytest.approx(10.0, abs=0.01)
    assert summary["playout_ok_pct"] == 100.0


def test_a_turn_without_an_answer_is_counted_but_has_no_latency():
    summary = measure([Caller(lost={1})], CYCLE, begin=0.0).summary()

    assert (summary["turns"], summary["answers"]) == (3, 2)
    assert summary["first_audio_ms"]["n"] == 2


def test_a_packet_100_ms_late_is_a_gap_of_what_the_players_buffer_does_not_cover():
    summary = measure([Caller(late={(1, 50)})], CYCLE, begin=0.0).summary()

    assert summary["gaps"] == 1
    assert summary["longest_gap_ms"] == pytest.approx(40.0, abs=0.1)


def test_a_server_that_talks_on_is_a_missed_interruption():
    assert measure([Caller(deaf=True)], CYCLE, begin=0.0).summary()["barge_in_missed"] == 2


def test_turns_before_the_window_do_not_count():
    assert measure([Caller()], CYCLE, begin=4.0).summary()["turns"] == 2


def test_callers_speak_in_turn_and_not_all_at_once():
    cycle = Cycle(calls=100)
    speaking = np.array([[cycle.speaks(index, frame) for index in range(100)] for frame in range(250)])

    assert speaking.sum(axis=1).max() <= 13
    assert (speaking.sum(axis=0) == 30).all()


def test_percentiles_leave_out_what_never_came():
    assert percentiles([0.001, float("nan"), 0.003]) == {
        "n": 2, "p50": 2.0, "p95": 2.9, "p99": 2.98, "max": 3.0,
    }  # fmt: skip
    assert percentiles([]) == {"n": 0}
