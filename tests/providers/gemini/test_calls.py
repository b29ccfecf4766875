"""The book of tool calls."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.gemini.calls import CallBook
from providers.gemini.messages import AnswerCall, FunctionCall, Turn
from tools.types import ToolResult, ToolStatus


def asked(call_id: str | None, arguments: bytes = b"{}") -> FunctionCall:
    return FunctionCall(call_id, "look", msgspec.Raw(arguments))


def ok(call_id: str) -> ToolResult:
    return ToolResult(call_id, "look", ToolStatus.OK)


def test_a_call_without_an_id_is_answered_without_one() -> None:
    book = CallBook("g")
    (call, other) = book.request([asked(None), asked("")], "r")
    assert (call.call_id, other.call_id) == ("g-call-1", "g-call-2")
    told = book.answer(ok("g-call-1")).told("")
    assert isinstance(told, AnswerCall)
    assert told.call_id == ""


def test_the_newest_answers_come_again_until_they_are_saved() -> None:
    book = CallBook("g")
    book.request([asked("a"), asked("b")], "r")
    book.answer(ok("a"))
    book.cover()
    book.save()
    assert book.answers_again == ()
    book.answer(ok("b"))
    book.rewind()
    assert [(entry.call.call_id, entry.known) for entry in book.answers_again] == [("b", True)]


def test_a_call_after_the_save_is_not_known_after_the_rewind() -> None:
    book = CallBook("g")
    book.save()
    book.request([asked("a")], "r")
    book.rewind()
    assert isinstance(book.answer(ok("a")).told("WHEN_IDLE"), Turn)


KINDS = st.sampled_from(["call", "answer", "cancel", "cover", "save", "rewind"])
STEPS = st.lists(st.tuples(KINDS, st.sampled_from("abcd")), max_size=40)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_each_call_is_settled_once_whatever_happens(steps: list[tuple[str, str]]) -> None:
    book, called, settled = CallBook("g"), set(), []
    for step, call_id in steps:
        match step:
            case "call":
                new = book.request([asked(call_id)], "r")
                assert bool(new) == (call_id not in called)
                called.add(call_id)
            case "answer":
                settled += [call_id] if book.answer(ok(call_id)) else []
            case "cancel":
                settled += book.cancel([call_id])
            case "cover":
                book.cover()
            case "save":
                book.save()
            case _:
                book.rewind()
    assert len(settled) == len(set(settled))
    assert book.pending == bool(called - set(settled))
