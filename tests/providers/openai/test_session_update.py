"""Changing a running session: all or nothing."""

from __future__ import annotations

import asyncio
import base64

import pytest

from providers.errors import ProviderRejected, SessionLost
from providers.types import AudioDelta, ProviderWarning
from tests.providers.openai.hand_server import DEFAULTS, LOOKUP, HandServer, applied, setup
from tools.types import AgentToolDefinition, CallUpdate

KEY = "sk-test-0123456789"
MS = 8


@pytest.fixture
async def line():
    """A server and a session that are connected to each other."""
    async with HandServer() as server, server.provider().connect(setup()) as session:
        yield server, session


def created(response_id: str = "resp_1") -> dict:
    return {
        "type": "response.created",
        "response": {"id": response_id, "status": "in_progress", "output": []},
    }


def delta(ms: int = 100, item_id: str = "item_1", response_id: str = "resp_1") -> dict:
    return {
        "type": "response.output_audio.delta",
        "event_id": "event_1",
        "response_id": response_id,
        "item_id": item_id,
        "output_index": 0,
        "content_index": 0,
        "delta": base64.b64encode(bytes(ms * MS)).decode(),
    }


def done(response_id: str = "resp_1", status: str = "completed", **more) -> dict:
    return {"type": "response.done", "response": {"id": response_id, "status": status, "output": [], **more}}


async def updated(server: HandServer, session, update: CallUpdate) -> None:
    """Update while another task iterates, as a call does."""
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(anext(session))
        try:
            await session.update(update)
        finally:
            listening.cancel()


async def test_an_update_changes_the_prompt_and_keeps_the_addendum(line) -> None:
    server, session = line
    await updated(server, session, CallUpdate(1, prompt="Now speak of cakes."))
    [_, update] = server.updates
    first, then = server.updates[0]["session"], update["session"]
    assert then == {
        "type": "realtime",
        "instructions": "Now speak of cakes.\n\n## Tools",
        "audio": first["audio"],
    }


async def test_an_update_of_the_tools_sends_all_of_them(line) -> None:
    server, session = line
    other = AgentToolDefinition("other", "Other.", {"type": "object", "properties": {}})
    await updated(server, session, CallUpdate(1, tools=(LOOKUP, other)))
    assert [tool["name"] for tool in server.updates[1]["session"]["tools"]] == ["lookup_caller", "other"]
    await updated(server, session, CallUpdate(2, tools=()))
    assert server.updates[2]["session"]["tools"] == []


@pytest.mark.report("BR-069")
async def test_an_update_of_the_tools_alone_repeats_formats_voice_and_turn_detection(line) -> None:
    server, session = line
    end_call = AgentToolDefinition("end_call", "Ends.", {"type": "object", "properties": {}})
    await updated(server, session, CallUpdate(1, tools=(end_call,)))

    audio = server.updates[1]["session"]["audio"]
    assert audio["input"]["format"] == audio["output"]["format"] == {"type": "audio/pcmu"}
    assert audio["output"]["voice"]
    assert audio["input"]["turn_detection"]["type"] == "server_vad"


@pytest.mark.report("BR-069")
async def test_audio_of_another_format_is_never_let_through_and_the_format_is_corrected() -> None:
    def forgetful(update: dict) -> list[dict]:
        """Take a change of the tools for a new session, as the provider did."""
        [answer] = applied(update)
        if len(server.updates) == 2:
            answer["session"] = {**answer["session"], "audio": DEFAULTS["audio"]}
            return [answer, created(), delta(item_id="noise")]
        return [answer, delta(item_id="voice")] if len(server.updates) == 3 else [answer]

    async with HandServer(on_update=forgetful) as server, server.provider().connect(setup()) as session:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.update(CallUpdate(1, tools=())))
            events = [await anext(session), await anext(session)]

    assert [type(event) for event in events] == [ProviderWarning, AudioDelta]
    assert events[0].code == "format_changed"
    assert events[1].item_id == "voice"
    assert server.updates[2]["session"]["audio"]["output"]["format"] == {"type": "audio/pcmu"}


@pytest.mark.report("BR-069")
async def test_a_provider_that_insists_on_another_format_has_lost_the_session() -> None:
    def stubborn(update: dict) -> list[dict]:
        [answer] = applied(update)
        if len(server.updates) > 1:
            answer["session"] = {**answer["session"], "audio": DEFAULTS["audio"]}
        return [answer]

    async with HandServer(on_update=stubborn) as server, server.provider().connect(setup()) as session:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.update(CallUpdate(1, tools=())))
            assert isinstance(await anext(session), ProviderWarning)
            with pytest.raises(SessionLost) as caught:
                await anext(session)

    assert caught.value.code == "format_mismatch"
    assert len(server.updates) == 3


async def test_updates_build_on_each_other(line) -> None:
    server, session = line
    await updated(server, session, CallUpdate(1, language="kk"))
    await updated(server, session, CallUpdate(2, prompt="Second."))
    transcription = server.updates[1]["session"]["audio"]["input"]["transcription"]
    assert transcription == {"model": "gpt-live-transcribe", "language": "kk"}
    assert server.updates[2]["session"]["instructions"] == "Second.\n\n## Tools"


async def test_the_voice_is_changed_only_before_it_was_heard(line) -> None:
    """Fault 14: ``cannot_update_voice``."""
    server, session = line
    await updated(server, session, CallUpdate(1, voice="ash"))
    assert server.updates[1]["session"]["audio"]["output"]["voice"] == "ash"
    await server.send(created(), delta())
    await anext(session)
    with pytest.raises(ProviderRejected) as caught:
        await session.update(CallUpdate(2, voice="echo"))
    assert caught.value.code == "cannot_update_voice"
    assert len(server.updates) == 2


async def test_an_unknown_voice_changes_nothing(line) -> None:
    server, session = line
    with pytest.raises(ProviderRejected):
        await session.update(CallUpdate(1, voice="Kore"))
    assert len(server.updates) == 1


@pytest.mark.parametrize("named", [True, False])
async def test_a_refused_update_is_raised_and_changes_nothing(named: bool) -> None:
    def answer(update: dict) -> list[dict]:
        if "bad" not in update["session"].get("instructions", ""):
            return applied(update)
        error = {
            "type": "invalid_request_error",
            "code": "invalid_value",
            "message": f"no {KEY}",
            "param": "session.instructions",
            "event_id": update["event_id"] if named else None,
        }
        return [{"type": "error", "error": error}]

    async with HandServer(on_update=answer) as server, server.provider().connect(setup()) as session:
        with pytest.raises(ExceptionGroup) as caught:
            await updated(server, session, CallUpdate(1, prompt="bad"))
        [error] = caught.value.exceptions
        assert isinstance(error, ProviderRejected)
        assert error.code == "invalid_value"
        assert KEY not in str(error)
        await updated(server, session, CallUpdate(1, language="de"))
        assert "instructions" not in server.updates[-1]["session"]
        assert session._setup.prompt == "You answer the phone."


async def test_an_update_without_an_answer_is_refused_after_the_limit() -> None:
    answers = [applied, lambda update: []]
    async with (
        HandServer(on_update=lambda update: answers.pop(0)(update)) as server,
        server.provider(timeout=0.1).connect(setup()) as session,
    ):
        with pytest.raises(ExceptionGroup) as caught:
            await updated(server, session, CallUpdate(1, prompt="New."))
        assert [error.code for error in caught.value.exceptions] == ["timeout"]


async def test_a_late_answer_to_an_update_does_not_confirm_the_next() -> None:
    late: list[dict] = []
    answers = [applied, lambda update: [], lambda update: []]
    async with (
        HandServer(on_update=lambda update: answers.pop(0)(update)) as server,
        server.provider(timeout=0.1).connect(setup()) as session,
    ):
        with pytest.raises(ExceptionGroup):
            await updated(server, session, CallUpdate(1, prompt="First."))
        late += applied(server.updates[1])
        async with asyncio.TaskGroup() as group:
            second = group.create_task(session.update(CallUpdate(1, prompt="Second.")))
            while len(server.updates) < 3:
                await asyncio.sleep(0)
            await server.send(*late, created(), delta())
            await anext(session)
            await asyncio.sleep(0.01)
            assert not second.done()
            await server.send(*applied(server.updates[2]), delta())
            await anext(session)
        assert session._setup.prompt == "Second."


async def test_an_update_of_nothing_sends_nothing(line) -> None:
    server, session = line
    await session.update(CallUpdate(1))
    assert len(server.updates) == 1


async def test_an_update_of_a_lost_session_is_refused(line) -> None:
    server, session = line
    await server.connection.close(1011, "")
    with pytest.raises(SessionLost):
        await anext(session)
    with pytest.raises(ProviderRejected) as caught:
        await session.update(CallUpdate(1, prompt="New."))
    assert caught.value.code == "session_lost"


async def test_an_update_that_waits_is_refused_when_the_session_is_lost() -> None:
    answers = [applied, lambda update: []]
    async with (
        HandServer(on_update=lambda update: answers.pop(0)(update)) as server,
        server.provider().connect(setup()) as session,
    ):
        refused: list[ProviderRejected] = []

        async def change() -> None:
            with pytest.raises(ProviderRejected) as caught:
                await session.update(CallUpdate(1, prompt="New."))
            refused.append(caught.value)

        async with asyncio.TaskGroup() as group:
            group.create_task(change())
            while len(server.updates) < 2:
                await asyncio.sleep(0)
            await server.connection.close(1011, "")
            with pytest.raises(SessionLost):
                await anext(session)
        assert [error.code for error in refused] == ["session_lost"]
