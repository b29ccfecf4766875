"""The model of a telephone's jitter buffer."""

import random
from itertools import pairwise

from tests.kit.handset import Handset, any_handset
from tests.kit.phone import Audio

SOUND = bytes(range(160))
SILENCE = b"\xff" * 160


def packets(late: dict[int, float] | None = None, count: int = 50) -> list[Audio]:
    """Return a stream of 20 ms packets whose timestamps wrap; some come later than they should."""
    first = 0xFFFFFFFF - 1_000
    return [
        Audio(
            100 + number * 0.02 + (late or {}).get(number, 0.0), 0, number,
            (first + number * 160) & 0xFFFFFFFF, 7, SOUND,
        )
        for number in range(count)
    ]  # fmt: skip


def test_everything_that_comes_in_time_is_played_after_path_and_buffer():
    played = Handset(path_ms=500, jitter_ms=0, buffer_ms=60, seed=1).play(packets())
    assert (len(played.frames), played.late, played.cut, played.gaps) == (50, 0, 0, 0)
    assert abs(played.frames[0].at - 100.56) < 1e-6
    assert abs(played.frames[-1].at - (100.56 + 49 * 0.02)) < 1e-6


def test_jitter_below_the_buffer_loses_nothing():
    for seed in range(20):
        played = any_handset(random.Random(seed), path_ms=2_000).play(packets())
        assert (len(played.frames), played.late) == (50, 0)


def test_what_comes_after_its_turn_is_not_played():
    played = Handset(path_ms=0, jitter_ms=0, buffer_ms=60, seed=1).play(packets({20: 0.08, 21: 0.05}))
    assert (len(played.frames), played.late, played.gaps) == (49, 1, 1)


def test_packets_that_overtake_each_other_are_played_in_order():
    played = Handset(path_ms=0, jitter_ms=30, buffer_ms=60, seed=3).play(packets())
    places = [each.place for each in played.frames]
    assert places == sorted(places)
    assert [after - before for before, after in pairwise(places)] == [160] * 49


def test_a_hang_up_silences_what_the_buffer_still_holds():
    handset = Handset(path_ms=300, jitter_ms=0, buffer_ms=100, seed=1)
    end = 100 + 50 * 0.02
    assert handset.play(packets(), hung_up_at=end).cut == 5
    assert handset.play(packets(), hung_up_at=end + 0.1001).cut == 0


def test_silence_that_a_hang_up_cuts_is_no_loss():
    quiet = [
        Audio(each.at, each.kind, each.sequence, each.timestamp, each.ssrc, SILENCE) for each in packets()
    ]
    assert Handset(path_ms=0, jitter_ms=0, buffer_ms=100, seed=1).play(quiet, hung_up_at=100.5).cut == 0
