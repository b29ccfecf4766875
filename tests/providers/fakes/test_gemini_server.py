"""The Gemini server over a real, encrypted socket, mostly with the real SDK."""

import asyncio
import base64
import json
import ssl

import pytest
from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from providers.fakes.gemini_server import GeminiFakeServer
from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K, PCM16_24K
from tests.kit.gemini import MODEL, PHONE, authority_of, gemini_server
from tests.kit.gemini_talk import TALK, Talk, config, serving, talk

STUDIO = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
ALPHA = STUDIO.replace("v1beta", "v1alpha")
VERTEX = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"
KEY = {"x-goog-api-key": "any"}
LONG = TALK.replace("ms: 300", "ms: 30000")
TOOLS = """
speech: {speed: 50}
steps:
  - {on: greeting, call: [{tool: lookup}, {tool: search, arguments: {query: hours}}]}
  - {on: {tool_result: [lookup, search]}, say: {tone: 500, ms: 200, text: "Until six"}}
  - {on: barge_in, say: {tone: 550, ms: 200, text: "Yes please"}}
"""


def trust(folder):
    return ssl.create_default_context(cafile=str(authority_of(folder)))


def raw(server, folder, path=STUDIO, headers=KEY, **more):
    url = f"wss://127.0.0.1:{server.port}{path}"
    return connect(url, ssl=trust(folder), additional_headers=headers, proxy=None, ping_interval=None, **more)


# With the SDK.


async def test_a_text_is_answered_with_speech(tmp_path):
    async with serving(tmp_path) as (server, caller):
        await caller.session.send_realtime_input(text="Greet the caller.")
        await caller.turn()
        assert caller.voice == render(Tone(440, 300), PCM16_24K)
        said = "".join(each.text or "" for each in caller.contents("output_transcription"))
        assert said == "Hello, who is there"
        assert caller.session.session_id == "session-1"
        assert server.sessions[-1].setup.voice == "Kore"


async def test_speech_is_heard_and_answered(tmp_path):
    async with serving(tmp_path) as (server, caller):
        await caller.say()
        last = await caller.turn()
        assert caller.voice == render(Tone(500, 400), PCM16_24K)
        heard = "".join(each.text or "" for each in caller.contents("input_transcription"))
        assert heard.strip() == "It is me"
        assert last.usage_metadata.response_token_count == 10
        sent = render(Tone(300, 400), PCM16_16K) + silence(600, PCM16_16K)
        async with asyncio.timeout(5):
            while len(server.sessions[-1].input_audio) < len(sent):
                await asyncio.sleep(0.005)
        assert server.sessions[-1].input_audio == sent


async def test_a_barge_in_is_told_at_once(tmp_path):
    async with serving(tmp_path, LONG) as (_, caller):
        await caller.session.send_realtime_input(text="Greet the caller.")
        await caller.until(lambda message: message.data)
        await caller.say(200)
        await caller.until(lambda message: message.server_content and message.server_content.interrupted)
        await caller.turn()
        caller.voice = b""
        await caller.turn()
        assert caller.voice == render(Tone(500, 400), PCM16_24K)


@pytest.mark.parametrize("behavior", [None, "BLOCKING"])
async def test_calls_are_answered_and_spoken_about(tmp_path, behavior):
    async with serving(tmp_path, TOOLS, setup=config("lookup", "search", behavior=behavior)) as (
        server,
        caller,
    ):
        await caller.session.send_realtime_input(text="Greet the caller.")
        message = await caller.until(lambda message: message.tool_call)
        calls = message.tool_call.function_calls
        assert [(call.name, call.args) for call in calls] == [("lookup", {}), ("search", {"query": "hours"})]
        if behavior is None:
            await caller.turn()
        await caller.session.send_tool_response(
            function_responses=[
                types.FunctionResponse(id=call.id, name=call.name, response={"output": "x"}) for call in calls
            ]
        )
        await caller.turn()
        assert caller.voice == render(Tone(500, 200), PCM16_24K)
        assert server.sessions[-1].conversation.unanswered == ()


async def test_calls_that_block_are_cancelled_by_the_caller(tmp_path):
    async with serving(tmp_path, TOOLS, setup=config("lookup", "search", behavior="BLOCKING")) as (_, caller):
        await caller.session.send_realtime_input(text="Greet the caller.")
        called = await caller.until(lambda message: message.tool_call)
        await caller.say(200)
        message = await caller.until(lambda message: message.tool_call_cancellation)
        assert message.tool_call_cancellation.ids == [call.id for call in called.tool_call.function_calls]
        await caller.until(lambda message: message.data)


async def test_a_handle_resumes_once_the_old_connection_is_closed(tmp_path):
    async with gemini_server(TALK, folder=tmp_path) as server:
        async with talk(server, tmp_path) as caller:
            await caller.session.send_realtime_input(text="Greet the caller.")
            await caller.turn()
            handle = await caller.handle()
            with pytest.raises(errors.APIError) as refused:
                async with talk(server, tmp_path, config(session_resumption={"handle": handle})):
                    pass
            assert refused.value.code == 1011
        async with talk(server, tmp_path, config(session_resumption={"handle": handle})) as caller:
            await caller.say()
            await caller.turn()
            assert caller.voice == render(Tone(500, 400), PCM16_24K)
        assert server.sessions[-1].conversation.contents[0] == {"role": "user", "text": "Greet the caller."}


async def test_an_unknown_handle_is_refused(tmp_path):
    async with gemini_server(TALK, folder=tmp_path) as server:
        with pytest.raises(errors.APIError) as refused:
            async with talk(server, tmp_path, config(session_resumption={"handle": "mine"})):
                pass
        assert refused.value.code == 1008


async def test_the_server_goes_away(tmp_path):
    async with serving(tmp_path, connection_seconds=0.3, warning_seconds=0.2) as (_, caller):
        message = await caller.until(lambda message: message.go_away)
        assert message.go_away.time_left == "0.200s"
        with pytest.raises(errors.APIError) as closed:
            await caller.turn()
        assert closed.value.code == 1011


async def test_history_is_taken_before_the_first_turn(tmp_path):
    setup = config(history_config={"initial_history_in_client_content": True})
    async with serving(tmp_path, setup=setup) as (server, caller):
        turns = [types.Content(role="user", parts=[types.Part(text="Hi")])]
        await caller.session.send_client_content(turns=turns, turn_complete=True)
        await caller.handle()
        await caller.handle()
        assert server.sessions[-1].conversation.contents == [{"role": "user", "text": "Hi"}]


async def test_the_context_can_be_updated(tmp_path):
    async with serving(tmp_path) as (server, caller):
        await caller.session.send_context_update(system_instruction="You are another.")
        await caller.session.send_realtime_input(text="Greet the caller.")
        await caller.turn()
        assert server.sessions[-1].setup.instructions == "You are another."


@pytest.mark.parametrize("fault", ["unknown_event@0.01", "error@0.01"])
async def test_what_the_sdk_does_not_know_raises_its_type_error(tmp_path, fault):
    """Fault 38: the client has to go on."""
    async with serving(tmp_path, faults=fault) as (_, caller):
        with pytest.raises(TypeError):
            await caller.turn()
        await caller.session.send_realtime_input(text="Greet the caller.")
        await caller.turn()
        assert caller.voice == render(Tone(440, 300), PCM16_24K)


@pytest.mark.parametrize("code", [1000, 1006, 1007, 1008, 1011])
async def test_the_connection_closes_with_the_wanted_code(tmp_path, code):
    async with serving(tmp_path, faults=f"close:{code}@0.02") as (_, caller):
        with pytest.raises(errors.APIError) as closed:
            await caller.turn()
        assert closed.value.code == code


async def test_a_connection_dies_in_the_middle_of_a_sentence(tmp_path):
    async with serving(tmp_path, faults="die#1") as (_, caller):
        await caller.session.send_realtime_input(text="Greet the caller.")
        with pytest.raises(errors.APIError) as closed:
            await caller.turn()
        assert closed.value.code == 1006
        assert 0 < len(caller.voice) < len(render(Tone(440, 300), PCM16_24K))


async def test_only_the_first_connections_may_be_afflicted(tmp_path):
    async with gemini_server(TALK, "close:1011@0.02", folder=tmp_path, afflicted=1) as server:
        async with talk(server, tmp_path) as caller:
            with pytest.raises(errors.APIError):
                await caller.turn()
        async with talk(server, tmp_path) as caller:
            await caller.session.send_realtime_input(text="Greet the caller.")
            await caller.turn()
            assert caller.voice == render(Tone(440, 300), PCM16_24K)


async def test_a_huge_part_breaks_a_client_that_keeps_the_limit(tmp_path):
    async with gemini_server(TALK, "huge_delta#1", folder=tmp_path) as server:
        arguments = {"ssl": trust(tmp_path), "proxy": None}
        async with talk(server, tmp_path, async_client_args=arguments) as caller:
            await caller.session.send_realtime_input(text="Greet the caller.")
            with pytest.raises(errors.APIError) as closed:
                await caller.turn()
            assert closed.value.code == 1006  # the SDK asks what it got, not what it sent


@pytest.mark.parametrize(
    ("model", "setup", "code"),
    [
        ("gemini-9-live", {}, 1008),
        (MODEL, {"thinking_config": {"thinking_budget": 0}}, 1007),
        (MODEL, {"response_modalities": ["TEXT"]}, 1007),
        (MODEL, {"proactivity": {"proactive_audio": False}}, 1007),
        (MODEL, {"tools": [{"url_context": {}}]}, 1008),
        (
            MODEL,
            {"speech_config": {"voice_config": {"prebuilt_voice_config": {"voice_name": "alloy"}}}},
            1007,
        ),
    ],
)
async def test_a_setup_that_the_service_refuses_is_refused(tmp_path, model, setup, code):
    async with gemini_server(TALK, folder=tmp_path) as server:
        with pytest.raises(errors.APIError) as refused:
            async with talk(server, tmp_path, config(**setup), model=model):
                pass
        assert refused.value.code == code


async def test_a_token_needs_the_constrained_method(tmp_path):
    async with gemini_server(TALK, folder=tmp_path) as server:
        with pytest.warns(Warning, match="ephemeral token"):
            async with talk(server, tmp_path, api_key="auth_tokens/abc", api_version="v1alpha") as caller:
                assert caller.session.session_id
        assert server.sessions[-1].setup.name == MODEL


async def test_sessions_talk_at_the_same_time(tmp_path):
    async def call(server):
        async with talk(server, tmp_path) as caller:
            await caller.say()
            await caller.turn()
            assert caller.voice == render(Tone(500, 400), PCM16_24K)

    async with gemini_server(TALK, folder=tmp_path) as server:
        async with talk(server, tmp_path) as leaves:
            await leaves.session.send_realtime_input(text="Greet the caller.")
            async with asyncio.TaskGroup() as calls:
                for _ in range(8):
                    calls.create_task(call(server))
        assert len({session.conversation for session in server.sessions}) == 9


async def test_a_project_of_vertex_is_served_too(tmp_path):
    async with gemini_server(TALK, folder=tmp_path, api_key="a-token") as server:
        client = genai.Client(
            vertexai=True,
            project="my-project",
            location="us-central1",
            credentials=Credentials(token="a-token"),
            http_options=types.HttpOptions(
                base_url=server.url,
                api_version="v1beta1",
                async_client_args={"ssl": trust(tmp_path), "proxy": None},
            ),
        )
        setup = config("lookup", explicit_vad_signal=True, session_resumption={"transparent": True})
        async with client.aio.live.connect(model=MODEL, config=setup) as session:
            caller = Talk(session)
            await caller.say()
            await caller.turn()
            update = await caller.until(lambda message: message.session_resumption_update)
        assert caller.voice == render(Tone(500, 400), PCM16_24K)
        assert update.session_resumption_update.last_consumed_client_message_index > 40
        assert [message for message in caller.messages if message.voice_activity_detection_signal]
        name = server.sessions[-1].setup.raw["model"]
        assert name == f"projects/my-project/locations/us-central1/publishers/google/models/{MODEL}"


# By hand.


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (STUDIO, KEY),
        (ALPHA, KEY),
        (f"{STUDIO}?key=any", {}),
        (f"/{STUDIO}?key=any", {}),  # as Google's JavaScript client does it
        (STUDIO, {"Authorization": "Bearer any"}),
        (f"{ALPHA}Constrained", {"Authorization": "Token auth_tokens/any"}),
        (f"{ALPHA}Constrained?access_token=auth_tokens/any", {}),
        (VERTEX, {"Authorization": "Bearer any"}),
    ],
)
async def test_the_handshakes_of_both_services_are_known(tmp_path, path, headers):
    model = "publishers/google/models/gemini-3.8-live" if "aiplatform" in path else f"models/{MODEL}"
    async with gemini_server(TALK, folder=tmp_path) as server:
        async with raw(server, tmp_path, path, headers) as connection:
            await connection.send(json.dumps({"setup": {"model": model}}))
            assert await connection.recv() == b'{"setupComplete":{"sessionId":"session-1"}}'


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (STUDIO.replace("v1beta", "v2"), KEY, 404),
        (f"{STUDIO}Constrained", {"Authorization": "Token auth_tokens/any"}, 404),
        ("/v1/realtime", KEY, 404),
        (VERTEX, {}, 401),
        (f"{STUDIO}?fault=clsoe", KEY, 400),
        (f"{STUDIO}?fault=status:429", KEY, 429),
    ],
)
async def test_a_wrong_handshake_is_refused(tmp_path, path, headers, status):
    async with gemini_server(TALK, folder=tmp_path) as server:
        with pytest.raises(InvalidStatus) as refused:
            await raw(server, tmp_path, path, headers)
        assert refused.value.response.status_code == status
        assert list(server.refused) == [status]


@pytest.mark.parametrize(
    ("headers", "code"), [({}, 1008), ({"x-goog-api-key": "other"}, 1007), ({"x-goog-api-key": "mine"}, None)]
)
async def test_a_key_is_looked_at_after_the_setup(tmp_path, headers, code):
    async with gemini_server(TALK, folder=tmp_path, api_key="mine") as server:
        async with raw(server, tmp_path, headers=headers) as connection:
            await connection.send(json.dumps({"setup": PHONE}))
            if code is None:
                assert b"setupComplete" in await connection.recv()
            else:
                with pytest.raises(ConnectionClosed) as closed:
                    await connection.recv()
                assert closed.value.rcvd.code == code


async def test_the_key_styles_may_be_mixed_at_every_level(tmp_path):
    setup = {
        "model": f"models/{MODEL}",
        "generation_config": {"response_modalities": ["AUDIO"], "speechConfig": {"voice_config": {}}},
        "realtime_input_config": {"automaticActivityDetection": {"silence_duration_ms": 500}},
    }
    audio = base64.urlsafe_b64encode(render(Tone(300, 300), PCM16_16K)).decode()
    async with gemini_server(TALK, folder=tmp_path) as server:
        async with raw(server, tmp_path) as connection:
            await connection.send(json.dumps({"setup": setup}).encode())
            await connection.recv()
            blob = {"data": audio, "mimeType": "audio/pcm;rate=16000"}
            await connection.send(json.dumps({"realtimeInput": {"audio": blob}}))
            assert json.loads(await connection.recv())["voiceActivity"]["type"] == "ACTIVITY_START"


async def test_the_script_can_refuse_or_keep_a_client_waiting(tmp_path):
    async with gemini_server("{connect: refuse, steps: []}", folder=tmp_path) as server:
        with pytest.raises(InvalidStatus) as refused:
            await raw(server, tmp_path)
        assert refused.value.response.status_code == 503
    async with gemini_server("{connect: hang, steps: []}", folder=tmp_path) as server:
        with pytest.raises(TimeoutError):
            await raw(server, tmp_path, open_timeout=0.2)
    async with gemini_server("{connect: reject_key, steps: []}", folder=tmp_path) as server:
        with pytest.raises(errors.APIError) as closed:
            async with talk(server, tmp_path):
                pass
        assert closed.value.code == 1007


@pytest.mark.parametrize("fault", ["no_pong", "late_pong:0.2"])
async def test_pings_may_be_answered_late_or_never(tmp_path, fault):
    """Fault 23."""
    async with gemini_server(TALK, fault, folder=tmp_path) as server:
        async with raw(server, tmp_path, close_timeout=1) as connection:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            pong = await connection.ping()
            _, waiting = await asyncio.wait([pong], timeout=0.1)
            assert waiting
            if fault != "no_pong":
                async with asyncio.timeout(5):
                    await pong
                assert loop.time() - begun >= 0.19
        pong.cancel()


async def test_a_slow_reader_makes_the_client_wait(tmp_path):
    async with gemini_server(TALK, "slow_reader:60", folder=tmp_path) as server:
        connection = await raw(server, tmp_path, write_limit=1024, close_timeout=0.01)
        block = json.dumps({"setup": {"model": "x" * 4_000_000}})

        async def send_a_lot():
            for _ in range(50):
                await connection.send(block)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(send_a_lot(), 0.5)
        connection.transport.abort()


async def test_a_server_without_a_certificate_makes_its_own():
    async with GeminiFakeServer() as server:
        context = ssl.create_default_context(cadata=server.certificate_pem)
        url = f"wss://localhost:{server.port}{STUDIO}"
        async with connect(url, ssl=context, additional_headers=KEY, proxy=None, server_hostname="localhost"):
            pass
