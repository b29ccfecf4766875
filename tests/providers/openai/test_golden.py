"""The golden transcripts of the service, said to us over a real socket through the real SDK."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager

import pytest

from providers.errors import SessionLost
from providers.types import (
    PCMU,
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    SpeechStarted,
    SpeechStopped,
    ToolCallsRequested,
)
from tests.providers.openai.hand_server import HandServer, setup
from tests.providers.openai.transcripts import server_events, transcript
from tools.types import AgentToolDefinition, ToolResult, ToolStatus

WEATHER = AgentToolDefinition(
    "get_weather",
    "Weather by city",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CREATED, UPDATED, *TURN = server_events("turn")
TOOL, BARGE, MISC = server_events("tool"), server_events("barge"), server_events("misc")


class Golden:
    """A session, the server that says what stands in the transcripts, and what was told of it."""

    def __init__(self, server: HandServer, session) -> None:
        self.server = server
        self.session = session
        self.events: list = []

    async def say(self, events: list[dict], *, until: type, times: int = 1) -> list:
        """Let the server say so, and take events until so many of ``until`` came."""
        await self.server.send(*events)
        told: list = []
        async with asyncio.timeout(10):
            while sum(isinstance(event, until) for event in told) < times:
                told.append(await anext(self.session))
        self.events += told
        return told

    async def heard(self, kind: str) -> dict:
        """Return our next event of this kind."""
        async with asyncio.timeout(10):
            while (event := await self.server.receive())["type"] != kind:
                pass
        return event


@asynccontextmanager
async def golden():
    server = HandServer(greeting=[CREATED], on_update=lambda update: [UPDATED])
    async with server, server.provider().connect(setup(tools=(WEATHER,))) as session:
        yield Golden(server, session)


async def test_the_session_is_the_one_of_the_transcript() -> None:
    async with golden() as call:
        assert (call.session.input, call.session.output) == (PCMU, PCMU)
        [[_, wanted]] = [each for each in transcript("turn") if each[0] == "C" and "session" in each[1]]
        [ours] = call.server.updates
        assert set(ours["session"]) <= set(wanted["session"])
        assert set(ours["session"]["audio"]["input"]) == set(wanted["session"]["audio"]["input"])
        assert ours["session"]["tools"] == wanted["session"]["tools"]
        for side in ("input", "output"):
            assert ours["session"]["audio"][side]["format"] == wanted["session"]["audio"][side]["format"]


async def test_a_turn_is_told_as_it_happened() -> None:
    async with golden() as call:
        told = await call.say(TURN, until=ResponseDone)
        assert [type(event) for event in told if not isinstance(event, CallerTranscript)] == [
            SpeechStarted,
            Interrupted,
            SpeechStopped,
            AgentTranscript,
            AudioDelta,
            AudioDone,
            AgentTranscript,
            ResponseDone,
        ]
        words = [event for event in told if isinstance(event, CallerTranscript)]
        assert [(event.text, event.final) for event in words] == [
            ("", False),
            ("Hi", False),
            ("Hi there", True),
        ]
        assert next(event.audio for event in told if isinstance(event, AudioDelta)) == base64.b64decode(
            "/////w=="
        )
        assert [event.text for event in told if isinstance(event, AgentTranscript) and event.final] == [
            "Hello, how can I help?"
        ]
        used = call.session.usage
        assert (used.text_in, used.cached_text_in, used.audio_in) == (119 - 64, 64, 13)
        assert (used.text_out, used.audio_out) == (30, 91)


async def test_a_tool_is_called_and_answered_as_in_the_transcript() -> None:
    async with golden() as call:
        before = TOOL[: next(at for at, event in enumerate(TOOL) if event["type"] == "response.done") + 1]
        told = await call.say(before, until=ResponseDone)
        [batch] = [event for event in told if isinstance(event, ToolCallsRequested)]
        [wanted] = batch.calls
        assert (wanted.call_id, wanted.name, json.loads(wanted.arguments)) == (
            "call_1",
            "get_weather",
            {"city": "Paris"},
        )
        await call.session.send_tool_result(
            ToolResult("call_1", "get_weather", ToolStatus.OK, data={"temp_c": 21})
        )
        await call.session.respond()
        answer = await call.heard("conversation.item.create")
        assert answer["item"]["type"] == "function_call_output"
        assert answer["item"]["call_id"] == "call_1"
        assert json.loads(answer["item"]["output"])["data"] == {"temp_c": 21}
        await call.heard("response.create")


async def test_a_barge_in_is_cut_as_in_the_transcript() -> None:
    speech = {"output_index": 0, "content_index": 0, "response_id": "resp_3", "item_id": "item_a3"}
    delta = base64.b64encode(bytes(8 * 2000)).decode()
    async with golden() as call:
        await call.say(
            [
                {"type": "response.created", "response": {"id": "resp_3", "status": "in_progress"}},
                {"type": "response.output_audio.delta", "event_id": "event_1", **speech, "delta": delta},
            ],
            until=AudioDelta,
        )
        await call.say(BARGE[:1], until=Interrupted)
        await call.session.interrupt(item_id="item_a3", heard_ms=1140)
        told = await call.say(BARGE[1:], until=ResponseDone)
        assert (told[-1].status, told[-1].reason) == (ResponseStatus.CANCELLED, "turn_detected")
        [[_, wanted]] = [each for each in transcript("barge") if each[0] == "C"]
        cut = await call.heard("conversation.item.truncate")
        assert {key: cut[key] for key in wanted} == wanted


async def test_what_else_the_service_may_say_is_borne() -> None:
    """Errors without consequence, idle time, MCP, responses that fail: all but the end of the session."""
    quiet = [event for event in MISC if event.get("error", {}).get("code") != "session_expired"]
    async with golden() as call:
        told = await call.say(quiet, until=ResponseDone, times=2)
        assert [(event.status, event.reason) for event in told if isinstance(event, ResponseDone)] == [
            (ResponseStatus.FAILED, "server_error"),
            (ResponseStatus.INCOMPLETE, "max_output_tokens"),
        ]
        assert {event.code for event in told if isinstance(event, ProviderWarning)} <= {"no_answer"}
        told = await call.say(TURN, until=AudioDone)
        assert any(isinstance(event, AudioDelta) for event in told)


@pytest.mark.report("BR-110")
async def test_the_end_of_an_hour_is_a_loss_that_another_session_cures() -> None:
    [expired] = [event for event in MISC if event.get("error", {}).get("code") == "session_expired"]
    async with golden() as call:
        with pytest.raises(SessionLost) as caught:
            await call.say([expired], until=ResponseDone)
        assert caught.value.code == "session_expired"
        assert not caught.value.final


async def test_the_transcripts_one_after_the_other_in_one_session() -> None:
    async with golden() as call:
        await call.say(TURN, until=ResponseDone)
        await call.say(TOOL, until=ToolCallsRequested)
        await call.say(BARGE, until=Interrupted)
        [expired] = [event for event in MISC if event.get("error", {}).get("code") == "session_expired"]
        with pytest.raises(SessionLost):
            await call.say([*(event for event in MISC if event is not expired), expired], until=Golden)
