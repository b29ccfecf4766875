"""Tool calls reach the call as the model made them, and each gets exactly one answer."""

from __future__ import annotations

import json

from providers.fakes.speech import Tone, render
from providers.types import AudioDelta, AudioDone, ToolCallsCancelled, ToolCallsRequested
from tests.providers.contract.call import ANSWER, KNOWLEDGE, LOOKUP, ok, settled
from tests.providers.contract.far import Trouble
from tests.providers.contract.kinds import KINDS
from tests.providers.contract.needs import needs
from tools.types import ToolResult, ToolStatus

ONE = """
    speech: {speed: 50}
    hearing: {transcript_after_ms: 0}
    otherwise: silence
    steps:
      - {on: greeting, call: {tool: lookup_caller}}
      - {on: {tool_result: lookup_caller}, say: {tone: 440, ms: 300, text: "You are Ada"}}
      - {on: caller_turn, heard: "Hello?", say: {tone: 500, ms: 500, text: "One moment"}}
"""
TWO = """
    speech: {speed: 50}
    otherwise: silence
    steps:
      - on: greeting
        call: [{tool: lookup_caller}, {tool: query_knowledge, arguments: {query: "Öffnungszeiten “heute”"}}]
      - {on: {tool_result: [lookup_caller, query_knowledge]}, say: {tone: 440, ms: 300, text: "Until six"}}
"""
SPOKEN = """
    speech: {speed: 50}
    otherwise: silence
    steps:
      - on: greeting
        say: {tone: 500, ms: 500, text: "Let me look"}
        call: {tool: lookup_caller}
      - {on: {tool_result: lookup_caller}, say: {tone: 440, ms: 300, text: "You are Ada"}}
"""
CHAIN = """
    speech: {speed: 50}
    otherwise: silence
    steps:
      - {on: greeting, call: {tool: lookup_caller}}
      - {on: {tool_result: lookup_caller}, call: {tool: query_knowledge, arguments: {query: "Ada"}}}
      - {on: {tool_result: query_knowledge}, say: {tone: 440, ms: 300, text: "You are Ada"}}
"""
FOUND = Tone(440, 300)


async def asked(call) -> list:
    """Let the model ask for its tools; returns the calls."""
    await call.session.respond()
    await call.hear(ToolCallsRequested)
    return list(call.of(ToolCallsRequested)[-1].calls)


async def answer(call, *results: ToolResult) -> None:
    for result in results:
        await call.session.send_tool_result(result)
    await call.session.respond()


async def test_a_call_has_a_name_arguments_and_an_id(dial) -> None:
    async with dial(ONE) as call:
        [wanted] = await asked(call)
        assert wanted.name == "lookup_caller"
        assert json.loads(wanted.arguments or "{}") == {}
        assert wanted.call_id


async def test_arguments_arrive_as_the_model_wrote_them(dial) -> None:
    async with dial(TWO) as call:
        calls = await asked(call)
        assert json.loads(calls[1].arguments) == {"query": "Öffnungszeiten “heute”"}


async def test_parallel_calls_come_together_and_in_order(dial) -> None:
    async with dial(TWO) as call:
        calls = await asked(call)
        assert [wanted.name for wanted in calls] == ["lookup_caller", "query_knowledge"]
        assert len({wanted.call_id for wanted in calls}) == 2
        assert len({wanted.response_id for wanted in calls}) == 1


async def test_a_result_arrives_as_it_is(dial) -> None:
    data = {"name": "Ada “L”", "orders": [1, 2.5, None, True], "deep": {"ü": "漢字"}}
    async with dial(ONE) as call:
        [wanted] = await asked(call)
        result = ok(wanted, **data)
        await answer(call, result)
        await call.hear_speech(FOUND)
        assert call.far.answers() == [(wanted.call_id, json.loads(result.to_json()))]


async def test_the_model_speaks_when_it_has_the_result(dial) -> None:
    async with dial(ONE) as call:
        await answer(call, *(ok(wanted) for wanted in await asked(call)))
        await call.hear_speech(FOUND)
        assert call.far.complaints() == []


async def test_the_model_speaks_once_when_it_has_all_results(dial) -> None:
    async with dial(TWO) as call:
        await answer(call, *(ok(wanted) for wanted in await asked(call)))
        await call.hear_speech(FOUND)
        assert len(call.of(AudioDone)) == 1
        assert call.far.unanswered() == 0


async def test_results_may_come_in_any_order(dial) -> None:
    async with dial(TWO) as call:
        calls = await asked(call)
        await answer(call, *(ok(wanted, of=wanted.name) for wanted in reversed(calls)))
        await call.hear_speech(FOUND)
        given = {call_id: result["data"]["of"] for call_id, result in call.far.answers()}
        assert given == {wanted.call_id: wanted.name for wanted in calls}


async def test_each_call_is_answered_exactly_once(dial) -> None:
    async with dial(TWO) as call:
        calls = await asked(call)
        for wanted in calls:
            for n in range(3):
                await call.session.send_tool_result(ok(wanted, n=n))
        await call.session.respond()
        await call.hear_speech(FOUND)
        assert [(call_id, result["data"]) for call_id, result in call.far.answers()] == [
            (wanted.call_id, {"n": 0}) for wanted in calls
        ]
        assert call.far.complaints() == []


async def test_the_result_of_an_unknown_call_is_ignored(dial) -> None:
    async with dial(ONE) as call:
        await call.session.send_tool_result(ToolResult("call_unknown", "lookup_caller", ToolStatus.OK))
        [wanted] = await asked(call)
        await answer(call, ok(wanted))
        await call.hear_speech(FOUND)
        assert [call_id for call_id, _ in call.far.answers()] == [wanted.call_id]
        assert call.far.complaints() == []


async def test_a_failure_is_a_result_like_any_other(dial) -> None:
    async with dial(ONE) as call:
        [wanted] = await asked(call)
        result = ToolResult(wanted.call_id, wanted.name, ToolStatus.FAILED, reason_code="backend_down")
        await answer(call, result)
        await call.hear_speech(FOUND)
        [(_, given)] = call.far.answers()
        assert (given["ok"], given["status"], given["reason_code"]) == (False, "failed", "backend_down")


async def test_a_large_result_arrives_whole(dial) -> None:
    async with dial(ONE) as call:
        [wanted] = await asked(call)
        await answer(call, ok(wanted, pages=["x" * 1000] * 60))
        await call.hear_speech(FOUND)
        [(_, given)] = call.far.answers()
        assert given["data"] == {"pages": ["x" * 1000] * 60}


async def test_speech_before_a_call_is_heard(dial) -> None:
    async with dial(SPOKEN) as call:
        calls = await asked(call)
        assert render(ANSWER, call.session.output) in call.voice()
        await answer(call, *map(ok, calls))
        await settled(lambda: render(FOUND, call.session.output) in call.voice())
        await settled(lambda: call.far.unanswered() == 0)


async def test_a_result_may_lead_to_another_call(dial) -> None:
    async with dial(CHAIN) as call:
        [first] = await asked(call)
        await answer(call, ok(first))
        await call.hear(ToolCallsRequested)
        [second] = call.of(ToolCallsRequested)[-1].calls
        assert second.name == "query_knowledge"
        assert second.call_id != first.call_id
        await answer(call, ok(second))
        await call.hear_speech(FOUND)
        assert [call_id for call_id, _ in call.far.answers()] == [first.call_id, second.call_id]


async def test_the_model_may_talk_while_a_tool_takes_long(dial) -> None:
    async with dial(ONE) as call:
        [wanted] = await asked(call)
        await call.say()
        await call.hear_speech(ANSWER)
        assert call.far.unanswered() == 1
        await answer(call, ok(wanted))
        await call.hear_speech(FOUND)
        assert call.far.unanswered() == 0
        assert call.far.complaints() == []


async def test_a_result_that_comes_while_the_caller_speaks_is_not_lost(dial) -> None:
    async with dial(ONE) as call:
        [wanted] = await asked(call)
        await call.say(400, pause_ms=0)
        await answer(call, ok(wanted))
        await call.say(200)
        await call.hear(AudioDelta)
        await settled(lambda: call.far.unanswered() == 0)
        assert [call_id for call_id, _ in call.far.answers()] == [wanted.call_id]


async def test_a_caller_who_hangs_up_during_a_tool_leaves_nothing(dial) -> None:
    async with dial.far(ONE) as far:
        async with dial.on(far) as call:
            [wanted] = await asked(call)
            session = call.session
        await session.send_tool_result(ok(wanted))
        await session.respond()
        await settled(lambda: far.connections() == 0)
        assert far.answers() == []


@needs(Trouble.CUT_CALL)
async def test_a_call_that_was_cut_never_runs_and_is_not_left_open(dial) -> None:
    async with dial(SPOKEN, Trouble.CUT_CALL) as call:
        await call.session.respond()
        await call.hear(AudioDone)
        await settled(lambda: call.far.unanswered() == 0)
        await call.say()
        assert call.of(ToolCallsRequested) == []


@needs(Trouble.CANCELLED_CALL)
async def test_the_result_of_a_call_that_was_cancelled_is_not_sent(dial) -> None:
    async with dial(ONE, Trouble.CANCELLED_CALL) as call:
        [wanted] = await asked(call)
        await call.say()
        await call.hear(ToolCallsCancelled)
        assert call.of(ToolCallsCancelled)[0].call_ids == (wanted.call_id,)
        await answer(call, ok(wanted))
        await call.ask()
        await call.hear(AudioDone)
        assert call.far.answers() == []
        assert call.far.complaints() == []


async def test_every_provider_is_given_the_same_results(dial) -> None:
    """Each is compared with the first, so all are the same."""
    given = []
    for kind in (KINDS[0], dial.kind):
        async with type(dial)(kind)(TWO, tools=(LOOKUP, KNOWLEDGE)) as call:
            calls = await asked(call)
            await answer(call, *(ok(wanted, text="“ü”", n=[1, {"a": None}]) for wanted in calls))
            await call.hear_speech(FOUND)
            given.append([result for _, result in call.far.answers()])
    assert given[0] == given[1]
