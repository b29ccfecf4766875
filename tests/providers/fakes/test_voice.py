"""The fake provider behind the seam, on the event loop."""

import asyncio

import pytest

from providers.base import Provider
from providers.errors import ProviderRejected, ProviderUnavailable, SessionLost
from providers.fakes.script import ScriptError
from providers.fakes.speech import Tone, render, silence
from providers.fakes.voice import FakeVoiceProvider
from providers.types import (
    PCM16_24K,
    PCMA,
    PCMU,
    AgentTranscript,
    AudioDelta,
    CallerTranscript,
    Part,
    ResponseDone,
    SessionSetup,
    ToolCallsRequested,
    TurnModel,
    Updatable,
)
from tools.types import CallUpdate, ToolResult, ToolStatus

QUICK = """
speech: {speed: 500}
hearing: {transcript_after_ms: 0}
steps:
  - {on: greeting, say: {tone: 440, ms: 1000, text: "Hello"}}
  - {on: caller_turn, heard: "Who am I", call: {tool: lookup_caller}}
  - {on: {tool_result: lookup_caller}, say: {tone: 440, ms: 500, text: "You are Ada"}}
"""


def setup(line=PCMU):
    return SessionSetup(prompt="p", addendum="", tools=(), line=line)


async def until(session, kind):
    events = []
    async with asyncio.timeout(5):
        async for event in session:
            events.append(event)
            if isinstance(event, kind):
                return events
    raise AssertionError(f"the session ended before {kind.__name__}: {events}")


async def test_a_whole_conversation(script_of):
    provider: Provider = FakeVoiceProvider(script_of(QUICK), "desk")
    assert provider.name == "desk"
    async with provider.connect(setup()) as session:
        await session.respond(instructions="Greet the caller.")
        events = await until(session, ResponseDone)
        assert b"".join(e.audio for e in events if isinstance(e, AudioDelta)) == render(Tone(440, 1000), PCMU)
        caller = render(Tone(300, 400), PCMU) + silence(600, PCMU)
        for at in range(0, len(caller), 160):
            await session.send_audio(caller[at : at + 160])
        events = await until(session, ToolCallsRequested)
        (call,) = events[-1].calls
        await session.send_tool_result(ToolResult(call.call_id, call.name, ToolStatus.OK))
        await session.respond()
        for _ in ("the call", "the answer"):
            events += await until(session, ResponseDone)
        assert [event.text for event in events if isinstance(event, CallerTranscript)] == ["Who am I"]
        assert events[-2] == AgentTranscript("item_2", "You are Ada", final=True)


def test_it_takes_g711_both_ways_and_everything_can_change(script_of):
    capabilities = FakeVoiceProvider(script_of("steps: []")).capabilities
    assert capabilities.inputs == capabilities.outputs == (PCMU, PCMA)
    assert capabilities.turn_model is TurnModel.TURN_BASED
    assert capabilities.truncates
    assert capabilities.cancels
    assert not capabilities.resumes
    assert capabilities.updates == dict.fromkeys(Part, Updatable.LIVE)


@pytest.mark.parametrize(
    ("formats", "line", "wanted"),
    [("[pcmu, pcma]", PCMA, PCMA), ("[pcmu]", PCMA, PCMU), ("[pcm16_24k]", PCMU, PCM16_24K)],
)
async def test_it_takes_the_format_of_the_line_where_it_can(script_of, formats, line, wanted):
    provider = FakeVoiceProvider(script_of(f"{{formats: {formats}, steps: []}}"))
    async with provider.connect(setup(line)) as session:
        assert (session.input, session.output) == (wanted, wanted)


@pytest.mark.parametrize(
    ("word", "error"), [("refuse", ProviderUnavailable), ("reject_key", ProviderRejected)]
)
async def test_it_refuses_a_connection_as_the_script_says(script_of, word, error):
    provider = FakeVoiceProvider(script_of(f"{{connect: {word}, steps: []}}"))
    with pytest.raises(error):
        async with provider.connect(setup()):
            pass
    assert not provider.sessions


async def test_it_hangs_as_the_script_says(script_of):
    provider = FakeVoiceProvider(script_of("{connect: hang, steps: []}"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02), provider.connect(setup()):
            pass


async def test_a_lost_session_raises_in_the_iteration_and_nowhere_else(script_of):
    provider = FakeVoiceProvider(script_of("{lose_after: 0.01, steps: []}"))
    async with provider.connect(setup()) as session:
        with pytest.raises(SessionLost):
            async for _ in session:
                pass
        await session.send_audio(silence(20, PCMU))
        await session.send_text("hello")
        await session.respond()
        await session.interrupt(item_id="item_1", heard_ms=0)
        with pytest.raises(ProviderRejected):
            await session.update(CallUpdate(expected_revision=1, prompt="Other."))


async def test_leaving_ends_the_iteration(script_of):
    provider = FakeVoiceProvider(script_of("steps: []"))

    async def read(session):
        return [event async for event in session]

    async with asyncio.TaskGroup() as tasks:
        async with provider.connect(setup()) as session:
            reader = tasks.create_task(read(session))
            await asyncio.sleep(0)
        async with asyncio.timeout(1):
            assert await reader == []
    assert session.closed


async def test_sessions_do_not_share_anything(script_of):
    provider = FakeVoiceProvider(script_of(QUICK))
    async with provider.connect(setup()) as one, provider.connect(setup()) as two:
        await one.respond()
        await until(one, ResponseDone)
        await two.respond()
        assert [e.text for e in await until(two, ResponseDone) if isinstance(e, AgentTranscript)][
            -1
        ] == "Hello"
    assert list(provider.sessions) == [one, two]


def test_without_a_script_it_is_a_receptionist():
    assert FakeVoiceProvider().script.scenes[0].steps


def test_a_bad_script_is_refused_when_the_provider_is_made(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("steps: [{on: greting}]")
    with pytest.raises(ScriptError, match="greting"):
        FakeVoiceProvider(path)
