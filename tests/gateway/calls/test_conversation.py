import pytest

from gateway.calls.conversation import Conversation
from gateway.dialogue.policy import CallPolicy
from tools.types import EndRequest


@pytest.fixture
def talk():
    return Conversation(CallPolicy(), max_tool_rounds=2, bytes_per_ms=8)


def test_latency_is_taken_once_from_the_callers_pause(talk):
    talk.caller_started()
    talk.caller_paused(now=10.0)
    talk.audio("a", 160, now=10.4)

    assert talk.response_latency(now=10.4) == pytest.approx(0.4)
    assert talk.response_latency(now=10.5) is None


def test_a_caller_who_speaks_again_restarts_the_clock(talk):
    talk.caller_paused(now=10.0)
    talk.caller_started()

    assert talk.response_latency(now=11.0) is None


def test_new_audio_is_dropped_while_a_terminal_action_is_pending(talk):
    assert talk.audio("farewell", 160, now=0)
    talk.policy.claim(EndRequest("call_1"))

    assert talk.audio("farewell", 160, now=1)
    assert not talk.audio("afterthought", 160, now=1)
    talk.text("afterthought", "One more thing", final=True, now=1)
    assert "afterthought" not in talk.items


def test_tool_rounds_are_counted_from_the_callers_last_turn(talk):
    assert talk.begin_tools()
    assert talk.begin_tools()
    assert not talk.begin_tools()

    talk.caller_paused(now=1.0)
    assert talk.begin_tools()


def test_an_item_is_settled_when_it_is_complete_and_heard(talk):
    talk.audio("a", 8000, now=0)
    talk.text("a", "Hello", final=True, now=0)

    assert talk.settled({"a": 1000}) == []

    talk.complete("a")
    assert talk.settled({"a": 500}) == []

    [spoken] = talk.settled({"a": 1000})
    assert (spoken.item.text, spoken.heard_ms, spoken.interrupted) == ("Hello", 1000, False)
    assert talk.settled({"a": 1000}) == []


def test_a_cut_item_keeps_what_was_heard_of_it(talk):
    talk.audio("a", 8000, now=0)
    talk.text("a", "Hel", final=False, now=0)
    talk.text("a", "lo", final=False, now=0)

    [spoken] = talk.cut({"a": 340})
    assert (spoken.item.text, spoken.heard_ms, spoken.interrupted) == ("Hello", 340, True)


def test_final_text_replaces_the_pieces_before_it(talk):
    talk.text("a", "Helo", final=False, now=0)
    talk.text("a", "Hello.", final=True, now=0)

    assert talk.items["a"].text == "Hello."


def test_a_long_call_does_not_remember_every_item(talk):
    for number in range(1000):
        talk.audio(f"item{number}", 160, now=number)
        talk.complete(f"item{number}")
        talk.settled({f"item{number}": 20})

    assert len(talk.items) == 32
    assert talk.open_items == []
