"""The reordering buffer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.jitter import MAX_HELD, JitterBuffer

WAIT_S = 0.04


def numbers(slots):
    return [slot.sequence for slot in slots]


def fed(*sequences: int, now: float = 0.0):
    buffer = JitterBuffer()
    out = [
        slot for sequence in sequences for slot in buffer.insert(sequence, sequence * 160, b"x", now, WAIT_S)
    ]
    return buffer, out


def test_packets_in_order_pass_at_once_across_the_wrap() -> None:
    buffer, out = fed(65534, 65535, 0, 1)
    assert numbers(out) == [65534, 65535, 0, 1]
    assert buffer.lost == buffer.late == buffer.held == 0


def test_swapped_packets_come_out_in_order() -> None:
    _, out = fed(10, 12, 11, 13)
    assert numbers(out) == [10, 11, 12, 13]
    assert [slot.lost for slot in out] == [0, 0, 0, 0]


def test_a_missing_packet_is_waited_for_until_the_one_behind_it_is_due_and_then_marked_as_a_gap() -> None:
    buffer, _ = fed(10, 12, 13, now=1.0)
    assert buffer.next_timeout() == 1.04
    assert not buffer.expire(1.039)
    assert [(slot.sequence, slot.lost) for slot in buffer.expire(1.04)] == [(12, 1), (13, 0)]
    assert buffer.next_timeout() is None
    assert buffer.lost == 1


def test_two_gaps_have_a_wait_of_their_own() -> None:
    buffer, _ = fed(10, 12, now=0.0)
    buffer.insert(14, 0, b"x", 0.02, WAIT_S)
    assert numbers(buffer.expire(0.04)) == [12]
    assert numbers(buffer.expire(0.06)) == [14]
    assert buffer.lost == 2


def test_duplicates_are_dropped_and_told_from_late_packets() -> None:
    buffer, out = fed(10, 11, 11, 13, 13, 10)
    assert numbers(out) == [10, 11]
    assert buffer.duplicates == 3
    buffer.expire(1.0)
    assert buffer.insert(12, 0, b"x", 1.0, WAIT_S) == ()
    assert (buffer.late, buffer.duplicates) == (1, 3)


def test_what_is_late_itself_waits_for_nobody() -> None:
    buffer, _ = fed(10)
    assert [(slot.sequence, slot.lost) for slot in buffer.insert(12, 0, b"x", 1.0, -0.01)] == [(12, 1)]


def test_the_wait_for_others_is_measured() -> None:
    buffer, _ = fed(10, 12, 13, now=1.0)
    buffer.insert(11, 0, b"x", 1.025, WAIT_S)
    assert buffer.waited_s == pytest.approx(0.05)
    assert (buffer.lost, buffer.gaps) == (0, 0)


def test_gaps_are_counted_beside_the_packets_that_are_missing_in_them() -> None:
    buffer, _ = fed(10, 14, 16)
    buffer.expire(1.0)
    assert (buffer.lost, buffer.gaps) == (4, 2)


def test_the_buffer_is_bounded_however_slow_the_clock() -> None:
    buffer, _ = fed(0)
    for number in range(2, 400, 2):
        buffer.insert(number, 0, b"x", 0.0, WAIT_S)
        assert buffer.held <= MAX_HELD


def test_reset_lets_any_number_begin() -> None:
    buffer, _ = fed(500, 502)
    buffer.reset()
    assert numbers(buffer.insert(3, 0, b"x", 0.0, WAIT_S)) == [3]
    assert buffer.held == 0


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 0xFFFF),
    st.lists(st.tuples(st.integers(-8, 12), st.integers(0, 30)), max_size=120),
)
def test_whatever_arrives_comes_out_at_most_once_in_order_and_nothing_stays(first, steps) -> None:
    buffer = JitterBuffer()
    arrived, out, now, place = [first], [], 0.0, 0
    out += buffer.insert(first, 0, b"x", now, WAIT_S)
    for step, wait_ms in steps:
        now += wait_ms / 1000
        place = max(place + step, -30)
        sequence = (first + place) & 0xFFFF
        arrived.append(sequence)
        out += buffer.insert(sequence, 0, b"x", now, WAIT_S)
        out += buffer.expire(now)
        timeout = buffer.next_timeout()
        assert timeout is None or now <= timeout <= now + WAIT_S
    out += buffer.expire(now + 1)
    places = [(slot.sequence - first) & 0xFFFF for slot in out]
    assert places == sorted(set(places))
    assert {slot.sequence for slot in out} <= set(arrived)
    for before, slot in zip(places, out[1:], strict=False):
        assert before + slot.lost + 1 == (slot.sequence - first) & 0xFFFF
    assert len(out) + buffer.duplicates + buffer.late == len(arrived)
    assert sum(slot.lost for slot in out) == buffer.lost
    assert buffer.held == 0
