"""The operator's settings at the shipped server, which refuses a session for one unknown key."""

from __future__ import annotations

import asyncio
import textwrap
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from config.providers import OpenAISettings
from config.turns import TurnDetection
from providers.errors import ProviderRejected
from providers.fakes.openai_server import OpenAIFakeServer
from providers.fakes.script_parser import parse_script
from providers.fakes.speech import Tone, render, silence
from providers.openai import OpenAIProvider
from providers.types import AgentTranscript, AudioDelta, CallerTranscript, ResponseDone
from tests.providers.openai.hand_server import setup
from tools.types import CallUpdate

SCRIPT = """
    speech: {speed: 50}
    hearing: {transcript_after_ms: 0}
    steps:
      - {on: greeting, say: {tone: 440, ms: 300, text: "Hello"}}
      - {on: caller_turn, repeat: true, heard: "Yes", say: {tone: 500, ms: 300, text: "Good"}}
      - {on: idle, say: {tone: 600, ms: 300, text: "Are you still there"}}
"""
EVERYTHING = {
    "turn_detection": {"end_by": "meaning", "eagerness": "high"},
    "noise_reduction": {"type": "far_field", "strength": 0.5},
    "transcription_keywords": ["Trunkline"],
    "transcription_prompt": "Calls to a bakery.",
    "reasoning_effort": "low",
    "parallel_tool_calls": False,
    "max_output_tokens": 1024,
    "speed": 1.1,
}


@asynccontextmanager
async def session(own: dict | None = None, **settings):
    script = parse_script(textwrap.dedent(SCRIPT), Path("settings.yaml"))
    turns = None if own is None else TurnDetection.model_validate(own)
    async with OpenAIFakeServer(script, validate=True) as server:
        provider = OpenAIProvider(
            OpenAISettings.model_validate({"api_key": "sk-test", "base_url": server.url, **settings})
        )
        async with provider.connect(setup(turn_detection=turns)) as opened:
            yield opened, server.sessions[-1]


async def until(opened, kind: type, *, times: int = 1) -> list:
    told: list = []
    async with asyncio.timeout(20):
        while sum(isinstance(event, kind) for event in told) < times:
            told.append(await anext(opened))
    return told


async def say(opened, ms: int, pause_ms: int) -> None:
    audio = render(Tone(300, ms), opened.input) + silence(pause_ms, opened.input)
    for at in range(0, len(audio), 160):
        await opened.send_audio(audio[at : at + 160])


async def test_the_server_takes_every_setting() -> None:
    async with session(**EVERYTHING) as (opened, far):
        applied = far.config.session
        assert applied["audio"]["input"]["turn_detection"]["type"] == "semantic_vad"
        assert applied["audio"]["input"]["noise_reduction"] == {"type": "far_field", "strength": 0.5}
        assert applied["audio"]["input"]["transcription"]["keywords"] == ["Trunkline"]
        assert applied["audio"]["output"]["speed"] == 1.1
        assert (applied["reasoning"], applied["parallel_tool_calls"]) == ({"effort": "low"}, False)
        assert applied["max_output_tokens"] == 1024
        await say(opened, 500, 400)
        assert any(isinstance(event, AudioDelta) for event in await until(opened, ResponseDone))


async def test_an_update_in_mid_speech_leaves_voice_and_speed_alone() -> None:
    async with session(**EVERYTHING) as (opened, far):
        await opened.respond()
        await until(opened, AudioDelta)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(until(opened, CallerTranscript))
            await opened.update(CallUpdate(1, prompt="Other."))
            listening.cancel()
        assert far.config.instructions == "Other.\n\n## Tools"
        assert far.config.session["audio"]["output"]["speed"] == 1.1


@pytest.mark.parametrize(("own", "answered"), [(None, True), ({"silence_ms": 3000}, False)])
async def test_an_agent_that_waits_longer_is_not_answered_for(own: dict | None, answered: bool) -> None:
    """A caller hesitates for a second: the provider's half a second is over, not the agent's three."""
    async with session(own) as (opened, far):
        await say(opened, 500, 1000)
        await opened.send_text("done")
        while "conversation.item.create" not in [each.type for each in far.received]:
            await asyncio.sleep(0.005)
        assert ("input_audio_buffer.speech_stopped" in [each.type for each in far.sent]) is answered


async def test_a_caller_who_says_nothing_is_asked_and_has_said_no_words() -> None:
    async with session({"idle_timeout_ms": 5000}) as (opened, far):
        await opened.respond()
        await until(opened, ResponseDone)
        told = await until(opened, ResponseDone)
        assert [event.text for event in told if isinstance(event, AgentTranscript) and event.final] == [
            "Are you still there"
        ]
        assert [event for event in told if isinstance(event, CallerTranscript)] == []
        assert "input_audio_buffer.timeout_triggered" in [each.type for each in far.sent]


async def test_a_setting_that_the_server_does_not_take_is_named_at_the_set_up() -> None:
    settings = OpenAISettings.model_validate({"api_key": "sk-test", "base_url": "http://127.0.0.1:1/v1"})
    async with OpenAIFakeServer(parse_script(textwrap.dedent(SCRIPT), Path("s.yaml"))) as server:
        wrong = settings.model_copy(update={"base_url": server.url, "max_output_tokens": 5000})
        with pytest.raises(ProviderRejected) as caught:
            async with OpenAIProvider(wrong).connect(setup()):
                pytest.fail("the whole session was refused")
    assert caught.value.code == "integer_above_max_value"
    assert "max_output_tokens" in str(caught.value)
