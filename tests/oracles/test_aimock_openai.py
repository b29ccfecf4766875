"""Our OpenAI provider against aimock's Realtime server, which knows text and tools but makes no speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from config.providers import OpenAISettings
from providers.openai import OpenAIProvider
from providers.openai.session import OpenAISession
from providers.types import (
    PCMA,
    PCMU,
    AudioDelta,
    ProviderEvent,
    ResponseDone,
    ResponseStatus,
    SessionSetup,
    ToolCallsRequested,
)
from tests.oracles.aimock import Aimock
from tools.types import AgentToolDefinition, ToolResult, ToolStatus

LOOK_UP = AgentToolDefinition(
    "query_knowledge",
    "Looks something up.",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


@pytest.fixture(params=[PCMU, PCMA], ids=["u-law", "A-law"])
async def session(request: pytest.FixtureRequest, aimock: Aimock) -> AsyncIterator[OpenAISession]:
    provider = OpenAIProvider(OpenAISettings(api_key="sk-test", base_url=aimock.url))
    setup = SessionSetup("You answer the phone.", "Look things up.", (LOOK_UP,), request.param)
    async with provider.connect(setup) as session:
        yield session


async def until(session: OpenAISession, kind: type[ProviderEvent], count: int = 1) -> list[ProviderEvent]:
    """Return the events up to the ``count``-th of a kind."""
    seen: list[ProviderEvent] = []
    async with asyncio.timeout(10):
        async for event in session:
            seen.append(event)
            if sum(isinstance(each, kind) for each in seen) == count:
                break
    return seen


async def test_a_session_is_configured_for_the_telephone(session):
    assert session.input == session.output
    assert session.input in (PCMU, PCMA)


async def test_an_answer_without_sound_ends_and_no_audio_came(session):
    await session.send_text("good morning")
    await session.respond()
    seen = await until(session, ResponseDone)
    assert seen[-1].status is ResponseStatus.COMPLETED
    assert not [each for each in seen if isinstance(each, AudioDelta)]


async def test_a_tool_is_called_and_its_result_taken(session):
    await session.send_text("opening hours")
    await session.respond()
    seen = await until(session, ResponseDone)
    [request] = [each for each in seen if isinstance(each, ToolCallsRequested)]
    [call] = request.calls
    assert (call.name, call.arguments.replace(" ", "")) == (
        "query_knowledge",
        '{"query":"openinghours"}',
    )

    result = ToolResult(call.call_id, call.name, ToolStatus.OK, data={"documents": ["until six"]})
    await session.send_tool_result(result)
    await session.respond()
    [done] = [each for each in await until(session, ResponseDone) if isinstance(each, ResponseDone)]
    assert done.status is ResponseStatus.COMPLETED


async def test_a_response_that_fails_is_told(session):
    await session.send_text("too much")
    await session.respond()
    assert (await until(session, ResponseDone))[-1].status is ResponseStatus.FAILED


async def test_the_callers_voice_is_taken(session):
    for _ in range(50):
        await session.send_audio(b"\xff" * 160)
    await session.send_text("opening hours")
    await session.respond()
    assert isinstance((await until(session, ResponseDone))[-1], ResponseDone)
