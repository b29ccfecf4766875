"""Loss and jitter as RFC 3550 counts them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.statistics import ReceptionStatistics


def test_loss_is_what_was_expected_less_what_came() -> None:
    statistics = ReceptionStatistics(7, 65534)
    for sequence in (65534, 65535, 1, 2, 2):
        statistics.note(sequence)
    assert (statistics.expected, statistics.received, statistics.lost) == (5, 5, 0)
    statistics.note(9)
    assert (statistics.expected, statistics.lost) == (12, 6)
    block = statistics.take_block(0.0, jitter=12.7)
    assert (block.ssrc, block.cumulative_lost, block.highest_sequence) == (7, 6, 65536 + 9)
    assert block.fraction_lost == 6 * 256 // 12


def test_the_fraction_counts_from_the_last_report_on() -> None:
    statistics = ReceptionStatistics(7, 0)
    for sequence in range(0, 20, 2):
        statistics.note(sequence)
    assert statistics.take_block(0.0, jitter=12.7).fraction_lost == 9 * 256 // 19
    for sequence in range(19, 39):
        statistics.note(sequence)
    assert statistics.take_block(0.0, jitter=12.7).fraction_lost == 0
    assert statistics.take_block(0.0, jitter=12.7).fraction_lost == 0


def test_the_delay_since_the_last_sender_report_is_told() -> None:
    statistics = ReceptionStatistics(7, 0)
    statistics.note(0)
    assert statistics.take_block(9.0, jitter=12.7).delay_since_last_sr == 0
    statistics.note_sender_report(0xABCD, 10.0)
    block = statistics.take_block(11.5, jitter=12.7)
    assert (block.last_sr, block.delay_since_last_sr) == (0xABCD, 3 * 32768)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 0xFFFF), st.lists(st.integers(-20, 60), max_size=80))
def test_the_count_is_right_across_every_wrap(first, steps) -> None:
    statistics = ReceptionStatistics(7, first)
    place, places = 0, [0]
    statistics.note(first)
    for step in steps:
        place = max(places) + step
        places.append(place)
        statistics.note((first + place) & 0xFFFF)
    assert statistics.expected == max(places) + 1
    assert statistics.lost == max(places) + 1 - len(places)
