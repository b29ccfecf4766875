"""Tool calls of a conversation, and what becomes of it over another connection."""

from __future__ import annotations

import json

import pytest

from providers.types import (
    NO_ANSWER,
    AudioDelta,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    ToolCallsCancelled,
    ToolCallsRequested,
)
from tests.providers.gemini.talk import (
    FLASH_31,
    GENERATED,
    INTERRUPTED,
    NATIVE_25,
    Talk,
    activity,
    caller,
    calls,
    over,
    says,
    voice,
)
from tools.types import ToolCall, ToolResult, ToolStatus

CANCELLED = ResponseStatus.CANCELLED


def ok(call_id: str, name: str = "lookup", **data) -> ToolResult:
    return ToolResult(call_id, name, ToolStatus.OK, data=data)


# Tools.


@pytest.mark.report("BR-125")
def test_fault_21_every_call_has_exactly_one_answer_with_its_id_and_name() -> None:
    wanted = (("f1", "lookup_caller"), ("f2", "does_not_exist"), ("f3", "query_knowledge"))
    talk = Talk().hear(calls(*wanted))
    assert [call.call_id for call in talk.of(ToolCallsRequested)[0].calls] == ["f1", "f2", "f3"]
    for call_id, name in reversed(wanted):
        result = ToolResult(call_id, name, ToolStatus.FAILED, reason_code="x")
        talk.answer(result).answer(result)
    talk.answer(ok("f9")).respond()
    assert [(each["id"], each["name"]) for each in talk.answered()] == list(reversed(wanted))


@pytest.mark.report("BR-133")
def test_tools_begin_with_their_call_and_not_at_the_end_of_the_turn() -> None:
    talk = Talk().hear(calls(("f1", "lookup_caller")))
    assert talk.of(ToolCallsRequested) == [
        ToolCallsRequested("g-response-1", (ToolCall("f1", "lookup_caller", "{}", "g-response-1"),))
    ]
    assert talk.of(ResponseDone) == []


@pytest.mark.report("BR-121")
def test_a_call_without_arguments_has_empty_ones() -> None:
    frames = [
        {"toolCall": {"functionCalls": [{"id": "a", "name": "end_call"}]}},
        {"toolCall": {"functionCalls": [{"id": "b", "name": "end_call", "args": None}]}},
        {"toolCall": {"functionCalls": [{"id": "c", "name": "end_call", "args": {"x": [1, "ü"]}}]}},
    ]
    found = [event.calls[0].arguments for event in Talk().hear(*frames).of(ToolCallsRequested)]
    assert [json.loads(each) for each in found] == [{}, {}, {"x": [1, "ü"]}]


def test_the_answer_says_that_it_waits_only_where_functions_do_not_block() -> None:
    wanted = Talk().hear(calls(("f1", "x"))).answer(ok("f1")).respond()
    assert wanted.answered()[0]["scheduling"] == "WHEN_IDLE"
    assert "scheduling" not in Talk(FLASH_31).hear(calls(("f1", "x"))).answer(ok("f1")).answered()[0]


def test_an_answer_that_nobody_wants_to_hear_about_is_given_in_silence() -> None:
    talk = Talk().hear(calls(("f1", "end_call"))).answer(ok("f1"))
    assert talk.sent == []
    assert talk.wait(0.3).answered()[0]["scheduling"] == "SILENT"
    assert (talk.wait(60).asked(), talk.of(ProviderWarning)) == ([], [])


def test_instructions_after_an_answer_are_the_only_request() -> None:
    talk = Talk().hear(calls(("f1", "x")), over()).answer(ok("f1")).respond(instructions="Say goodbye.")
    assert talk.answered()[0]["scheduling"] == "SILENT"
    assert talk.asked() == ["[Say goodbye.]"]


def test_after_an_answer_the_server_goes_on_by_itself() -> None:
    talk = Talk().hear(calls(("f1", "x"))).answer(ok("f1")).respond()
    assert talk.asked() == []
    talk.hear(voice(), GENERATED, over()).wait(60)
    assert talk.asked() == []


@pytest.mark.report("BR-137")
@pytest.mark.parametrize(("profile", "after"), [(FLASH_31, 1.5), (None, 5.0)])
def test_a_model_that_waits_after_a_result_is_asked_and_one_that_goes_on_is_not(profile, after) -> None:
    talk = Talk(profile) if profile else Talk()
    talk.hear(calls(("f1", "x"))).answer(ok("f1")).respond().wait(after - 0.1)
    assert talk.asked() == []
    assert talk.wait(0.2).asked() == ["[Please answer now.]"]


def test_a_sentence_that_is_still_played_is_not_cut_by_a_reminder() -> None:
    talk = Talk().hear(voice(9000), calls(("f1", "x"))).answer(ok("f1")).respond()
    assert talk.wait(9.9).asked() == []
    assert talk.wait(0.2).asked() == ["[Please answer now.]"]


def test_a_request_later_than_the_answer_is_one_of_its_own() -> None:
    talk = Talk().hear(calls(("f1", "x"))).answer(ok("f1")).respond().wait(1.5).respond()
    assert talk.asked() == ["[Please answer now.]"]


def test_what_is_said_after_a_result_needs_its_own_request() -> None:
    talk = Talk().hear(calls(("f1", "transfer_call"))).answer(ok("f1")).text("The line is busy.", "system")
    assert talk.respond().asked() == ["[Please answer now.]"]
    assert talk.noted() == [("user", "[The line is busy.]")]


@pytest.mark.report("BR-136")
def test_a_cancelled_call_is_told_and_its_answer_is_not_sent() -> None:
    talk = Talk().hear(calls(("f1", "book")), {"toolCallCancellation": {"ids": ["f1", "f0"]}})
    assert talk.of(ToolCallsCancelled) == [ToolCallsCancelled(("f1",))]
    talk.answer(ok("f1")).hear(calls(("f2", "book"))).answer(ok("f2")).respond()
    assert [each["id"] for each in talk.answered()] == ["f2"]


def test_an_answer_that_has_not_left_yet_is_withdrawn_with_its_call() -> None:
    talk = Talk().hear(calls(("f1", "book"), ("f2", "look"))).answer(ok("f1")).answer(ok("f2"))
    talk.hear({"toolCallCancellation": {"ids": ["f1"]}}).respond()
    assert [each["id"] for each in talk.answered()] == ["f2"]


def test_a_call_that_comes_again_is_not_run_again() -> None:
    talk = Talk().hear(calls(("f1", "book")), calls(("f1", "book")))
    assert len(talk.of(ToolCallsRequested)) == 1


def test_a_response_that_may_not_call_has_its_calls_refused() -> None:
    talk = Talk().respond(instructions="Say goodbye.", tools=False).hear(calls(("f1", "end_call")))
    assert talk.of(ToolCallsRequested) == []
    assert talk.answered()[0]["response"]["reason_code"] == "tools_not_allowed"
    talk.hear(voice(), GENERATED, over(), calls(("f2", "end_call")))
    assert len(talk.of(ToolCallsRequested)) == 1


def test_tools_may_run_while_the_model_talks() -> None:
    talk = Talk().hear(voice(400), calls(("f1", "x")), voice(400), GENERATED, over())
    assert {event.item_id for event in talk.of(AudioDelta)} == {"g-turn-1"}
    assert talk.answer(ok("f1")).hear(voice(), over()).of(AudioDelta)[-1].item_id == "g-turn-2"


def test_fault_22_an_interruption_leaves_the_tools_running() -> None:
    talk = Talk().hear(voice(400), calls(("f1", "x")), INTERRUPTED, over()).answer(ok("f1")).respond()
    assert talk.of(ToolCallsCancelled) == []
    assert [each["id"] for each in talk.answered()] == ["f1"]


def test_nothing_is_owed_while_a_tool_runs() -> None:
    talk = Talk().hear(caller("Book it.", finished=True), calls(("f1", "book"))).wait(60)
    assert (talk.asked(), talk.of(ProviderWarning)) == ([], [])


def test_fault_25_an_old_model_hears_nothing_during_a_call() -> None:
    talk = Talk(NATIVE_25).hear(calls(("f1", "x")))
    assert not talk.conversation.may_hear
    assert talk.answer(ok("f1")).conversation.may_hear
    assert Talk().hear(calls(("f1", "x"))).conversation.may_hear


# Another connection.


def test_what_is_quiet_may_change_the_connection() -> None:
    talk = Talk()
    assert talk.conversation.quiet
    assert not talk.hear(activity("START")).conversation.quiet
    assert not talk.hear(activity("END")).conversation.quiet
    assert not talk.hear(voice(), GENERATED).conversation.quiet
    assert talk.hear(over()).conversation.quiet
    assert not talk.hear(calls(("f1", "x")), over()).conversation.quiet
    assert not talk.answer(ok("f1")).respond().conversation.quiet
    assert talk.hear(voice(), over()).conversation.quiet


def lose(talk: Talk) -> Talk:
    talk.clear().conversation.disconnected(talk.now)
    return talk.take()


def resume(talk: Talk) -> Talk:
    talk.conversation.resumed(talk.now)
    return talk.take()


def test_a_cut_answer_goes_on_where_it_stopped_and_the_server_learns_what_it_cannot_know() -> None:
    talk = Talk()
    talk.conversation.saved()
    talk.hear(caller("Where are you?", finished=True), voice(2000), says("We are in the Main"))
    assert lose(talk).of(ResponseDone) == [ResponseDone("g-response-1", CANCELLED, reason="connection_lost")]
    resume(talk)
    assert talk.noted() == [("user", "Where are you?"), ("model", "We are in the Main")]
    assert talk.asked()[0].startswith("[The connection broke while you were speaking.")


def test_what_the_handle_knows_is_not_told_again() -> None:
    talk = Talk().hear(caller("Hello?", finished=True), voice(), says("Hello!"), over())
    talk.conversation.saved()
    assert resume(lose(talk)).sent == []


def test_a_question_without_an_answer_is_answered_after_the_change() -> None:
    talk = Talk().hear(caller("Are you open?", finished=True))
    assert resume(lose(talk)).asked() == ["[Please answer now.]"]
    assert talk.noted() == [("user", "Are you open?")]


def test_an_answer_to_a_call_that_the_handle_knows_comes_first_and_as_an_answer() -> None:
    talk = Talk().hear(calls(("f1", "book"), ("f2", "look")))
    talk.conversation.saved()
    talk.answer(ok("f1"))
    lose(talk).answer(ok("f2"))
    assert talk.sent == []
    resume(talk)
    assert [each["id"] for each in talk.answered()] == ["f1", "f2"]
    assert "toolResponse" in talk.sent[0]


def test_an_answer_to_a_call_that_the_handle_does_not_know_comes_as_words_and_once() -> None:
    talk = Talk()
    talk.conversation.saved()
    talk.hear(calls(("f1", "book"), ("f2", "look"))).answer(ok("f1", id=7))
    resume(lose(talk))
    talk.answer(ok("f2")).answer(ok("f2")).respond()
    assert talk.answered() == []
    assert [words.split(" with ")[0] for _, words in talk.noted()] == [
        "[The result of book",
        "[The result of look",
    ]
    assert talk.asked() == ["[Please answer now.]"]


def test_a_request_made_without_a_connection_waits_for_one() -> None:
    talk = lose(Talk())
    talk.text("DTMF 5 pressed").respond()
    assert talk.sent == []
    assert talk.conversation.next_timeout() is None
    resume(talk)
    assert talk.noted() == [("user", "DTMF 5 pressed")]
    assert len(talk.asked()) == 1


def test_a_model_that_stays_silent_on_the_next_connection_too_is_told_of() -> None:
    talk = Talk().respond(instructions="Greet.").wait(6.1)
    assert talk.conversation.stuck
    resume(lose(talk))
    assert talk.asked() == ["[Greet.]"]
    assert not talk.conversation.stuck
    assert talk.wait(3.1).of(ProviderWarning)[-1].code == NO_ANSWER
