"""How much of each item was received, and what is to be cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.openai.ledger import ItemLedger

MS = 8  # bytes of G.711 in a millisecond


def ledger(**received_ms: int) -> ItemLedger:
    """Items of one response, received in this order and still growing."""
    made = ItemLedger(MS)
    for item_id, ms in received_ms.items():
        made.receive("resp_1", item_id, ms * MS)
    return made


def test_an_item_is_cut_where_the_caller_stopped_hearing_it() -> None:
    assert ledger(item_a=9250).cut("item_a", 2000) == [("item_a", 2000)]


def test_a_cut_is_never_beyond_what_was_received() -> None:
    """Fault 6: "Audio content of X ms is already shorter than Y ms"."""
    assert ledger(item_a=1140).cut("item_a", 60_000) == [("item_a", 1140)]


def test_an_item_that_was_heard_in_full_is_not_cut() -> None:
    made = ledger(item_a=1000)
    made.finish("item_a")
    assert made.cut("item_a", 1000) == []


def test_items_that_were_never_started_are_cut_to_nothing() -> None:
    made = ledger(item_a=1000, item_b=2000, item_c=500)
    for item_id in ("item_a", "item_b", "item_c"):
        made.finish(item_id)
    assert made.cut("item_a", 400) == [("item_a", 400), ("item_b", 0), ("item_c", 0)]


def test_items_before_the_one_that_plays_are_left_alone() -> None:
    made = ledger(item_a=1000, item_b=2000)
    assert made.cut("item_b", 100) == [("item_b", 100)]


def test_an_item_is_cut_once() -> None:
    made = ledger(item_a=1000)
    assert made.cut("item_a", 500) == [("item_a", 500)]
    assert made.cut("item_a", 200) == []


@pytest.mark.parametrize("item_id", ["", "item_x"])
def test_an_unknown_item_cuts_nothing(item_id: str) -> None:
    assert ledger(item_a=1000).cut(item_id, 500) == []


def test_an_item_without_a_whole_millisecond_is_not_cut() -> None:
    made = ItemLedger(MS)
    made.receive("resp_1", "item_a", 3)
    assert made.cut("item_a", 0) == []


def test_a_muted_response_is_counted_but_not_heard() -> None:
    made = ledger(item_a=100)
    made.mute("resp_1")
    assert not made.receive("resp_1", "item_a", 100 * MS)
    assert made.received_ms("item_a") == 200
    assert made.receive("resp_2", "item_b", MS)


def test_an_item_that_began_after_the_interruption_is_cut_to_nothing() -> None:
    made = ledger(item_a=100)
    made.mute("resp_1")
    made.cut("item_a", 50)
    made.receive("resp_1", "item_b", 100 * MS)
    assert made.cut_unheard("resp_1") == [("item_b", 0)]
    assert made.cut_unheard("resp_1") == []


def test_the_end_of_a_response_ends_its_items_once() -> None:
    made = ledger(item_a=100, item_b=100)
    made.receive("resp_2", "item_c", MS)
    assert made.finish("item_a")
    assert not made.finish("item_a")
    assert not made.finish("item_x")
    assert made.finish_response("resp_1") == ["item_b"]
    assert made.finish_response("resp_1") == []


def test_it_forgets_old_items() -> None:
    made = ItemLedger(MS)
    for n in range(1000):
        made.receive(f"resp_{n}", f"item_{n}", MS)
        made.mute(f"resp_{n}")
    assert made.received_ms("item_0") == 0
    assert made.received_ms("item_999") == 1
    assert not made.is_muted("resp_0")
    assert made.is_muted("resp_999")


@settings(deadline=None)
@given(
    received=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4000)), min_size=1, max_size=20),
    playing=st.sampled_from("abc"),
    heard_ms=st.integers(-10, 100_000),
)
def test_no_cut_is_negative_or_beyond_what_was_received(received, playing, heard_ms) -> None:
    made = ItemLedger(MS)
    for item_id, size in received:
        made.receive("resp_1", item_id, size)
    cuts = made.cut(playing, heard_ms)
    assert len({item_id for item_id, _ in cuts}) == len(cuts)
    for item_id, ms in cuts:
        assert 0 <= ms <= sum(size for other, size in received if other == item_id) // MS
