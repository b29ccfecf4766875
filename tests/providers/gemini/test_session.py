"""A session over real sockets: the pump, the clock, the connections and the losses."""

from __future__ import annotations

import asyncio
import base64
import json
import time

import pytest

from providers.errors import ProviderRejected
from providers.gemini.session import patient_liveness
from providers.liveness import Liveness
from providers.types import (
    AudioDelta,
    AudioDone,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    SessionEnding,
    SpeechStarted,
    ToolCallsRequested,
    Usage,
)
from tests.providers.gemini.hand_server import LOOKUP, HandServer, setup
from tests.providers.gemini.listener import Listener
from tests.providers.gemini.talk import (
    GENERATED,
    INTERRUPTED,
    activity,
    caller,
    calls,
    golden,
    over,
    says,
    voice,
)
from tools.types import CallUpdate, ToolResult, ToolStatus

HANDLE = {"sessionResumptionUpdate": {"newHandle": "h-1", "resumable": True}}
FRAME = bytes(640)


@pytest.fixture
async def line(server):
    """A server and somebody who listens to a session with it."""
    async with server.provider().connect(setup()) as session, Listener(session) as listener:
        await server.arrival()
        yield server, session, listener


async def received(server: HandServer) -> dict:
    async with asyncio.timeout(10):
        return await server.receive()


async def heard(server: HandServer, count: int) -> list[str]:
    """Wait until the server has so many pieces of caller audio."""
    async with asyncio.timeout(10):
        while len(server.audio) < count:
            await asyncio.sleep(0.005)
    return server.audio


def asked(frame: dict) -> str:
    assert frame["clientContent"]["turnComplete"]
    return frame["clientContent"]["turns"][-1]["parts"][0]["text"]


# One connection.


async def test_the_golden_turn_comes_through(line) -> None:
    server, session, listener = line
    await server.send(*golden("turn"))
    done = await listener.until(ResponseDone)
    names = [type(event).__name__ for event in listener.events]
    assert names.index("SpeechStopped") < names.index("AudioDelta") < names.index("AudioDone")
    assert len(done) == 1
    assert session.usage == Usage(text_in=60, audio_in=150, audio_out=43)


async def test_fault_30_the_session_goes_on_after_a_turn(line) -> None:
    server, _, listener = line
    for _ in range(3):
        await server.send(voice(), GENERATED, over())
    assert len(await listener.until(AudioDelta, 3)) == 3


async def test_fault_38_frames_that_nobody_knows_do_not_end_it(line) -> None:
    server, _, listener = line
    await server.connection.send(b"no json")
    await server.connection.send(b'{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"data":"!"}}]}}}')
    await server.send({"brandNew": {}}, {"error": {"code": 3}}, voice())
    await listener.until(AudioDelta)
    assert [warning.code for warning in listener.of(ProviderWarning)] == [
        "invalid_event",
        "invalid_event",
        "server_error",
    ]


@pytest.mark.report("BR-109")
async def test_a_frame_larger_than_a_mebibyte_is_taken(line) -> None:
    server, _, listener = line
    await server.send(voice(28_000))
    assert len((await listener.until(AudioDelta))[0].audio) == 1_344_000


async def test_caller_audio_arrives_as_pcm_at_16_khz(line) -> None:
    server, session, _ = line
    frame = bytes(range(256)) * 2 + bytes(128)
    await session.send_audio(frame)
    assert base64.b64decode((await heard(server, 1))[0]) == frame


async def test_a_line_that_falls_silent_ends_the_audio_stream(line) -> None:
    server, session, _ = line
    await session.send_audio(FRAME)
    assert await received(server) == {"realtimeInput": {"audioStreamEnd": True}}


async def test_the_caller_barges_in(line) -> None:
    server, session, listener = line
    await server.send(voice(3000), says("We are open from nine to five."))
    item_id = (await listener.until(AudioDelta))[0].item_id
    await server.send(INTERRUPTED, over())
    await listener.until(Interrupted)
    await session.interrupt(item_id=item_id, heard_ms=1500)
    note = (await received(server))["clientContent"]
    assert note["turnComplete"] is False
    assert '"We are open"' in note["turns"][0]["parts"][0]["text"]


async def test_fault_36_a_result_is_an_object_and_no_text_that_could_be_read_aloud(line) -> None:
    server, session, listener = line
    await server.send(calls(("f1", "lookup_caller")))
    call = (await listener.until(ToolCallsRequested))[0].calls[0]
    result = ToolResult(call.call_id, call.name, ToolStatus.OK, data={"name": "Ann"})
    await session.send_tool_result(result)
    response = (await received(server))["toolResponse"]["functionResponses"][0]
    assert (response["id"], response["name"]) == ("f1", "lookup_caller")
    assert response["response"] == json.loads(result.to_json())


async def test_tools_and_prompt_change_while_the_session_runs(line) -> None:
    server, session, _ = line
    await session.update(CallUpdate(1, prompt="Be brief.", tools=(LOOKUP,)))
    await session.update(CallUpdate(2, tools=()))
    first, second = (await received(server))["contextUpdate"], (await received(server))["contextUpdate"]
    assert first["systemInstruction"]["parts"] == [{"text": "Be brief.\n\n## Tools"}]
    assert "tools" not in first  # they are what they were
    assert second == {"tools": {"tools": []}}


async def test_an_unknown_voice_and_a_change_that_is_not_possible_yet_are_refused(line) -> None:
    _, session, _ = line
    for update, code in (
        (CallUpdate(1, voice="marin"), "voice_unknown"),
        (CallUpdate(1, voice="Kore"), "cannot_update"),
    ):
        with pytest.raises(ProviderRejected) as caught:
            await session.update(update)
        assert caught.value.code == code


# Losses.


@pytest.mark.report("BR-106")
@pytest.mark.parametrize("code", [1011, 1006, 1000])
async def test_without_a_handle_a_close_is_the_end_at_once(line, code: int) -> None:
    server, _, listener = line
    started = time.monotonic()
    if code == 1006:
        server.connection.transport.abort()
    else:
        await server.connection.close(code, "because")
    assert (await listener.loss()).code == str(code)
    assert time.monotonic() - started < 1.0
    assert len(server.setups) == 1


@pytest.mark.parametrize("code", [1007, 1008])
async def test_fault_25_a_close_that_blames_us_is_not_answered_with_the_same_session(line, code: int) -> None:
    server, _, listener = line
    await server.send(HANDLE, voice())
    await listener.until(AudioDelta)
    await server.connection.close(code, "Operation is not implemented, or supported, or enabled")
    assert (await listener.loss()).code == str(code)
    assert len(server.setups) == 1


async def test_sending_on_a_lost_session_says_nothing(line) -> None:
    server, session, listener = line
    await server.connection.close(1011)
    await listener.loss()
    await session.send_audio(FRAME)
    await session.send_text("x")
    await session.respond()
    await session.interrupt(item_id="x", heard_ms=1)


# Resumption.


async def ready(server: HandServer, listener: Listener) -> None:
    """Give a handle, and wait until it was taken."""
    await server.send(HANDLE, voice(), GENERATED, over())
    await listener.until(ResponseDone)
    server.audio.clear()


@pytest.mark.parametrize("code", [1011, 1006, 1000])
async def test_fault_24_a_close_is_resumed_with_the_handle_and_the_call_goes_on(line, code: int) -> None:
    server, _, listener = line
    await ready(server, listener)
    if code == 1006:
        server.connection.transport.abort()
    else:
        await server.connection.close(code, "internal error")
    await server.arrival()
    assert server.setups[1]["sessionResumption"] == {"handle": "h-1"}
    await server.send(voice(), GENERATED, over())
    assert len({event.item_id for event in await listener.until(AudioDelta, 2)}) == 2
    assert [warning.code for warning in listener.of(ProviderWarning)] == ["connection_lost"]
    assert listener.of(SessionEnding) == []


async def test_fault_29_the_old_connection_is_closed_before_the_new_one_is_opened(line) -> None:
    server, _, listener = line
    await ready(server, listener)
    await server.send({"goAway": {"timeLeft": "50s"}})
    await server.arrival()
    assert (len(server.setups), server.most) == (2, 1)
    assert listener.of(ProviderWarning) == []


async def test_fault_28_the_deadline_is_kept_though_the_server_says_nothing_more(line) -> None:
    server, _, listener = line
    await server.send(HANDLE, voice(5000))
    await listener.until(AudioDelta)
    await server.send({"goAway": {"timeLeft": "5.3s"}})  # and the turn is never ended
    started = time.monotonic()
    await server.arrival()
    assert 0.2 < time.monotonic() - started < 2.0
    assert asked(await received(server)).startswith("[The connection broke while you were speaking.")


async def test_a_pending_tool_is_waited_for_and_answered_on_the_old_connection(line) -> None:
    server, session, listener = line
    await ready(server, listener)
    await server.send(calls(("f1", "lookup_caller")), over(), {"goAway": {"timeLeft": "50s"}})
    await listener.until(ToolCallsRequested)
    await asyncio.sleep(0.1)
    assert len(server.setups) == 1
    await session.send_tool_result(ToolResult("f1", "lookup_caller", ToolStatus.OK))
    await session.respond()
    assert "toolResponse" in await received(server)
    await server.send(voice(), GENERATED, HANDLE, over())
    await server.arrival()
    assert len(server.setups) == 2


async def test_answers_that_come_in_the_gap_are_kept_and_the_callers_last_second_too(line) -> None:
    server, session, listener = line
    await server.send(calls(("f1", "lookup_caller")), HANDLE)
    await listener.until(ToolCallsRequested)
    gate = asyncio.Event()
    server.on_setup = lambda _index, _made: None if not gate.is_set() else [{"setupComplete": {}}]
    server.connection.transport.abort()
    await listener.until(ProviderWarning)
    await session.send_tool_result(ToolResult("f1", "lookup_caller", ToolStatus.OK))
    for number in range(100):
        await session.send_audio(bytes([number, 0]) * 320)
    assert server.audio == []
    async with asyncio.timeout(5):
        while len(server.setups) < 2:
            await asyncio.sleep(0.01)
    gate.set()
    await server.send({"setupComplete": {}})
    assert (await received(server))["toolResponse"]["functionResponses"][0]["id"] == "f1"
    kept = base64.b64decode((await heard(server, 1))[0])
    assert len(kept) == 32_000
    assert (kept[0], kept[-2]) == (50, 99)


@pytest.mark.report("BR-113")
async def test_fault_27_a_refused_handle_is_given_up_after_two_attempts(line) -> None:
    server, _, listener = line
    await ready(server, listener)
    server.on_setup = lambda _index, _made: 1007
    await server.connection.close(1011, "Deadline expired")
    lost = await listener.loss()
    assert lost.code == "1007"
    assert [made["sessionResumption"] for made in server.setups[1:]] == [{"handle": "h-1"}] * 2


@pytest.mark.report("BR-116")
async def test_while_nobody_waits_a_failing_server_is_tried_again_and_the_call_may_look_elsewhere(
    line,
) -> None:
    server, _, listener = line
    await ready(server, listener)
    server.on_setup = lambda index, _made: 1011 if index < 3 else [{"setupComplete": {}}]
    await server.connection.close(1011, "unavailable")
    await server.arrival()
    assert len(server.setups) == 4
    ending = listener.of(SessionEnding)
    assert len(ending) == 1
    assert 28 < ending[0].after <= 30


async def test_while_the_caller_waits_one_failure_is_enough(line) -> None:
    server, _, listener = line
    await server.send(HANDLE, voice(2000))
    await listener.until(AudioDelta)
    server.stop_listening()
    started = time.monotonic()
    server.connection.transport.abort()
    await listener.loss()
    assert time.monotonic() - started < 1.0
    assert len(listener.of(AudioDone)) == 1


async def test_while_the_caller_waits_a_server_that_hangs_gets_no_more_than_a_second_and_a_half(line) -> None:
    server, _, listener = line
    await server.send(HANDLE, voice(2000))
    await listener.until(AudioDelta)
    server.on_setup = lambda _index, _made: None
    started = time.monotonic()
    server.connection.transport.abort()
    assert (await listener.loss()).code == "timeout"
    assert 1.3 < time.monotonic() - started < 2.3


async def test_going_away_without_a_handle_is_told_to_the_call(line) -> None:
    server, _, listener = line
    await server.send({"goAway": {"timeLeft": "50s"}})
    ending = (await listener.until(SessionEnding))[0]
    assert 49 < ending.after <= 50
    assert len(server.setups) == 1


async def test_a_handle_that_is_not_resumable_does_not_replace_the_last(line) -> None:
    server, _, _ = line
    await server.send(HANDLE, {"sessionResumptionUpdate": {"resumable": False}})
    await server.send({"sessionResumptionUpdate": {"newHandle": "h-2", "resumable": False}})
    await server.send(voice(), GENERATED, over(), {"goAway": {"timeLeft": "50s"}})
    await server.arrival()
    assert server.setups[1]["sessionResumption"] == {"handle": "h-1"}


async def test_the_connection_is_not_changed_while_the_caller_speaks(line) -> None:
    server, _, listener = line
    await ready(server, listener)
    await server.send(activity("START"), {"goAway": {"timeLeft": "50s"}})
    await listener.until(SpeechStarted)
    await asyncio.sleep(0.1)
    assert len(server.setups) == 1
    await server.send(activity("END"), caller("Yes?"), voice(), GENERATED, over())
    await server.arrival()


async def test_another_voice_comes_with_another_connection_of_the_same_session(line) -> None:
    server, session, listener = line
    await ready(server, listener)
    await session.update(CallUpdate(1, voice="Kore"))
    await server.arrival()
    made = server.setups[1]
    assert made["sessionResumption"] == {"handle": "h-1"}
    assert "Kore" in json.dumps(made["generationConfig"]["speechConfig"])


async def test_fault_34_a_silent_model_gets_another_connection_and_the_same_question(
    line, monkeypatch
) -> None:
    server, session, listener = line
    await ready(server, listener)
    session._conversation.stuck = True  # after two texts without an answer: test_state
    session._conversation.respond(instructions="Greet.", now=time.monotonic())
    await server.send({"sessionResumptionUpdate": {"resumable": False}})
    await server.arrival()
    assert server.setups[1]["sessionResumption"] == {"handle": "h-1"}


def test_fault_23_a_pong_that_comes_half_a_minute_late_is_waited_for() -> None:
    liveness = patient_liveness()
    liveness.begin(0.0)
    assert liveness.handle_timeout(5.0)
    liveness.answered(6.0)  # a server that answers at all
    assert liveness.handle_timeout(26.0)
    assert not liveness.handle_timeout(56.0)
    assert not liveness.dead
    liveness.answered(57.0)
    assert liveness.handle_timeout(77.0)
    assert not liveness.handle_timeout(122.0)
    assert liveness.dead


async def test_fault_23_the_library_does_not_ask_and_the_session_does(line) -> None:
    _, session, _ = line
    assert session._socket.ping_interval is None
    session._liveness = Liveness(first=0.05)
    session._liveness.begin(asyncio.get_running_loop().time())
    session._arm()
    async with asyncio.timeout(5):
        while not session._liveness._answers:  # the server's pong
            await asyncio.sleep(0.005)


async def test_the_age_of_a_session_has_a_limit(server) -> None:
    provider = server.provider(session_limit_s=120)
    async with provider.connect(setup()) as session, Listener(session) as listener:
        session._resumption._hand_over_at = asyncio.get_running_loop().time() + 0.1  # an hour later
        session._arm()
        assert (await listener.until(SessionEnding)) == [SessionEnding(60.0)]


async def test_leaving_in_the_middle_of_a_resumption_leaves_nothing_running(tls) -> None:
    async with HandServer(tls) as server:
        async with server.provider().connect(setup()) as session, Listener(session) as listener:
            await server.arrival()
            await ready(server, listener)
            server.on_setup = lambda _index, _made: None
            server.connection.transport.abort()
            await listener.until(ProviderWarning)
            async with asyncio.timeout(5):
                while len(server.setups) < 2:
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(5):
            while server.open:
                await asyncio.sleep(0.01)
