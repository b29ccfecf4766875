"""Calls of the Gemini server and their answers."""

import pytest

from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K, PCM16_24K
from tests.kit.gemini import TOOLS, dial, functions


def test_calls_that_do_not_block_end_the_turn_and_are_spoken_about_when_idle():
    line = dial(TOOLS)
    line.say("Greet the caller.")
    line.run(0.5)
    assert [(call["name"], call["args"]) for call in line.calls()] == [
        ("lookup", {}),
        ("search", {"query": "hours"}),
    ]
    assert len(line.all("toolCall")) == 1
    assert "turnComplete" in line.kinds
    assert line.all("sessionResumptionUpdate")[-1]["resumable"] is False
    first, second = line.calls()
    line.answer(second)
    line.run(0.5)
    assert line.session.turns == 1
    line.answer(first, output="x")
    line.run(0.5)
    assert line.voice().endswith(render(Tone(500, 300), PCM16_24K))
    assert line.session.conversation.unanswered == ()
    assert line.all("sessionResumptionUpdate")[-1]["resumable"] is True


def test_a_result_waits_until_the_model_has_finished():
    line = dial(TOOLS.replace("ms: 400", "ms: 4000"))
    line.say("Greet the caller.")
    line.run(0.5)
    line.answer(*line.calls())
    line.run(3)
    assert line.session.turns == 1
    line.run(1)
    assert line.session.turns == 2
    assert "interrupted" not in line.kinds


def test_a_result_may_interrupt_the_model():
    line = dial(TOOLS.replace("ms: 400", "ms: 4000"))
    line.say("Greet the caller.")
    line.run(1)
    line.answer(*line.calls(), scheduling="INTERRUPT")
    line.run(1)
    assert "interrupted" in line.kinds
    assert line.voice().endswith(render(Tone(500, 300), PCM16_24K))


def test_a_result_that_would_interrupt_waits_for_the_caller_who_speaks():
    line = dial(TOOLS)
    line.say("Greet the caller.")
    line.run(1)
    line.speak(400)
    line.answer(*line.calls(), scheduling="INTERRUPT")
    assert line.session.turns == 1
    line.audio(silence(520, PCM16_16K))
    line.run(1)
    assert line.session.turns == 2
    assert line.voice().endswith(render(Tone(500, 300), PCM16_24K))


def test_a_silent_result_is_only_remembered():
    line = dial(TOOLS)
    line.say("Greet the caller.")
    line.run(1)
    line.answer(*line.calls(), scheduling="SILENT")
    line.run(5)
    assert line.session.turns == 1
    assert line.all("sessionResumptionUpdate")[-1]["resumable"] is True
    line.turn()
    line.run(1)
    assert line.voice().endswith(render(Tone(500, 300), PCM16_24K))


def test_calls_that_block_hold_the_turn_until_all_are_answered():
    line = dial(TOOLS, behavior="BLOCKING")
    line.say("Greet the caller.")
    line.run(30)
    assert "generationComplete" not in line.kinds
    assert "turnComplete" not in line.kinds
    first, second = line.calls()
    line.answer(first)
    line.run(5)
    assert "generationComplete" not in line.kinds
    line.answer(second)
    line.run(5)
    assert line.voice() == render(Tone(440, 400), PCM16_24K) + render(Tone(500, 300), PCM16_24K)
    assert line.kinds.count("turnComplete") == 1


def test_a_barge_in_cancels_the_calls_that_block():
    line = dial(TOOLS, behavior="BLOCKING")
    line.say("Greet the caller.")
    line.run(1)
    calls = line.calls()
    line.forget()
    line.turn(300)
    assert line.all("toolCallCancellation") == [{"ids": [call["id"] for call in calls]}]
    assert line.kinds[1:4] == ["toolCallCancellation", "interrupted", "turnComplete"]
    line.run(1)
    assert line.voice() == render(Tone(700, 300), PCM16_24K)
    conversation = line.session.conversation
    assert conversation.unanswered == ()
    assert conversation.cancelled == {call["id"] for call in calls}


def test_a_barge_in_cancels_no_call_that_does_not_block():
    line = dial(TOOLS)
    line.say("Greet the caller.")
    line.run(0.1)
    line.turn(300)
    line.run(3)
    assert "toolCallCancellation" not in line.kinds
    assert len(line.session.conversation.unanswered) == 2
    assert line.voice().endswith(render(Tone(700, 300), PCM16_24K))


def test_a_call_that_blocks_and_is_never_answered_wedges_the_session():
    """Fault 21."""
    line = dial(TOOLS, "no_cancellation", behavior="BLOCKING")
    line.say("Greet the caller.")
    line.run(1)
    calls = line.calls()
    line.turn(300)
    line.say("Are you there?")
    line.run(60)
    assert line.session.turns == 1
    line.answer(*calls)
    line.run(1)
    assert line.session.turns == 2
    assert line.voice().endswith(render(Tone(500, 300), PCM16_24K))


def test_answers_are_counted():
    line = dial(TOOLS)
    line.say("Greet the caller.")
    line.run(1)
    first, second = line.calls()
    line.answer(first)
    line.answer(first)
    line.answer({"id": "function-call-99", "name": "lookup"})
    conversation = line.session.conversation
    assert conversation.unanswered == (second["id"],)
    assert conversation.answered_twice == (first["id"],)
    assert conversation.strays == ["function-call-99"]


def test_a_part_of_an_answer_leaves_the_call_open():
    line = dial(TOOLS)
    line.say("Greet the caller.")
    line.run(1)
    answers = [
        {"id": call["id"], "name": call["name"], "response": {}, "willContinue": True}
        for call in line.calls()
    ]
    line.send(toolResponse={"functionResponses": answers})
    assert len(line.session.conversation.unanswered) == 2


@pytest.mark.parametrize("missing", ["id", "name"])
def test_an_answer_needs_the_id_and_the_name_of_its_call(missing):
    line = dial(TOOLS)
    line.say("Greet the caller.")
    line.run(1)
    answer = {"id": line.calls()[0]["id"], "name": "lookup", "response": {}}
    del answer[missing]
    line.send(toolResponse={"functionResponses": [answer]})
    assert line.session.closing.code == 1007


def test_two_messages_of_calls_are_answered_each_for_itself():
    script = """
    speech: {speed: 10}
    steps:
      - {on: greeting, call: {tool: search}}
      - {on: caller_turn, call: {tool: lookup}}
      - {on: {tool_result: lookup}, say: {tone: 500, ms: 300, text: Found}}
      - {on: {tool_result: search}, say: {tone: 600, ms: 300, text: Searched}}
    """
    line = dial(script)
    line.say("Greet the caller.")
    line.turn(300)
    line.run(1)
    slow, quick = line.calls()
    line.answer(quick)
    line.run(1)
    assert line.voice() == render(Tone(500, 300), PCM16_24K)
    line.answer(slow)
    line.run(1)
    assert line.voice().endswith(render(Tone(600, 300), PCM16_24K))


def test_a_search_of_the_services_own_is_told_with_the_end_of_the_turn():
    script = """
    steps:
      - on: greeting
        say: {tone: 440, ms: 100, text: Six}
        call: [{tool: google_search, arguments: {query: hours}}, {tool: lookup}]
    """
    both = [{"googleSearch": {}}, *functions(None, "lookup")]
    line = dial(script, setup={"tools": both})
    line.say("Greet the caller.")
    line.run(1)
    assert [call["name"] for call in line.calls()] == ["lookup"]
    assert [each["webSearchQueries"] for each in line.all("groundingMetadata")] == [["hours"]]
    without = dial(script)
    without.say("Greet the caller.")
    without.run(1)
    assert [call["name"] for call in without.calls()] == ["google_search", "lookup"]


def test_arguments_that_are_no_json_end_the_turn():
    line = dial("steps: [{on: greeting, call: {tool: lookup, arguments_text: '{bad'}}]")
    line.say("Greet the caller.")
    assert line.messages[-2]["serverContent"] == {
        "turnComplete": True, "turnCompleteReason": "MALFORMED_FUNCTION_CALL",
    }  # fmt: skip
    assert line.calls() == []
