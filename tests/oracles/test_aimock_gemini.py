"""Our Gemini provider against aimock's Live server behind a TLS front: text and tools, no speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from config.providers import GeminiSettings
from providers.fakes.certificate import own_certificate
from providers.gemini import GeminiProvider
from providers.gemini.session import GeminiSession
from providers.types import (
    PCMU,
    ProviderEvent,
    ProviderWarning,
    ResponseDone,
    SessionSetup,
    ToolCallsRequested,
)
from tests.oracles.aimock import Aimock
from tests.oracles.test_aimock_openai import LOOK_UP
from tests.oracles.tls_front import tls_front
from tools.types import ToolResult, ToolStatus


@pytest.fixture
async def session(aimock: Aimock, tmp_path: Path) -> AsyncIterator[GeminiSession]:
    certificate = own_certificate(tmp_path)
    async with tls_front(aimock.port, certificate) as url:
        settings = GeminiSettings(api_key="gemini-test", base_url=url, ca_file=str(certificate.certificate))
        setup = SessionSetup("You answer the phone.", "", (LOOK_UP,), PCMU)
        async with GeminiProvider(settings).connect(setup) as session:
            yield session


async def until(session: GeminiSession, kind: type[ProviderEvent]) -> list[ProviderEvent]:
    seen: list[ProviderEvent] = []
    async with asyncio.timeout(10):
        async for event in session:
            seen.append(event)
            if isinstance(event, kind):
                break
    return seen


async def test_a_session_is_set_up(session):
    assert session.capabilities.resumes


async def test_an_answer_without_sound_is_asked_for_again(session):
    await session.send_text("good morning")
    await session.respond()
    codes: list[str] = []
    while "no_answer_yet" not in codes:
        codes += [
            each.code for each in await until(session, ProviderWarning) if isinstance(each, ProviderWarning)
        ]


async def test_a_tool_is_called_and_its_result_taken(session):
    await session.send_text("opening hours")
    await session.respond()
    [call] = (await until(session, ToolCallsRequested))[-1].calls
    assert (call.name, call.arguments.replace(" ", "")) == ("query_knowledge", '{"query":"openinghours"}')
    await session.send_tool_result(ToolResult(call.call_id, call.name, ToolStatus.OK, data={"until": "six"}))
    await until(session, ResponseDone)
