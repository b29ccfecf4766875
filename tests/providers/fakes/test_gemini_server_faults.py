"""Every fault of the Gemini server, as the official SDK meets it."""

import asyncio

import numpy as np
import pytest
from google.genai import errors, types
from websockets.exceptions import InvalidStatus

from providers.fakes.faults import SERVED, Service
from providers.fakes.speech import Tone, render
from providers.types import PCM16_24K
from tests.kit.gemini import gemini_server
from tests.kit.gemini_talk import TALK, config, serving, talk

HELLO, GOOD = render(Tone(440, 300), PCM16_24K), render(Tone(500, 400), PCM16_24K)
LONG = TALK.replace("ms: 300", "ms: 30000")
TOOL = """
speech: {speed: 50}
steps:
  - {on: greeting, call: {tool: lookup, arguments: {}}}
  - {on: {tool_result: lookup}, say: {tone: 500, ms: 200, text: Found}}
  - {on: caller_turn, say: {tone: 600, ms: 200, text: Yes}}
"""
SEEN: dict[str, object] = {}
"""The check of each fault by its name."""


def sees(*names):
    def keep(check):
        SEEN.update(dict.fromkeys(names, check))
        return check

    return keep


def contents(message):
    return message.server_content or types.LiveServerContent()


async def greet(caller):
    await caller.session.send_realtime_input(text="Greet the caller.")


async def quiet(caller, seconds=0.4):
    """Nothing comes any more."""
    before = len(caller.messages)
    with pytest.raises(TimeoutError):
        await caller.until(lambda _: False, seconds)
    return len(caller.messages) - before


@sees("status", "late_handshake")
async def handshake(tmp_path):
    async with gemini_server(TALK, "status:429,late_handshake:0.05", folder=tmp_path) as server:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(InvalidStatus) as refused:
            async with talk(server, tmp_path):
                pass
        assert refused.value.response.status_code == 429
        assert asyncio.get_running_loop().time() - begun > 0.05


@sees("close")
async def close(tmp_path):
    async with gemini_server(TALK, "close:1008", folder=tmp_path) as server:
        with pytest.raises(errors.APIError) as closed:
            async with talk(server, tmp_path):
                pass
        assert closed.value.code == 1008


@sees("stall")
async def stall(tmp_path):
    async with serving(tmp_path, LONG, "stall@0.15") as (_, caller):
        await greet(caller)
        await caller.until(lambda message: message.data)
        await asyncio.sleep(0.2)
        await quiet(caller, 0.2)
        assert await quiet(caller) == 0
    async with gemini_server(TALK, "stall", folder=tmp_path) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), talk(server, tmp_path):
                pass


@sees("expire")
async def expire(tmp_path):
    async with serving(tmp_path, faults="expire@0.1") as (_, caller):
        with pytest.raises(errors.APIError) as closed:
            await caller.turn()
        assert closed.value.code == 1011
        assert not [message for message in caller.messages if message.go_away]


@sees("error", "unknown_event")
async def unknown(tmp_path):
    async with serving(tmp_path, faults="unknown_event@0.05,error@0.1") as (_, caller):
        for _ in range(2):
            with pytest.raises(TypeError):
                await caller.turn()
        await greet(caller)
        await caller.turn()
        assert caller.voice == HELLO


@sees("garbage")
async def garbage(tmp_path):
    async with serving(tmp_path, faults="garbage@0.05") as (_, caller):
        with pytest.raises(ValueError, match="Failed to parse response"):
            await caller.turn()


@sees("no_audio")
async def no_audio(tmp_path):
    async with serving(tmp_path, faults="no_audio#1") as (_, caller):
        await greet(caller)
        await caller.turn()
        assert caller.voice == b""
        await greet(caller)
        await caller.turn()
        assert caller.voice == HELLO


@sees("slow_arguments")
async def slow_arguments(tmp_path):
    async with serving(tmp_path, TOOL, "slow_arguments:0.3", config("lookup")) as (_, caller):
        begun = asyncio.get_running_loop().time()
        await greet(caller)
        await caller.until(lambda message: message.tool_call)
        assert asyncio.get_running_loop().time() - begun >= 0.29


@sees("huge_delta")
async def huge_delta(tmp_path):
    async with serving(tmp_path, faults="huge_delta#1") as (_, caller):
        await greet(caller)
        message = await caller.until(lambda message: message.data)
        assert len(message.data) >= 800_000


@sees("late_deltas")
async def late_deltas(tmp_path):
    async with serving(tmp_path, LONG.replace("50}", "2}"), "late_deltas:3") as (_, caller):
        await greet(caller)
        await caller.until(lambda message: message.data)
        await caller.say(200)
        await caller.until(lambda message: contents(message).interrupted)
        caller.voice = b""
        await caller.turn()
        assert len(caller.voice) > 3 * 40 * 48


@sees("stray_deltas")
async def stray_deltas(tmp_path):
    async with serving(tmp_path, LONG.replace("50}", "2}"), "stray_deltas:1") as (_, caller):
        await greet(caller)
        await caller.until(lambda message: message.data)
        await caller.say(200, 0)
        await caller.turn()
        caller.voice = b""
        await caller.until(lambda message: message.data)
        assert len(caller.voice) >= 40 * 48


@sees("transcript")
async def transcript(tmp_path):
    async with serving(tmp_path, faults="transcript:late") as (_, caller):
        await caller.say()
        await caller.turn()
        assert caller.contents("input_transcription") == []
        await caller.until(lambda message: contents(message).input_transcription)


@sees("no_pong", "late_pong")
async def pongs(tmp_path):
    arguments = {"ping_interval": 0.1, "ping_timeout": 0.3}
    async with gemini_server(TALK, folder=tmp_path) as server:
        async with talk(server, tmp_path, socket=arguments) as caller:
            await quiet(caller, 0.8)
    for fault in ("no_pong", "late_pong:60"):
        async with gemini_server(TALK, fault, folder=tmp_path) as server:
            async with talk(server, tmp_path, socket=arguments) as caller:
                with pytest.raises(errors.APIError) as closed:
                    await caller.turn()
                assert closed.value.code == 1006


@sees("slow_reader")
async def slow_reader(tmp_path):
    async with gemini_server(TALK, "slow_reader:60", folder=tmp_path) as server:
        async with talk(server, tmp_path, socket={"write_limit": 1024, "close_timeout": 0.01}) as caller:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(caller.say(120_000), 1)
            caller.session._ws.transport.abort()  # a polite end would wait, too
        assert len(server.sessions[-1].input_audio) <= 2 * 640


@sees("rejected")
async def rejected(tmp_path):
    async with serving(tmp_path, faults="rejected:PROHIBITED_INPUT_CONTENT#1") as (_, caller):
        await greet(caller)
        end = await caller.turn()
        assert contents(end).turn_complete_reason == "PROHIBITED_INPUT_CONTENT"
        assert caller.voice == b""


@sees("silent_audio")
async def silent_audio(tmp_path):
    async with serving(tmp_path, faults="silent_audio:4#1") as (_, caller):
        await greet(caller)
        await caller.turn()
        assert len(caller.voice) == len(HELLO)
        assert np.abs(np.frombuffer(caller.voice, np.int16)).max() == 4


@sees("die")
async def die(tmp_path):
    async with serving(tmp_path, faults="die:1011#1") as (_, caller):
        await greet(caller)
        with pytest.raises(errors.APIError) as closed:
            await caller.turn()
        assert closed.value.code == 1011
        assert 0 < len(caller.voice) < len(HELLO)


@sees("thoughts")
async def thoughts(tmp_path):
    async with serving(tmp_path, faults="thoughts#1") as (_, caller):
        await greet(caller)
        await caller.turn()
        parts = [part for turn in caller.contents("model_turn") for part in turn.parts]
        assert [part.thought for part in parts if part.text] == [True]
        assert caller.voice == HELLO


@sees("phantom_interrupted", "freeze")
async def phantom(tmp_path):
    async with serving(tmp_path, LONG, "phantom_interrupted@0.2,freeze") as (_, caller):
        await greet(caller)
        await caller.until(lambda message: contents(message).interrupted)
        await caller.turn()
        caller.voice = b""
        await caller.say()
        await greet(caller)
        await quiet(caller)
        assert caller.voice == b""


@sees("no_interrupted")
async def no_interrupted(tmp_path):
    async with serving(tmp_path, LONG, "no_interrupted") as (_, caller):
        await greet(caller)
        await caller.until(lambda message: message.data)
        await caller.say()
        await caller.turn()
        caller.voice = b""
        await caller.turn()
        assert caller.voice == GOOD
        assert caller.contents("interrupted") == []


@sees("ignored_text")
async def ignored_text(tmp_path):
    async with serving(tmp_path, faults="ignored_text") as (_, caller):
        await greet(caller)
        await quiet(caller)
        assert caller.voice == b""
        await greet(caller)
        await caller.turn()
        assert caller.voice == HELLO


@sees("no_cancellation")
async def no_cancellation(tmp_path):
    setup = config("lookup", behavior="BLOCKING")
    async with serving(tmp_path, TOOL, "no_cancellation", setup) as (_, caller):
        await wedged(caller)


@sees("wedge")
async def wedge(tmp_path):
    async with serving(tmp_path, TOOL, "wedge:0", config("lookup")) as (_, caller):
        await wedged(caller)


async def wedged(caller):
    """A caller who speaks gets no answer until the call has one."""
    await greet(caller)
    [call] = (await caller.until(lambda message: message.tool_call)).tool_call.function_calls
    await caller.say()
    await quiet(caller)
    assert caller.voice == b""
    assert not [message for message in caller.messages if message.tool_call_cancellation]
    answer = types.FunctionResponse(id=call.id, name=call.name, response={"output": "x"})
    await caller.session.send_tool_response(function_responses=answer)
    await caller.until(lambda message: message.data)


@sees("no_activity")
async def no_activity(tmp_path):
    for fault, announced in (("", True), ("no_activity", False)):
        async with serving(tmp_path, faults=fault) as (_, caller):
            await caller.say()
            await caller.turn()
            assert any(message.voice_activity for message in caller.messages) is announced


@sees("tool_audio")
async def tool_audio(tmp_path):
    async with serving(tmp_path, TOOL, "tool_audio", config("lookup", behavior="BLOCKING")) as (_, caller):
        await greet(caller)
        await caller.until(lambda message: message.tool_call)
        await caller.say(20, 0)
        with pytest.raises(errors.APIError) as closed:
            await caller.turn()
        assert closed.value.code == 1008


@sees("go_away", "deadline", "hush")
async def go_away(tmp_path):
    async with serving(tmp_path, faults="go_away:30@0.05,deadline:0.3,hush") as (_, caller):
        message = await caller.until(lambda message: message.go_away)
        assert message.go_away.time_left == "30s"
        await greet(caller)
        with pytest.raises(errors.APIError) as closed:
            await caller.turn()
        assert closed.value.code == 1011
        assert caller.voice == b""


@sees("refuse_resume", "no_handles")
async def resumption(tmp_path):
    async with gemini_server(TALK, "refuse_resume:1007", folder=tmp_path) as server:
        async with talk(server, tmp_path) as caller:
            handle = await caller.handle()
        with pytest.raises(errors.APIError) as closed:
            async with talk(server, tmp_path, config(session_resumption={"handle": handle})):
                pass
        assert closed.value.code == 1007
    async with serving(tmp_path, faults="no_handles") as (_, caller):
        assert await caller.handle() is None


@pytest.mark.parametrize("name", sorted(SERVED[Service.GEMINI]))
async def test_the_sdk_meets_the_fault(tmp_path, name):
    await SEEN[name](tmp_path)
