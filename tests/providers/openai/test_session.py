"""A session over a real WebSocket: the pumps, the clock and the losses."""

from __future__ import annotations

import asyncio
import base64
import time

import pytest

from providers.errors import SessionLost
from providers.openai.gate import Timing
from providers.types import (
    AudioDelta,
    AudioDone,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    SessionEnding,
    SpeechStarted,
    ToolCallsRequested,
)
from tests.providers.openai.hand_server import DEFAULTS, HandServer, setup
from tests.providers.openai.transcripts import server_events
from tools.types import ToolResult, ToolStatus

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


def call_item(call_id: str = "call_1") -> dict:
    return {
        "id": "item_f",
        "type": "function_call",
        "status": "completed",
        "name": "lookup_caller",
        "call_id": call_id,
        "arguments": "{}",
    }


SPEECH = {"type": "input_audio_buffer.speech_started", "audio_start_ms": 1, "item_id": "item_u"}


async def collect(session, count: int) -> list:
    """Return the next ``count`` events."""
    return [await anext(session) for _ in range(count)]


async def fill(session) -> None:
    """Send audio until the socket takes no more."""
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        try:
            async with asyncio.timeout(0.1):
                await session.send_audio(bytes(64_000))
        except TimeoutError:
            return
        assert loop.time() - started < 1


async def test_audio_goes_out_in_order_as_text_frames(line) -> None:
    server, session = line
    for n in range(50):
        await session.send_audio(bytes([n]) * 160)
    await session.respond()
    await server.receive()
    assert [base64.b64decode(text) for text in server.audio] == [bytes([n]) * 160 for n in range(50)]


async def test_a_turn_arrives_as_events(line) -> None:
    server, session = line
    await server.send(*server_events("turn")[2:])
    events = await collect(session, 11)
    assert isinstance(events[0], SpeechStarted)
    assert AudioDelta("item_a1", b"\xff\xff\xff\xff") in events
    assert AudioDone("item_a1") in events
    assert isinstance(events[-1], ResponseDone)


async def test_a_tool_call_is_answered_and_spoken_of(line) -> None:
    """Fault 20: a tool result is not spoken without ``response.create``."""
    server, session = line
    await server.send(created(), done(output=[call_item()]))
    request, _ = await collect(session, 2)
    assert isinstance(request, ToolCallsRequested)
    result = ToolResult("call_1", "lookup_caller", ToolStatus.OK, {"name": "Ann"})
    await session.send_tool_result(result)
    await session.send_tool_result(result)
    await session.respond()
    answer, create = await server.receive(), await server.receive()
    assert answer["item"] == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": result.to_json(),
    }
    assert create["type"] == "response.create"


async def test_a_barge_in_cuts_the_item_and_drops_what_comes_late(line) -> None:
    """Fault 7: truncate on every barge-in; late deltas never reach the call."""
    server, session = line
    await server.send(created(), delta(3000), SPEECH)
    events = await collect(session, 3)
    assert [type(event) for event in events] == [AudioDelta, SpeechStarted, Interrupted]
    await session.interrupt(item_id="item_1", heard_ms=1140)
    cut = await server.receive()
    assert (cut["type"], cut["item_id"], cut["audio_end_ms"]) == (
        "conversation.item.truncate",
        "item_1",
        1140,
    )
    await server.send(delta(500), done(status="cancelled"), created("resp_2"), delta(20, "item_2", "resp_2"))
    events = await collect(session, 3)
    assert [type(event) for event in events] == [AudioDone, ResponseDone, AudioDelta]
    assert events[-1].item_id == "item_2"


async def test_what_a_cancelled_task_could_not_send_is_sent_by_the_next() -> None:
    """A tool's task ends while the socket is full: its answer and its request must not be lost."""
    async with HandServer() as server, server.provider().connect(setup()) as session:
        server.connection.transport.pause_reading()
        await fill(session)
        async with asyncio.TaskGroup() as group:
            await server.send(created(), delta(3000), delta(item_id="item_2"))
            await collect(session, 2)
            task = group.create_task(session.interrupt(item_id="item_1", heard_ms=40))
            await asyncio.sleep(0)
            task.cancel()
        server.connection.transport.resume_reading()
        await session.send_text("after this")
        kinds = [(await server.receive())["type"] for _ in range(4)]
        assert kinds == [
            "conversation.item.truncate",
            "conversation.item.truncate",
            "response.cancel",
            "conversation.item.create",
        ]


async def test_text_is_put_into_the_conversation(line) -> None:
    server, session = line
    await session.send_text("DTMF 5 pressed")
    await session.send_text("The transfer failed.", role="system")
    first, second = await server.receive(), await server.receive()
    assert first["item"]["content"] == [{"type": "input_text", "text": "DTMF 5 pressed"}]
    assert (first["item"]["role"], second["item"]["role"]) == ("user", "system")


async def test_a_request_that_is_ignored_is_told_after_its_wait(line) -> None:
    """Fault 10, with the session's own clock: a timer fires while nothing arrives."""
    server, session = line
    session._conversation.gate._timing = Timing(ignored_wait=0.05)
    await session.respond()
    await server.receive()
    await server.send({"type": "rate_limits.updated", "event_id": "event_1", "rate_limits": []})
    [event] = await collect(session, 1)
    assert (event.status, event.reason) == (ResponseStatus.FAILED, "response_not_created")


async def test_cancelling_the_iteration_loses_no_event(line) -> None:
    server, session = line
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(anext(session))
        await asyncio.sleep(0)
        waiting.cancel()
    await server.send(created(), delta(item_id="item_9"))
    assert (await anext(session)).item_id == "item_9"


# Losses.


@pytest.mark.report("BR-106")
@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011, 1012, 4000])
async def test_a_close_by_the_server_is_the_loss_of_the_session(line, code: int) -> None:
    """Faults 8 and 9: also 1000 and 1001, which the SDK takes for a normal end."""
    server, session = line
    async with asyncio.TaskGroup() as group:
        group.create_task(server.connection.close(code, f"because of {KEY}"))
        with pytest.raises(SessionLost) as caught:
            await anext(session)
    assert caught.value.code == str(code)
    assert KEY not in str(caught.value)
    assert "because of [key]" in str(caught.value)
    with pytest.raises(SessionLost):
        await anext(session)


@pytest.mark.report("BR-106")
@pytest.mark.parametrize("reset", [False, True])
async def test_a_connection_that_breaks_is_the_loss_of_the_session(line, reset: bool) -> None:
    """Fault 9: "no close frame received or sent"."""
    server, session = line
    if reset:
        server.connection.transport.abort()
    else:
        server.connection.transport.close()
    with pytest.raises(SessionLost) as caught:
        await anext(session)
    assert caught.value.code == "1006"


async def test_events_before_the_loss_are_still_told(line) -> None:
    server, session = line
    await server.send(created(), delta())
    await server.connection.close(1011, "")
    assert isinstance(await anext(session), AudioDelta)
    with pytest.raises(SessionLost):
        await anext(session)


async def test_an_expired_session_is_lost_with_its_code(line) -> None:
    """Fault 8: ``session_expired`` and close 1001 at 60 minutes."""
    server, session = line
    await server.send(next(event for event in server_events("misc") if "expired" in str(event)))
    await server.connection.close(1001, "Your session hit the maximum duration of 60 minutes.")
    with pytest.raises(SessionLost) as caught:
        await collect(session, 2)
    assert caught.value.code == "session_expired"


async def test_sending_on_a_lost_session_is_silent(line) -> None:
    server, session = line
    await server.connection.close(1011, "")
    await session.send_audio(bytes(160))
    await session.send_text("hello")
    await session.respond()
    await session.interrupt(item_id="item_1", heard_ms=0)
    await session.send_tool_result(ToolResult("call_1", "x", ToolStatus.OK))
    with pytest.raises(SessionLost):
        await anext(session)


async def test_the_iteration_ends_when_we_close() -> None:
    async with HandServer() as server, asyncio.TaskGroup() as group:

        async def listen(session) -> list:
            return [event async for event in session]

        async with server.provider().connect(setup()) as session:
            listening = group.create_task(listen(session))
            await asyncio.sleep(0)
        assert await listening == []


async def test_a_broken_frame_is_a_warning_and_the_next_is_read(line) -> None:
    server, session = line
    await server.connection.send("{")
    await server.connection.send("[]")
    await server.send({"type": "response.created"}, {"type": "not.heard.of", "x": 1}, created(), delta())
    events = await collect(session, 4)
    assert [type(event) for event in events] == [ProviderWarning] * 3 + [AudioDelta]
    assert {event.code for event in events[:3]} == {"invalid_event"}


async def test_an_error_is_a_warning_without_the_key(line) -> None:
    server, session = line
    error = {"type": "invalid_request_error", "code": "odd", "message": f"near {KEY} or sk-proj-ab***yz"}
    await server.send({"type": "error", "error": error})
    assert await anext(session) == ProviderWarning("odd", "near [key] or [key]")


@pytest.mark.report("BR-109")
async def test_an_event_of_several_megabytes_is_read(line) -> None:
    server, session = line
    await server.send({"type": "conversation.item.retrieved", "item": {"audio": "A" * 3_400_000}}, delta())
    assert isinstance(await anext(session), AudioDelta)


# The consumer and the clock.


async def test_a_slow_consumer_holds_up_neither_pings_nor_sends(line) -> None:
    server, session = line
    await server.send(created(), *(delta(20) for _ in range(150)))
    pong = await server.connection.ping()
    await pong
    await session.send_audio(bytes(160))
    await session.respond(instructions="after this")
    await session.send_text("still here")
    assert (await server.receive())["type"] == "response.create" or server.audio
    events = await collect(session, 150)
    assert len(events) == 150


async def test_what_a_consumer_does_not_read_is_bounded(line) -> None:
    """A consumer that stopped makes the server wait, not our memory grow."""
    server, session = line

    async def flood() -> None:
        while True:
            await server.send(delta(2000))

    async with asyncio.TaskGroup() as group:
        flooding = group.create_task(flood())
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.5
        while loop.time() < until:
            await asyncio.sleep(0.02)
        waiting = len(session._socket.recv_messages.frames)
        assert 256 <= waiting < 600
        flooding.cancel()


@pytest.mark.parametrize(("seconds", "told"), [(100, True), (3600, False), (-5, False)])
async def test_the_end_of_the_session_is_told_only_when_it_is_near(seconds: int, told: bool) -> None:
    """Fault 8: ``expires_at``; a date in the past is a wrong clock."""
    greeting = [{"type": "session.created", "session": {**DEFAULTS, "expires_at": time.time() + seconds}}]
    async with HandServer(greeting=greeting) as server, server.provider().connect(setup()) as session:
        await server.send(created(), delta())
        first = await anext(session)
        if told:
            assert isinstance(first, SessionEnding)
            assert 90 < first.after <= 100
        else:
            assert isinstance(first, AudioDelta)


async def test_what_was_left_out_of_the_set_up_is_told_first() -> None:
    made = setup(voice="Kore", vendor_tools=("search",))
    async with HandServer() as server, server.provider().connect(made) as session:
        events = await collect(session, 2)
    assert [event.code for event in events] == ["vendor_tool_unavailable", "voice_unknown"]


async def test_leaving_does_not_wait_for_a_server_that_no_longer_reads() -> None:
    loop = asyncio.get_running_loop()
    async with HandServer() as server:
        async with server.provider().connect(setup()) as session:
            server.connection.transport.pause_reading()
            await fill(session)
            started = loop.time()
        assert loop.time() - started < 3
        server.connection.transport.abort()
