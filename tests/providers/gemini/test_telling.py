"""What a model is told, and what it is told again."""

from __future__ import annotations

import msgspec

from providers.gemini.calls import CallBook
from providers.gemini.messages import AddTurns, AnswerCall, FunctionCall, SendText, Turn
from providers.gemini.telling import Telling
from tests.providers.gemini.talk import FLASH_31, LIVE, NATIVE_25
from tools.types import ToolResult, ToolStatus


def book(*ids: str) -> CallBook:
    made = CallBook("g")
    made.request([FunctionCall(each, "look", msgspec.Raw(b"{}")) for each in ids], "r")
    return made


def ok(call_id: str) -> ToolResult:
    return ToolResult(call_id, "look", ToolStatus.OK)


def test_history_ends_with_a_complete_turn_only_where_it_was_announced() -> None:
    for profile, complete in ((LIVE, True), (NATIVE_25, False)):
        telling = Telling(profile, book())
        telling.begin(())
        assert telling.take() == []
        telling.begin((Turn("Hi."),))
        assert telling.take() == [AddTurns((Turn("Hi."),), complete)]


def test_notes_are_put_in_at_once_or_with_the_next_request() -> None:
    at_once, later, as_text = (Telling(profile, book()) for profile in (LIVE, NATIVE_25, FLASH_31))
    for telling in (at_once, later, as_text):
        telling.note(Turn("Key 5."))
        telling.ask("Go on.")
    note, request = Turn("Key 5."), Turn("[Go on.]")
    assert at_once.take() == [AddTurns((note,), complete=False), AddTurns((request,), complete=True)]
    assert later.take() == [AddTurns((note, request), complete=True)]
    assert as_text.take() == [SendText("Key 5.\n[Go on.]")]


def test_after_a_change_answers_come_first_then_words_then_results_that_are_not_known() -> None:
    calls = book("f1")
    telling = Telling(LIVE, calls)
    calls.save()
    calls.request([FunctionCall("f2", "book", msgspec.Raw(b"{}"))], "r")
    telling.remember(Turn("Hello?"))
    for call_id in ("f1", "f2"):
        telling.answer(calls.answer(ok(call_id)))
    telling.disconnected()
    telling.note(Turn("not remembered"))
    telling.resumed()
    first, second, third = telling.take()
    assert isinstance(first, AnswerCall)
    assert (first.call_id, first.scheduling) == ("f1", "SILENT")
    assert second == AddTurns((Turn("Hello?"),), complete=False)
    assert third.turns[0].text.startswith("[The result of book with {}: ")


def told_again(telling: Telling) -> list[str]:
    telling.take()
    telling.disconnected()
    telling.resumed()
    return [
        message.call_id if isinstance(message, AnswerCall) else message.turns[0].text
        for message in telling.take()
    ]


def test_what_a_handle_knows_is_not_told_again() -> None:
    calls = book("f1")
    telling = Telling(LIVE, calls)
    telling.remember(Turn("Hello?"))
    telling.answer(calls.answer(ok("f1")))
    telling.release(speak=True)
    telling.cover()
    telling.saved()
    assert told_again(telling) == []


def test_a_handle_that_was_made_while_words_were_on_their_way_does_not_know_them() -> None:
    calls = book("f1")
    telling = Telling(LIVE, calls)
    telling.remember(Turn("Hello?"))
    telling.answer(calls.answer(ok("f1")))
    telling.release(speak=True)
    telling.saved()
    assert told_again(telling) == ["f1", "Hello?"]
    telling.saved()  # the handle of the new connection: made before it was told
    assert told_again(telling) == ["f1", "Hello?"]
    telling.cover()
    telling.saved()
    assert told_again(telling) == []
