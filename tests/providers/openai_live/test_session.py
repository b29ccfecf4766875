"""A session over a real WebSocket: the clock, the caller's speech, interruptions and the end."""

from __future__ import annotations

import asyncio
import base64

import pytest

from providers.errors import ProviderRejected, SessionLost
from providers.fakes.speech import Tone, render, silence
from providers.types import (
    PCMU,
    AudioDelta,
    AudioDone,
    Interrupted,
    ProviderWarning,
    SpeechStarted,
    SpeechStopped,
    Usage,
)
from tests.providers.openai_live.hand_server import HandServer, setup
from tools.types import CallUpdate

SPEECH, QUIET = render(Tone(300, 80), PCMU), silence(80, PCMU)


def voice(sound: bytes = SPEECH) -> dict:
    return {"type": "session.output_audio.delta", "delta": base64.b64encode(sound).decode()}


@pytest.fixture
async def line():
    """A server and a session that are connected to each other."""
    async with HandServer() as server, server.provider(buffer_ms=0).connect(setup()) as session:
        yield server, session


async def until(session, kind: type) -> list:
    events = []
    async with asyncio.timeout(10):
        async for event in session:
            events.append(event)
            if isinstance(event, kind):
                break
    return events


async def say(session, sound: bytes) -> None:
    for at in range(0, len(sound), 160):
        await session.send_audio(sound[at : at + 160])


async def test_silence_flows_while_nothing_comes_from_the_caller(line):
    server, session = line
    loop = asyncio.get_running_loop()
    began = loop.time()
    await _drain(session, 0.5)
    sent = b"".join(base64.b64decode(each) for each in server.audio)
    assert set(sent) == {0xFF}
    assert len(sent) / 8 <= (loop.time() - began) * 1000
    assert len(sent) / 8 >= 240


async def test_the_caller_s_speech_is_told_though_the_server_says_nothing(line):
    _, session = line
    async with asyncio.TaskGroup() as group:
        hearing = group.create_task(until(session, SpeechStopped))
        await asyncio.sleep(0)
        await say(session, render(Tone(300, 200), PCMU))
    assert [type(event) for event in hearing.result()] == [SpeechStarted, SpeechStopped]


async def test_a_model_that_talks_on_is_muted_and_learns_what_was_heard(line):
    server, session = line
    words = {
        "type": "session.output_transcript.delta",
        "event_id": "e",
        "delta": "Hello",
        "start_ms": 0,
        "end_ms": 80,
    }
    await server.send(voice(), words)
    await until(session, AudioDelta)
    await say(session, render(Tone(300, 1500), PCMU))
    assert Interrupted in {type(event) for event in await until(session, Interrupted)}
    for _ in range(8):
        await server.send(voice())
    for _ in range(8):
        await until(session, AudioDelta)
    await session.interrupt(item_id="voice_1", heard_ms=100)
    note = await server.receive()
    assert note["type"] == "session.thinking.append"
    assert '"Hello"' in note["content"]

    await server.send(*[voice()] * 10, *[voice(QUIET)] * 6, voice())
    events = await until(session, AudioDelta)
    assert events[-1].item_id == "voice_2"
    assert len([each for each in events if isinstance(each, AudioDelta)]) == 1


async def test_an_utterance_ends_with_its_silence(line):
    server, session = line
    await server.send(voice(), *[voice(QUIET)] * 11)
    events = await until(session, AudioDone)
    sound = b"".join(event.audio for event in events if isinstance(event, AudioDelta))
    assert sound.startswith(SPEECH)


async def test_a_broken_frame_is_a_warning(line):
    server, session = line
    await server.connection.send('{"type":"session.output_audio.delta","delta":"@"}')
    events = await until(session, ProviderWarning)
    assert events[-1].code == "invalid_event"


async def test_an_update_that_is_refused_changes_nothing(line):
    server, session = line
    async with asyncio.TaskGroup() as group:
        group.create_task(_drain(session, 0.5))
        updating = group.create_task(_rejected(session.update(CallUpdate(1, prompt="New."))))
        asked = await server.receive()
        error = {"type": "e", "code": "invalid_value", "message": "No.", "client_event_id": asked["event_id"]}
        await server.send({"type": "error", "event_id": "e", "error": error})
        assert (await updating).code == "invalid_value"


async def test_an_update_is_complete_when_everything_was_acknowledged(line):
    server, session = line
    async with asyncio.TaskGroup() as group:
        group.create_task(_drain(session, 0.6))
        updating = group.create_task(session.update(CallUpdate(1, prompt="New.", language="de")))
        kinds = []
        for answer in ("session.updated", "session.instructions.appended", "session.instructions.appended"):
            assert not updating.done()
            asked = await server.receive()
            kinds.append(asked["type"])
            extra = {"session": {}} if answer == "session.updated" else {"start_ms": 0, "end_ms": 0}
            await server.send(
                {"type": answer, "event_id": "e", "client_event_id": asked["event_id"], **extra}
            )
        await updating
    assert kinds == ["session.update", "session.instructions.append", "session.instructions.append"]


async def test_the_voice_is_fixed(line):
    _, session = line
    with pytest.raises(ProviderRejected):
        await session.update(CallUpdate(1, voice="willow"))


async def test_a_session_that_is_closed_by_the_service_is_lost_with_its_reason(line):
    server, session = line
    await server.send(
        {"type": "session.closed", "event_id": "e", "reason": "expired", "usage": {"seconds": 7}}
    )
    with pytest.raises(SessionLost) as lost:
        await until(session, AudioDone)
    assert lost.value.code == "expired"
    assert session.usage == Usage(seconds=7.0)


async def test_the_last_usage_is_learned_at_the_end():
    async with HandServer() as server:

        async def close() -> None:
            assert (await server.receive())["type"] == "session.close"
            closed = {"type": "session.closed", "reason": "close_requested", "usage": {"seconds": 12}}
            await server.send(voice(), {**closed, "event_id": "e"})

        async with asyncio.TaskGroup() as group:
            async with server.provider().connect(setup()) as session:
                group.create_task(close())
        assert session.usage == Usage(seconds=12.0)


async def test_leaving_ends_a_reader_who_is_waiting():
    async with HandServer() as server:
        async with asyncio.TaskGroup() as group:
            async with server.provider().connect(setup()) as session:
                reading = group.create_task(_drain(session, 30.0))
                await asyncio.sleep(0.05)
            async with asyncio.timeout(2.0):
                await reading


async def test_a_server_that_does_not_say_goodbye_holds_nobody_up():
    loop = asyncio.get_running_loop()
    async with HandServer() as server:
        async with server.provider().connect(setup()):
            began = loop.time()
        assert loop.time() - began < 2.0


async def _drain(session, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            async for _ in session:
                pass
    except TimeoutError:
        pass


async def _rejected(update) -> ProviderRejected:
    with pytest.raises(ProviderRejected) as refused:
        await update
    return refused.value
