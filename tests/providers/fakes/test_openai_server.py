"""The server over a socket, with the official SDK as its client."""

import asyncio
import base64
import json

import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus

from providers.fakes.openai_server import OpenAIFakeServer
from providers.fakes.speech import AUDIO_FOLDER, Recording, Tone, render, silence
from providers.types import PCMU

PHONE = {
    "type": "realtime",
    "audio": {
        "input": {
            "format": {"type": "audio/pcmu"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 500},
            "transcription": {"model": "gpt-live-transcribe"},
        },
        "output": {"format": {"type": "audio/pcmu"}},
    },
}
QUICK = (
    "{speech: {speed: 200}, steps: [{on: greeting, say: greeting.flac}, {on: caller_turn, say: okay.flac}]}"
)
KEY = {"Authorization": "Bearer sk-test"}


def client(server, key="sk-test"):
    return AsyncOpenAI(api_key=key, base_url=server.url, max_retries=0)


def realtime(server, model="gpt-realtime-2.1", **more):
    options = {"proxy": None, "ping_interval": None, **more.pop("options", {})}
    return client(server).realtime.connect(model=model, websocket_connection_options=options, **more)


async def until(connection, kind):
    events = []
    async with asyncio.timeout(10):
        while not events or events[-1].type != kind:
            events.append(await connection.recv())
    return events


async def test_the_sdk_has_a_whole_conversation(script_of):
    async with OpenAIFakeServer(script_of(QUICK), validate=True) as server, realtime(server) as connection:
        await until(connection, "session.created")
        await connection.session.update(session=PHONE)
        await until(connection, "session.updated")
        await connection.response.create()
        greeting = await until(connection, "response.done")
        spoken = b"".join(
            base64.b64decode(e.delta) for e in greeting if e.type == "response.output_audio.delta"
        )
        assert spoken == render(Recording(AUDIO_FOLDER / "greeting.flac"), PCMU)
        caller = render(Recording(AUDIO_FOLDER / "caller_thanks.flac"), PCMU) + silence(700, PCMU)
        for at in range(0, len(caller), 160):
            await connection.input_audio_buffer.append(audio=base64.b64encode(caller[at : at + 160]).decode())
        answer = await until(connection, "response.done")
        assert answer[-1].response.output[0].content[0].transcript == "Okay."
        (session,) = server.sessions
        assert [event.type for event in session.received] == ["session.update", "response.create"]
        assert bytes(session.input_audio) == caller


async def test_parallel_tools_over_the_sdk(script_of):
    script = script_of("""
        steps:
          - on: greeting
            call: [{tool: lookup_caller}, {tool: query_knowledge, arguments: {query: hours}}]
          - {on: {tool_result: [lookup_caller, query_knowledge]}, say: {tone: 440, ms: 100, text: done}}
    """)
    async with OpenAIFakeServer(script, validate=True) as server, realtime(server) as connection:
        await connection.response.create()
        done = (await until(connection, "response.done"))[-1]
        for item in done.response.output:
            answer = {"type": "function_call_output", "call_id": item.call_id, "output": "{}"}
            await connection.conversation.item.create(item=answer)
        await connection.response.create()
        done = (await until(connection, "response.done"))[-1]
        assert done.response.output[0].content[0].transcript == "done"
        assert server.sessions[-1].conversation.unanswered == ()


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503])
async def test_the_handshake_can_be_refused(status):
    async with OpenAIFakeServer(faults=f"status:{status}") as server:
        with pytest.raises(InvalidStatus) as refused:
            async with realtime(server):
                pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["error"]["message"]
        assert list(server.refused) == [status]


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({}, "realtime?model=m", 401),
        ({"Authorization": "Basic abc"}, "realtime?model=m", 401),
        ({"Authorization": "Bearer other"}, "realtime?model=m", 401),
        (KEY, "realtime", 404),
        (KEY, "translations?model=m", 404),
        (KEY, "realtime?model=m&fault=clsoe", 400),
    ],
)
async def test_a_wrong_handshake_is_refused(headers, path, status):
    async with OpenAIFakeServer(api_key="sk-test") as server:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{server.websocket_url}/{path}", additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == status


@pytest.mark.parametrize(("word", "status"), [("refuse", 503), ("reject_key", 401)])
async def test_the_script_can_refuse_too(script_of, word, status):
    async with OpenAIFakeServer(script_of(f"{{connect: {word}, steps: []}}")) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with realtime(server):
                pass
        assert refused.value.response.status_code == status


@pytest.mark.parametrize("how", ["late_handshake:60", "connect: hang"])
async def test_a_handshake_may_never_end(script_of, how):
    text, fault = ("{connect: hang, steps: []}", "") if "hang" in how else ("steps: []", how)
    async with OpenAIFakeServer(script_of(text), fault) as server:
        with pytest.raises(TimeoutError):
            await connect(
                f"{server.websocket_url}/realtime?model=m",
                additional_headers=KEY,
                proxy=None,
                open_timeout=0.05,
            )


async def test_the_beta_header_is_refused_inside_the_connection():
    async with OpenAIFakeServer() as server:
        headers = KEY | {"OpenAI-Beta": "realtime=v1"}
        url = f"{server.websocket_url}/realtime?model=m"
        async with connect(url, additional_headers=headers, proxy=None) as connection:
            assert json.loads(await connection.recv())["error"]["code"] == "beta_api_shape_disabled"
            with pytest.raises(ConnectionClosedError) as closed:
                await connection.recv()
        assert closed.value.rcvd.code == 4000


@pytest.mark.parametrize("code", [1001, 1006, 1008, 1011, 4000])
async def test_the_connection_closes_with_the_wanted_code(code):
    async with OpenAIFakeServer() as server:
        async with realtime(server, f"gpt-realtime-2.1~close:{code}@0.01") as connection:
            await until(connection, "session.created")
            with pytest.raises((ConnectionClosedOK, ConnectionClosedError)) as closed:
                await connection.recv()
        if code == 1006:
            assert closed.value.rcvd is None
        else:
            assert closed.value.rcvd.code == code
        assert server.sessions[-1].config.session["model"] == "gpt-realtime-2.1"


@pytest.mark.parametrize(
    "how",
    [
        {"model": "gpt-realtime-2.1~unknown_event,failed#1"},
        {"extra_query": {"fault": "unknown_event"}},
        {"extra_headers": {"X-Fake-Fault": "unknown_event"}},
    ],
    ids=["model", "query", "header"],
)
async def test_each_connection_may_bring_its_own_faults(how):
    async with OpenAIFakeServer() as server:
        async with realtime(server, **how) as connection:
            assert b"session.mood.updated" in await connection.recv_bytes()
        async with realtime(server) as connection:
            assert b"session.created" in await connection.recv_bytes()


async def test_pings_can_stay_without_an_answer():
    async with OpenAIFakeServer(faults="no_pong") as server:
        url = f"{server.websocket_url}/realtime?model=m"
        async with connect(
            url, additional_headers=KEY, proxy=None, ping_interval=None, close_timeout=1
        ) as connection:
            await connection.recv()
            pong = await connection.ping()
            _, waiting = await asyncio.wait([asyncio.ensure_future(pong)], timeout=0.1)
            assert waiting
            await connection.send(json.dumps({"type": "response.create"}))
            assert "response.created" in str(await connection.recv())
        pong.cancel()


async def test_a_slow_reader_makes_the_client_wait():
    async with OpenAIFakeServer(faults="slow_reader:60") as server:
        url = f"{server.websocket_url}/realtime?model=m"
        connection = await connect(
            url, additional_headers=KEY, proxy=None, ping_interval=None, write_limit=1024, close_timeout=0.01
        )
        await connection.recv()
        block = json.dumps({"type": "input_audio_buffer.append", "audio": "A" * 4_000_000})

        async def send_a_lot():
            for _ in range(50):
                await connection.send(block)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(send_a_lot(), 0.5)
        connection.transport.abort()


async def test_a_client_that_leaves_ends_only_its_own_session(script_of):
    async with OpenAIFakeServer(
        script_of("{speech: {speed: 50}, steps: [{on: greeting, say: hours.flac}]}")
    ) as server:
        async with realtime(server) as stays:
            await stays.response.create()
            async with realtime(server) as leaves:
                await leaves.response.create()
                await until(leaves, "response.created")
            await until(stays, "response.done")
        assert len(server.sessions) == 2


async def test_sessions_talk_at_the_same_time(script_of):
    script = script_of(
        "{speech: {speed: 100}, steps: [{on: greeting, say: {tone: 440, ms: 2000, text: hi}}]}"
    )

    async def call(server):
        async with realtime(server) as connection:
            await connection.response.create()
            events = await until(connection, "response.done")
            assert sum(event.type == "response.output_audio.delta" for event in events) == 8

    async with OpenAIFakeServer(script) as server:
        async with asyncio.TaskGroup() as calls:
            for _ in range(10):
                calls.create_task(call(server))
        assert len(server.sessions) == 10
        ids = {
            event.event["response"]["id"]
            for s in server.sessions
            for event in s.sent
            if event.type == "response.created"
        }
        assert len(ids) == 10


async def test_a_fast_client_is_answered_at_once():
    """A frame is one turn of the loop away from its answer: no polling."""
    async with OpenAIFakeServer() as server, realtime(server) as connection:
        await until(connection, "session.created")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(20):
            await connection.conversation.item.create(
                item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
            )
            await until(connection, "conversation.item.done")
        assert loop.time() - begun < 5.0


def test_tones_can_be_found_in_a_capture():
    tone = render(Tone(440, 500), PCMU)
    assert (silence(300, PCMU) + tone).find(tone) == 2400
