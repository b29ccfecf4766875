"""
The provider against the shipped Live server, which shares no code with it.

The server checks each message that it sends with the SDK's types and each that it receives against the
documentation, so a mistake that both tests and code of ``providers/gemini`` make shows here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from config.providers import GeminiSettings
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.fakes.faults import Service, parse_faults
from providers.fakes.gemini_server import GeminiFakeServer
from providers.fakes.speech import Tone, render, silence
from providers.gemini import GeminiProvider
from providers.types import (
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    Said,
    SessionEnding,
    SpeechStopped,
    ToolCallsCancelled,
    ToolCallsRequested,
)
from tests.kit.gemini import authority_of, gemini_server
from tests.providers.gemini.hand_server import LOOKUP, setup
from tests.providers.gemini.listener import Listener
from tools.types import AgentToolDefinition, CallUpdate, ToolResult, ToolStatus

KNOWLEDGE = AgentToolDefinition(
    "query_knowledge",
    "Searches the handbook.",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
TALK = """
speech: {speed: 20}
hearing: {transcript_after_ms: 0}
steps:
  - {on: {text: "broke"}, say: {tone: 700, ms: 400, text: "As I said"}}
  - {on: greeting, say: {tone: 440, ms: 400, text: "Hello, who is there"}}
  - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 400, text: "Good to hear you"}}
  - {on: caller_turn, heard: "Good bye", say: {tone: 600, ms: 400, text: "Goodbye"}}
otherwise: {tone: 300, ms: 200, text: "Yes"}
"""
LONG = TALK.replace("440, ms: 400", "440, ms: 6000")
TOOLS = """
speech: {speed: 20}
steps:
  - {on: {text: "result of"}, say: {tone: 520, ms: 300, text: "Until seven"}}
  - on: greeting
    say: {tone: 440, ms: 300, text: "Let me look"}
    call: [{tool: lookup_caller}, {tool: query_knowledge, arguments: {query: hours}}]
  - {on: {tool_result: [lookup_caller, query_knowledge]}, say: {tone: 500, ms: 300, text: "Until six"}}
otherwise: {tone: 300, ms: 200, text: "Yes"}
"""


class Caller(Listener):
    """A call that hears events and speaks to the model, as fast as the loop can."""

    def __init__(self, server: GeminiFakeServer, session) -> None:
        super().__init__(session)
        self.server = server

    async def say(self, ms: int = 800, *, pause_ms: int = 900) -> None:
        audio = render(Tone(300, ms), self.session.input) + silence(pause_ms, self.session.input)
        size = self.session.input.bytes_per_ms * 20
        for at in range(0, len(audio), size):
            await self.session.send_audio(audio[at : at + size])

    @property
    def other_side(self):
        return self.server.sessions[-1]

    def received(self, key: str) -> list[dict]:
        """What the server got over all connections, in order."""
        return [
            each.message[key]
            for session in self.server.sessions
            for each in session.received
            if key in each.message
        ]

    def said(self) -> list[str]:
        return [event.text for event in self.of(AgentTranscript) if event.final]

    async def connections(self, count: int) -> None:
        await settled(lambda: len(self.server.sessions) >= count and self.other_side.setup is not None)


def provider(server: GeminiFakeServer, folder: Path, **more) -> GeminiProvider:
    fields = {"api_key": "AIza-test", "base_url": server.url, "ca_file": authority_of(folder), **more}
    return GeminiProvider(GeminiSettings(**fields))


@asynccontextmanager
async def talk(
    folder: Path, script: str = TALK, faults: str = "", *, model: str | None = None, server=None, **more
) -> AsyncIterator[Caller]:
    chosen = {} if model is None else {"model": model}
    async with gemini_server(script, faults, folder=folder, **(server or {})) as running:
        made = provider(running, folder, **chosen)
        async with made.connect(setup(**{"tools": (LOOKUP, KNOWLEDGE), **more})) as session:
            async with Caller(running, session) as caller:
                yield caller


async def settled(condition: Callable[[], bool]) -> None:
    """Let both sides run until the server has seen what it must see."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def results(event: ToolCallsRequested) -> list[ToolResult]:
    return [ToolResult(call.call_id, call.name, ToolStatus.OK, data={"x": 1}) for call in event.calls]


# Conversations.


@pytest.mark.parametrize("model", ["gemini-3.8-live", "gemini-2.5-flash-native-audio-preview-12-2025", None])
async def test_greeting_question_and_answer(tmp_path, model) -> None:
    async with talk(tmp_path, model=model) as call:
        await call.session.respond(instructions="Greet the caller.")
        await call.until(ResponseDone)
        await call.say()
        await call.until(ResponseDone, 2)
        assert call.said() == ["Hello, who is there", "Good to hear you"]
        assert [event.text for event in call.of(CallerTranscript) if event.final] == ["It is me"]
        assert len(call.of(SpeechStopped)) == 1
        assert sum(len(event.audio) for event in call.of(AudioDelta)) == 800 * 48
        assert len(call.of(AudioDone)) == 2
        usage = call.session.usage
        assert usage.audio_in > 0
        assert usage.audio_out > 0


async def test_a_model_without_client_content_is_greeted_by_text(tmp_path) -> None:
    async with talk(tmp_path, model="gemini-3.1-flash-live-preview") as call:
        await call.session.respond(instructions="Greet the caller.")
        await call.until(ResponseDone)
        assert call.received("realtimeInput")[0] == {"text": "[Greet the caller.]"}


async def test_fault_34_an_ignored_text_is_said_again(tmp_path) -> None:
    async with talk(tmp_path, faults="ignored_text:1", model="gemini-3.1-flash-live-preview") as call:
        await call.session.respond(instructions="Greet the caller.")
        await call.until(ResponseDone)
        assert [warning.code for warning in call.of(ProviderWarning)] == ["no_answer_yet"]


async def test_the_caller_barges_in_and_the_model_learns_what_was_heard(tmp_path) -> None:
    async with talk(tmp_path, LONG) as call:
        await call.session.respond(instructions="Greet the caller.")
        item_id = (await call.until(AudioDelta, 10))[0].item_id
        await call.say()
        await call.until(Interrupted)
        await call.session.interrupt(item_id=item_id, heard_ms=300)
        done = await call.until(ResponseDone, 2)
        assert [event.status for event in done] == [ResponseStatus.CANCELLED, ResponseStatus.COMPLETED]
        notes = [each for each in call.received("clientContent") if not each["turnComplete"]]
        assert "interrupted" in notes[0]["turns"][0]["parts"][0]["text"]
        assert call.said()[-1] == "Good to hear you"


@pytest.mark.parametrize(
    "model",
    ["gemini-3.8-live", "gemini-2.5-flash-native-audio-preview-12-2025", "gemini-3.1-flash-live-preview"],
)
async def test_tools_are_called_and_their_results_are_spoken_about(tmp_path, model: str) -> None:
    async with talk(tmp_path, TOOLS, model=model) as call:
        await call.session.respond(instructions="Greet the caller.")
        request = (await call.until(ToolCallsRequested))[0]
        assert [(each.name, json.loads(each.arguments)) for each in request.calls] == [
            ("lookup_caller", {}),
            ("query_knowledge", {"query": "hours"}),
        ]
        for result in results(request):
            await call.session.send_tool_result(result)
            await call.session.send_tool_result(result)
        await call.session.respond()
        await settled(lambda: "Until six" in "".join(event.text for event in call.of(AgentTranscript)))
        conversation = call.other_side.conversation
        assert (conversation.unanswered, conversation.answered_twice, conversation.strays) == ((), (), [])
        assert len(call.received("toolResponse")) == 2


async def test_a_barge_in_cancels_blocking_calls_and_their_answers_are_not_sent(tmp_path) -> None:
    async with talk(tmp_path, TOOLS, model="gemini-3.1-flash-live-preview") as call:
        await call.session.respond(instructions="Greet the caller.")
        request = (await call.until(ToolCallsRequested))[0]
        await call.say()
        cancelled = (await call.until(ToolCallsCancelled))[0]
        assert set(cancelled.call_ids) == {each.call_id for each in request.calls}
        for result in results(request):
            await call.session.send_tool_result(result)
        await call.until(ResponseDone)
        assert call.received("toolResponse") == []


async def test_fault_25_an_old_model_gets_no_audio_during_a_call(tmp_path) -> None:
    blocking = "gemini-live-2.5-flash-native-audio"
    async with gemini_server(TOOLS, "tool_audio", folder=tmp_path) as server:
        made = provider(server, tmp_path, model="gemini-2.5-flash-native-audio-preview-12-2025")
        assert blocking != made.name
        async with made.connect(setup(tools=(LOOKUP, KNOWLEDGE))) as session, Caller(server, session) as call:
            await session.respond(instructions="Greet the caller.")
            request = (await call.until(ToolCallsRequested))[0]
            heard = len(call.other_side.input_audio)
            await call.say(200, pause_ms=0)
            for result in results(request):
                await session.send_tool_result(result)
            await session.send_audio(bytes(640))
            await settled(lambda: len(call.other_side.input_audio) == heard + 200 * 32 + 640)


async def test_keys_and_notes_reach_the_model(tmp_path) -> None:
    keys = '  - {on: {dtmf: "5"}, say: {tone: 410, ms: 200, text: "Five"}}'
    script = TALK.replace("steps:", f"steps:\n{keys}")
    async with talk(tmp_path, script) as call:
        await call.session.send_text("DTMF 5 pressed")
        await call.session.respond()
        await call.until(ResponseDone)
        assert call.said() == ["Five"]


async def test_history_is_told_and_not_answered(tmp_path) -> None:
    history = (Said("caller", "My name is Ann."), Said("agent", "Hello Ann."))
    async with talk(tmp_path, history=history) as call:
        await settled(lambda: len(call.received("clientContent")) == 1)
        await call.say()
        await call.until(ResponseDone)
        assert call.said() == ["Good to hear you"]
        assert call.other_side.turns == 1


async def test_prompt_and_tools_change_in_a_running_session(tmp_path) -> None:
    async with talk(tmp_path) as call:
        await call.session.update(CallUpdate(1, prompt="You sell boots.", tools=(LOOKUP,)))
        await settled(lambda: len(call.received("contextUpdate")) == 1)
        made = call.other_side.setup
        assert made.instructions.startswith("You sell boots.")


# Faults.


async def test_a_rejected_turn_is_told_and_can_be_asked_for_again(tmp_path) -> None:
    async with talk(tmp_path, faults="rejected#1") as call:
        await call.session.respond(instructions="Greet the caller.")
        await call.until(ResponseDone)
        await call.session.respond(instructions="Greet the caller.")
        done = await call.until(ResponseDone, 2)
        assert [event.status for event in done] == [ResponseStatus.FAILED, ResponseStatus.COMPLETED]
        assert done[0].reason == "response_rejected"
        assert call.said() == ["Hello, who is there"]


@pytest.mark.parametrize("faults", ["unknown_event@0.05", "garbage@0.05", "error:3@0.05", "thoughts#1"])
async def test_fault_38_strange_frames_do_not_end_the_session(tmp_path, faults: str) -> None:
    async with talk(tmp_path, faults=faults) as call:
        await asyncio.sleep(0.1)
        await call.session.respond(instructions="Greet the caller.")
        await call.until(ResponseDone)
        assert call.said() == ["Hello, who is there"]


async def test_fault_33_an_interruption_that_is_not_told_ends_the_turn_all_the_same(tmp_path) -> None:
    async with talk(tmp_path, LONG, "no_interrupted") as call:
        await call.session.respond(instructions="Greet the caller.")
        await call.until(AudioDelta, 5)
        await call.say()
        await call.until(ResponseDone, 2)
        assert call.said()[-1] == "Good to hear you"


async def test_fault_32_after_a_phantom_interruption_and_a_freeze_the_call_is_told(tmp_path) -> None:
    async with talk(tmp_path, LONG, "phantom_interrupted@0.1,freeze") as call:
        await call.session.respond(instructions="Greet the caller.")
        await call.until(Interrupted)
        await call.session.respond(instructions="Are you there?")
        await settled(lambda: any(w.code == "no_answer_yet" for w in call.of(ProviderWarning)))


@pytest.mark.parametrize("code", ["401", "403", "404"])
async def test_a_refused_key_is_rejected(tmp_path, code: str) -> None:
    async with gemini_server(TALK, f"status:{code}", folder=tmp_path) as server:
        with pytest.raises(ProviderRejected) as caught:
            async with provider(server, tmp_path).connect(setup()):
                pass
    assert caught.value.code == code


async def test_a_wrong_key_is_refused_and_is_not_in_the_message(tmp_path) -> None:
    async with gemini_server(TALK, folder=tmp_path, api_key="AIza-right") as server:
        with pytest.raises(ProviderRejected) as caught:
            async with provider(server, tmp_path).connect(setup()):
                pass
    assert "AIza" not in str(caught.value)


async def test_an_unknown_model_is_rejected(tmp_path) -> None:
    async with gemini_server(TALK, folder=tmp_path) as server:
        with pytest.raises(ProviderRejected) as caught:
            async with provider(server, tmp_path, model="gemini-99").connect(setup()):
                pass
    assert caught.value.code == "1008"


async def test_an_overloaded_server_is_unavailable(tmp_path) -> None:
    async with gemini_server(TALK, "status:503", folder=tmp_path) as server:
        with pytest.raises(ProviderUnavailable):
            async with provider(server, tmp_path).connect(setup()):
                pass


# Connections.


@pytest.mark.report("BR-110")
async def test_a_connection_that_ends_is_left_before_and_nobody_hears_it(tmp_path) -> None:
    async with talk(tmp_path, faults="go_away:60@0.5") as call:
        call.server.faults = parse_faults("", Service.GEMINI)  # for the connections to come
        await call.session.respond(instructions="Greet the caller.")
        await call.until(ResponseDone)
        await call.connections(2)
        while not call.other_side.input_audio:  # until then only the last second is kept, and we speak faster
            await call.session.send_audio(bytes(640))
            await asyncio.sleep(0.005)
        await call.say()
        await call.until(ResponseDone, 2)
        assert call.said() == ["Hello, who is there", "Good to hear you"]
        assert call.of(ProviderWarning) == call.of(SessionEnding) == []
        assert call.server.sessions[1].setup.handle


async def test_fault_28_a_silent_server_is_left_at_its_deadline(tmp_path) -> None:
    async with talk(tmp_path, LONG, "go_away:5.5@0.15,hush") as call:
        call.server.faults = parse_faults("", Service.GEMINI)  # for the connections to come
        await call.session.respond(instructions="Greet the caller.")
        await call.connections(2)
        await call.until(ResponseDone)
        await call.session.respond()
        await settled(lambda: "As I said" in "".join(event.text for event in call.of(AgentTranscript)))


@pytest.mark.parametrize("code", [1011, 1006])
async def test_fault_24_a_death_in_mid_sentence_is_resumed_and_the_model_goes_on(tmp_path, code: int) -> None:
    async with talk(tmp_path, LONG, f"die:{code}#1") as call:
        call.server.faults = parse_faults("", Service.GEMINI)  # for the connections to come
        await call.session.respond(instructions="Greet the caller.")
        done = await call.until(ResponseDone, 1)
        assert done[0].status is ResponseStatus.CANCELLED
        await settled(lambda: "As I said" in "".join(event.text for event in call.of(AgentTranscript)))
        assert [warning.code for warning in call.of(ProviderWarning)] == ["connection_lost"]


async def test_fault_24_a_session_that_breaks_every_connection_is_given_up(tmp_path) -> None:
    async with talk(tmp_path, LONG, "die:1011#1") as call:
        await call.session.respond(instructions="Greet the caller.")
        assert (await call.loss()).code == "1011"
        assert len(call.server.sessions) == 3


@pytest.mark.parametrize("refusal", [1007, 1008])
async def test_fault_27_a_handle_that_is_refused_is_no_way_back(tmp_path, refusal: int) -> None:
    async with talk(tmp_path, TALK, f"close:1011@0.3,refuse_resume:{refusal}") as call:
        assert (await call.loss()).code == str(refusal)


async def test_fault_29_tools_that_run_over_a_change_are_answered_once(tmp_path) -> None:
    async with talk(tmp_path, TOOLS, "go_away:60@0.3") as call:
        await call.session.respond(instructions="Greet the caller.")
        request = (await call.until(ToolCallsRequested))[0]
        await asyncio.sleep(0.5)
        assert len(call.server.sessions) == 1
        for result in results(request):
            await call.session.send_tool_result(result)
        await call.session.respond()
        await call.connections(2)
        assert "Until six" in "".join(event.text for event in call.of(AgentTranscript))
        assert len(call.received("toolResponse")) == 2


async def test_fault_29_a_result_that_the_resumed_session_does_not_know_is_told_in_words(tmp_path) -> None:
    async with talk(tmp_path, TOOLS) as call:
        await call.session.respond(instructions="Greet the caller.")
        request = (await call.until(ToolCallsRequested))[0]
        call.session._socket.transport.abort()
        await call.connections(2)
        for result in results(request):
            await call.session.send_tool_result(result)
        await call.session.respond()
        await settled(lambda: "Until seven" in "".join(event.text for event in call.of(AgentTranscript)))
        assert call.received("toolResponse") == []


async def test_without_handles_a_close_is_the_end(tmp_path) -> None:
    async with talk(tmp_path, TALK, "no_handles,close:1011@0.2") as call:
        assert (await call.loss()).code == "1011"


async def test_without_handles_going_away_is_told(tmp_path) -> None:
    async with talk(tmp_path, TALK, "no_handles,go_away:50@0.2") as call:
        assert 49 < (await call.until(SessionEnding))[0].after <= 50


async def test_another_voice_is_heard_from_the_next_connection(tmp_path) -> None:
    async with talk(tmp_path, voice="Kore") as call:
        await call.session.respond(instructions="Greet the caller.")
        await call.until(ResponseDone)
        await call.session.update(CallUpdate(1, voice="Puck"))
        await call.connections(2)
        assert call.server.sessions[1].setup.voice == "Puck"


async def test_fault_35_silent_audio_is_passed_on_for_the_call_to_judge(tmp_path) -> None:
    async with talk(tmp_path, TALK, "silent_audio:0#1") as call:
        await call.session.respond(instructions="Greet the caller.")
        await call.until(ResponseDone)
        assert set(b"".join(event.audio for event in call.of(AudioDelta))) == {0}
