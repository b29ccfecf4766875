"""Which models are shut down, asked at the service and never a reason to fail."""

from __future__ import annotations

import http
import json

import pytest
from openai import AsyncOpenAI
from websockets.asyncio.server import serve

from config.providers import OpenAISettings
from providers.base import Advising
from providers.fakes.openai_server import OpenAIFakeServer
from providers.openai import OpenAIProvider
from providers.openai.models import retirements
from tests.kit.ports import Ports

KEY = "sk-test-0123456789"


async def test_a_model_with_a_date_is_named_with_it() -> None:
    async with OpenAIFakeServer() as server:
        settings = OpenAISettings(
            api_key=KEY, base_url=server.url, model="gpt-realtime", transcription_model="whisper-1"
        )
        provider = OpenAIProvider(settings)
        assert isinstance(provider, Advising)
        found = await provider.advice()
        assert [(each.code, each.message) for each in found] == [
            ("model_shutdown", "gpt-realtime is shut down on 2027-01-20"),
            ("model_shutdown", "whisper-1 is shut down on 2027-02-26"),
        ]


async def test_current_models_are_not_mentioned() -> None:
    async with OpenAIFakeServer() as server:
        assert await OpenAIProvider(OpenAISettings(api_key=KEY, base_url=server.url)).advice() == []
        assert not server.sessions


async def test_a_key_that_is_refused_is_no_reason_to_fail() -> None:
    async with OpenAIFakeServer(api_key="sk-other") as server:
        assert await retirements(KEY, server.url, {"gpt-realtime"}) == []
        assert list(server.refused) == [401]


async def test_an_address_where_nobody_listens_is_no_reason_to_fail() -> None:
    with Ports() as ports:
        assert await retirements(KEY, f"http://127.0.0.1:{ports.take()}/v1", {"gpt-realtime"}) == []


@pytest.mark.parametrize(
    "body",
    [
        "not json",
        "null",
        "[]",
        "{}",
        '{"data": null}',
        '{"data": [null, 3, {"id": 7}, {"id": "gpt-realtime", "shutdown_date": null}]}',
    ],
)
async def test_an_answer_of_any_other_shape_is_no_reason_to_fail(body: str) -> None:
    def answer(connection, request):
        response = connection.respond(http.HTTPStatus.OK, body)
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = "application/json"
        return response

    async def nobody(connection) -> None:
        pytest.fail("this is no session")

    async with serve(nobody, "127.0.0.1", 0, process_request=answer) as server:
        port = server.sockets[0].getsockname()[1]
        assert await retirements(KEY, f"http://127.0.0.1:{port}/v1", {"gpt-realtime"}) == []


async def test_an_azure_resource_is_not_asked() -> None:
    """It lists models of the region, and its deployments have names of their own."""
    async with OpenAIFakeServer() as server:
        settings = OpenAISettings(api_key=KEY, base_url=server.url, azure={}, model="gpt-realtime")
        assert await OpenAIProvider(settings).advice() == []


async def test_the_list_is_what_the_sdk_takes_for_one() -> None:
    async with OpenAIFakeServer() as server, AsyncOpenAI(api_key=KEY, base_url=server.url) as client:
        listed = await client.models.list()
        assert json.loads(listed.data[0].model_dump_json())["object"] == "model"
        assert {model.id: model.shutdown_date for model in listed.data}["gpt-realtime-mini"] == "2027-01-20"
