"""The GPT-Live server over a real socket, with the official SDK as its client."""

import json

import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from providers.fakes.live_server import LiveFakeServer
from tests.kit.live_line import PHONE

HEADERS = {"Authorization": "Bearer sk-any"}
SILENCE = "/////w==" * 40


async def test_the_official_sdk_holds_a_conversation():
    async with LiveFakeServer(validate=True) as server:
        client = AsyncOpenAI(api_key="sk-any", base_url=server.url)
        async with client.live.connect() as connection:
            await connection.session.start(session=PHONE)
            started = await connection.recv()
            assert (started.type, started.session.status) == ("session.started", "active")
            await connection.session.commentary.append(content="Greet.", delegation_id=None)
            assert (await connection.recv()).type == "session.commentary.appended"
            kinds = set()
            while kinds < {"session.output_audio.delta", "session.output_transcript.delta"}:
                await connection.session.input_audio.append(audio=SILENCE)
                await connection.session.input_audio.append(audio=SILENCE)
                kinds.add((await connection.recv()).type)
            await connection.session.close()
            while (event := await connection.recv()).type != "session.closed":
                pass
            assert event.reason == "close_requested"
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd.code == 1000


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/live/sessions", {}, 401),
        ("/v1/live/sessions", {"Authorization": "Bearer sk-other"}, 401),
        ("/v1/live/sessions?model=gpt-live-1.1", HEADERS, 400),
        ("/v1/realtime", HEADERS, 404),
        ("/v1/live/sessions", {**HEADERS, "X-Fake-Fault": "status:429"}, 429),
        ("/v1/live/sessions", {**HEADERS, "X-Fake-Fault": "huge_delta"}, 400),
    ],
)
async def test_a_wrong_handshake_is_refused_with_the_service_s_status(path, headers, status):
    async with LiveFakeServer(api_key="sk-any") as server:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=headers)
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["error"]["message"]
        assert list(server.refused) == [status]


async def test_a_fault_of_one_connection_closes_it_and_leaves_the_others_alone():
    async with LiveFakeServer() as server:
        url = f"ws://127.0.0.1:{server.port}/v1/live/sessions"
        async with connect(url, additional_headers={**HEADERS, "X-Fake-Fault": "close:4001@0.05"}) as broken:
            await broken.send(json.dumps({"type": "session.start", "session": PHONE}))
            assert json.loads(await broken.recv())["type"] == "session.started"
            with pytest.raises(ConnectionClosed) as closed:
                await broken.recv()
            assert closed.value.rcvd.code == 4001
        async with connect(url, additional_headers=HEADERS) as whole:
            await whole.send(json.dumps({"type": "session.start", "session": PHONE}))
            assert json.loads(await whole.recv())["type"] == "session.started"
