"""Which tool calls run, which we answer ourselves, and that none is answered twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.openai.calls import CallBook
from providers.openai.messages import FunctionCall


def call(call_id: str, *, completed: bool = True) -> FunctionCall:
    return FunctionCall(call_id, "lookup_caller", "{}" if completed else '{"phone":', completed)


def test_the_completed_calls_of_a_completed_response_run_as_one_batch() -> None:
    book = CallBook()
    todo, refused = book.settle("resp_1", (call("call_1"), call("call_2")), run=True)
    assert [(each.call_id, each.response_id) for each in todo] == [("call_1", "resp_1"), ("call_2", "resp_1")]
    assert refused == ()


def test_a_call_runs_once_however_often_it_is_announced() -> None:
    book = CallBook()
    book.announce("resp_1", call("call_9", completed=False))
    book.announce("resp_1", call("call_9"))
    todo, _ = book.settle("resp_1", (call("call_9"),), run=True)
    assert [each.call_id for each in todo] == ["call_9"]
    assert book.settle("resp_1", (call("call_9"),), run=True) == ((), ())


def test_a_call_that_only_its_item_told_of_runs_too() -> None:
    book = CallBook()
    book.announce("resp_1", call("call_1"))
    todo, _ = book.settle("resp_1", (), run=True)
    assert [each.arguments for each in todo] == ["{}"]


def test_an_incomplete_form_does_not_replace_the_completed_one() -> None:
    book = CallBook()
    book.announce("resp_1", call("call_1"))
    book.announce("resp_1", call("call_1", completed=False))
    todo, _ = book.settle("resp_1", (), run=True)
    assert [each.arguments for each in todo] == ["{}"]


def test_a_half_written_call_is_refused_even_in_a_completed_response() -> None:
    book = CallBook()
    todo, refused = book.settle("resp_1", (call("call_1"), call("call_2", completed=False)), run=True)
    assert [each.call_id for each in todo] == ["call_1"]
    assert [each.call_id for each in refused] == ["call_2"]


def test_no_call_of_an_interrupted_response_runs() -> None:
    book = CallBook()
    book.announce("resp_1", call("call_2", completed=False))
    todo, refused = book.settle("resp_1", (call("call_1"),), run=False)
    assert todo == ()
    assert sorted(each.call_id for each in refused) == ["call_1", "call_2"]
    assert not book.answer("call_1")


def test_a_call_is_answered_once() -> None:
    book = CallBook()
    book.settle("resp_1", (call("call_1"),), run=True)
    assert book.answer("call_1")
    assert not book.answer("call_1")
    assert not book.answer("call_x")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["announce", "settle", "answer"]), st.integers(0, 3), st.booleans()))
)
def test_every_call_is_answered_at_most_once_and_never_both_run_and_refused(steps) -> None:
    book = CallBook()
    ran: list[str] = []
    refused: list[str] = []
    answered: list[str] = []
    for step, n, flag in steps:
        match step:
            case "announce":
                book.announce(f"resp_{n % 2}", call(f"call_{n}", completed=flag))
            case "settle":
                todo, no = book.settle(f"resp_{n % 2}", (call(f"call_{n}"),), run=flag)
                ran += [each.call_id for each in todo]
                refused += [each.call_id for each in no]
            case "answer" if book.answer(f"call_{n}"):
                answered.append(f"call_{n}")
    assert len(set(ran + refused)) == len(ran + refused)
    assert len(set(answered)) == len(answered)
    assert set(answered) <= set(ran)
