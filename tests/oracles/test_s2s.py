"""Our OpenAI provider against the Realtime server of Hugging Face's `speech-to-speech`: speech and turns."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from config.providers import OpenAISettings
from providers.openai import OpenAIProvider
from providers.openai.session import OpenAISession
from providers.types import (
    PCM16_16K,
    PCM16_24K,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ProviderEvent,
    ResponseDone,
    ResponseStatus,
    SessionSetup,
    SpeechStarted,
    SpeechStopped,
    ToolCallsRequested,
)
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.oracles.conftest import part
from tests.oracles.test_aimock_openai import LOOK_UP
from tools.types import ToolResult, ToolStatus

SERVER = Path(__file__).with_name("s2s_server.py")
SPEECH = (np.sin(np.arange(24_000) * 2 * np.pi * 300 / 24_000) * 9_000).astype(np.int16).tobytes()
"""A second of something loud, at the provider's rate."""
SILENCE = bytes(24_000)
"""Half a second."""


@pytest.fixture
def url(ports: Ports, tmp_path: Path) -> Iterator[str]:
    port = ports.take()

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    command = [str(part("s2s") / "bin" / "python"), str(SERVER), str(port)]
    with Process(command, tmp_path / "s2s.log", ready=listens):
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture
async def session(url: str) -> AsyncIterator[OpenAISession]:
    settings = OpenAISettings(api_key="sk-test", base_url=url)
    setup = SessionSetup("You answer the phone.", "", (LOOK_UP,), PCM16_16K)
    async with OpenAIProvider(settings).connect(setup) as session:
        assert session.output == PCM16_24K
        yield session


async def say(session: OpenAISession, audio: bytes) -> None:
    for at in range(0, len(audio), 960):
        await session.send_audio(audio[at : at + 960])


async def until(session: OpenAISession, kind: type[ProviderEvent]) -> list[ProviderEvent]:
    seen: list[ProviderEvent] = []
    async with asyncio.timeout(10):
        async for event in session:
            seen.append(event)
            if isinstance(event, kind):
                break
    return seen


def kinds(seen: list[ProviderEvent]) -> list[type]:
    """Return the kinds of events in their order, runs of one kind as one."""
    found = [type(event) for event in seen]
    return [kind for at, kind in enumerate(found) if at == 0 or kind is not found[at - 1]]


async def test_a_turn_of_the_caller_is_heard_and_answered_with_speech(session):
    await say(session, SPEECH + SILENCE)
    seen = await until(session, ResponseDone)
    order = [kind for kind in kinds(seen) if kind in (SpeechStarted, SpeechStopped, AudioDelta, AudioDone)]
    assert order == [SpeechStarted, SpeechStopped, AudioDelta, AudioDone]
    spoken = b"".join(each.audio for each in seen if isinstance(each, AudioDelta))
    assert abs(len(spoken) - 2 * 48_000) < 4_800
    assert seen[-1].status is ResponseStatus.COMPLETED
    words = [each.text for each in seen if isinstance(each, CallerTranscript) and each.final]
    assert words == ["Somebody said something."]


async def test_an_answer_can_be_asked_for(session):
    await session.send_text("Good morning.")
    await session.respond()
    seen = await until(session, ResponseDone)
    assert AudioDelta in kinds(seen)


async def test_talking_over_an_answer_interrupts_it(session):
    await session.send_text("Good morning.")
    await session.respond()
    first = next(event for event in await until(session, AudioDelta) if isinstance(event, AudioDelta))
    await say(session, SPEECH[:24_000])
    seen = await until(session, Interrupted)
    await session.interrupt(item_id=first.item_id, heard_ms=100)
    await say(session, SILENCE)
    seen += await until(session, AudioDelta)
    assert SpeechStarted in kinds(seen)
    assert seen[-1].item_id != first.item_id


async def test_a_tool_is_called_and_its_result_spoken(session):
    await session.send_text("What are your opening hours?")
    await session.respond()
    seen = await until(session, ResponseDone)
    [request] = [each for each in seen if isinstance(each, ToolCallsRequested)]
    [call] = request.calls
    assert (call.name, call.arguments) == ("query_knowledge", '{"query":"opening hours"}')
    await session.send_tool_result(ToolResult(call.call_id, call.name, ToolStatus.OK, data={"until": "six"}))
    await session.respond()
    assert AudioDelta in kinds(await until(session, ResponseDone))


async def test_requests_while_an_answer_runs_wait_for_its_end(session):
    await session.send_text("Good morning.")
    await session.respond()
    await session.respond()
    done = [
        each
        for _ in range(2)
        for each in await until(session, ResponseDone)
        if isinstance(each, ResponseDone)
    ]
    assert [each.status for each in done] == [ResponseStatus.COMPLETED] * 2
