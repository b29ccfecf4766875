"""One key press, however often it is told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.legs.keys import Keys, KeyWay

ORDERS = [
    [KeyWay.INFO, KeyWay.RFC4733],
    [KeyWay.RFC4733, KeyWay.INFO],
    [KeyWay.INBAND, KeyWay.RFC4733, KeyWay.INFO],
    [KeyWay.INBAND, KeyWay.INFO],
]


def pressed(keys: Keys, digit: str, ways, at: float) -> int:
    """Tell one press in several ways, 0.1 s apart; return how many presses come out."""
    return sum(keys.takes(digit, way, now=at + number * 0.1) for number, way in enumerate(ways))


@pytest.mark.report("BR-140")
@pytest.mark.parametrize("ways", ORDERS)
def test_a_press_that_is_told_in_several_ways_is_one_press_and_so_is_the_next(ways):
    keys = Keys()
    assert [pressed(keys, digit, ways, at) for at, digit in enumerate("5511")] == [1, 1, 1, 1]


@pytest.mark.report("BR-140")
@pytest.mark.parametrize("way", list(KeyWay))
def test_each_way_does_alone(way):
    keys = Keys()
    assert [keys.takes(digit, way, now=0.3 * at) for at, digit in enumerate("1122*#")] == [True] * 6


def test_tones_that_a_voice_made_do_not_hide_the_events_of_a_telephone():
    keys = Keys()
    assert keys.takes("3", KeyWay.INBAND, now=0.0)
    assert keys.takes("7", KeyWay.RFC4733, now=9.0)
    assert not keys.takes("3", KeyWay.INBAND, now=10.0)


def test_after_the_media_were_agreed_on_anew_another_way_may_begin():
    keys = Keys()
    keys.takes("1", KeyWay.RFC4733, now=0.0)
    keys.forget()
    assert keys.takes("1", KeyWay.INFO, now=5.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("0123456789*#"), st.permutations(list(KeyWay))), max_size=20))
def test_presses_come_out_once_each_whatever_comes_first(presses):
    keys = Keys()
    assert [pressed(keys, digit, order, 4.0 * at) for at, (digit, order) in enumerate(presses)] == [1] * len(
        presses
    )
