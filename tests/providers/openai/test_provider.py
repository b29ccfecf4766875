"""Opening a session over a real WebSocket, and what can go wrong on the way."""

from __future__ import annotations

import asyncio
import gc
import os
import socket

import pytest
from openai import AsyncOpenAI

from config.providers import OpenAISettings
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.openai import OpenAIProvider
from providers.openai import provider as module
from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU, TurnModel, Updatable
from tests.providers.openai.hand_server import HandServer, applied, setup

KEY = "sk-test-0123456789"


def refused(code: str, *, kind: str = "invalid_request_error", param: str = "session.tools[3].parameters"):
    """A server that refuses each update with this code."""

    def answer(update: dict) -> list[dict]:
        error = {
            "type": kind,
            "code": code,
            "message": f"Bad {KEY}",
            "param": param,
            "event_id": update["event_id"],
        }
        return [{"type": "error", "error": error}]

    return answer


async def test_entering_returns_a_configured_session() -> None:
    """Fault 12: the prompt is ignored because nobody waited for ``session.updated``."""
    async with HandServer() as server, server.provider(model="gpt-realtime-2.1").connect(setup()) as session:
        [update] = server.updates
        assert update["session"]["instructions"] == "You answer the phone.\n\n## Tools"
        assert [tool["name"] for tool in update["session"]["tools"]] == ["lookup_caller"]
        assert (session.input, session.output) == (PCMU, PCMU)
    assert server.requests[0].path == "/v1/realtime?model=gpt-realtime-2.1"
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "OpenAI-Beta" not in server.requests[0].headers


async def test_an_azure_resource_has_the_same_paths_behind_its_own_and_its_own_header() -> None:
    async with HandServer() as server:
        azure = OpenAISettings(
            api_key=KEY,
            base_url=f"http://127.0.0.1:{server.port}",
            azure={"deployment": "phone"},
        )
        async with OpenAIProvider(azure).connect(setup()):
            pass
    [request] = server.requests
    assert request.path == "/openai/v1/realtime?model=phone"
    assert request.headers["api-key"] == KEY


async def test_a_dated_azure_version_names_the_deployment_and_sends_the_key_in_one_header_only() -> None:
    async with HandServer() as server:
        azure = OpenAISettings(
            api_key=KEY,
            base_url=f"http://127.0.0.1:{server.port}/",
            model="gpt-realtime-2.1",
            azure={"api_version": "2025-04-01-preview"},
        )
        async with OpenAIProvider(azure).connect(setup()):
            pass
    [request] = server.requests
    path, _, query = request.path.partition("?")
    assert path == "/openai/realtime"
    assert sorted(query.split("&")) == ["api-version=2025-04-01-preview", "deployment=gpt-realtime-2.1"]
    assert request.headers["api-key"] == KEY
    assert "Authorization" not in request.headers


@pytest.mark.parametrize(("line", "chosen"), [(PCMU, PCMU), (PCMA, PCMA), (PCM16_16K, PCM16_24K)])
async def test_the_session_has_the_format_of_the_line_where_it_can(line, chosen) -> None:
    async with HandServer() as server, server.provider().connect(setup(line)) as session:
        assert (session.input, session.output) == (chosen, chosen)
        assert session.capabilities.input_for(line) == chosen


async def test_the_formats_are_those_that_the_server_confirmed() -> None:
    """Fault 15: static, because pcm at 24 kHz was taken for μ-law."""
    pcm = {"format": {"type": "audio/pcm", "rate": 24000}}

    def other(update: dict) -> list[dict]:
        return applied(update, audio={"input": {"format": {"type": "audio/pcmu"}}, "output": pcm})

    async with HandServer(on_update=other) as server, server.provider().connect(setup()) as session:
        assert (session.input, session.output) == (PCMU, PCM16_24K)


async def test_a_server_that_confirms_no_format_is_refused() -> None:
    async with HandServer(on_update=lambda update: applied(update, audio={})) as server:
        with pytest.raises(ProviderRejected, match="formats"):
            async with server.provider().connect(setup()):
                pytest.fail("the formats were guessed")


@pytest.mark.report("BR-114")
async def test_a_refused_configuration_fails_the_set_up() -> None:
    """Faults 12 and 13: the error of a refused update is the only sign that nothing was applied."""
    async with HandServer(on_update=refused("invalid_value")) as server:
        with pytest.raises(ProviderRejected) as caught:
            async with server.provider().connect(setup()):
                pytest.fail("a session without its tools")
        assert caught.value.code == "invalid_value"
        assert KEY not in str(caught.value)
        assert len(server.updates) == 1


@pytest.mark.report("BR-114")
async def test_a_session_that_lacks_a_tool_is_refused() -> None:
    async with HandServer(on_update=lambda update: applied(update, tools=[])) as server:
        with pytest.raises(ProviderRejected, match="lookup_caller"):
            async with server.provider().connect(setup()):
                pytest.fail("a session without its tools")


@pytest.mark.parametrize(
    ("code", "kind", "error"),
    [
        ("invalid_api_key", "invalid_request_error", ProviderRejected),
        ("insufficient_quota", "insufficient_quota", ProviderRejected),
        ("beta_api_shape_disabled", "invalid_request_error", ProviderRejected),
        ("rate_limit_exceeded", "requests", ProviderUnavailable),
        ("", "server_error", ProviderUnavailable),
    ],
)
async def test_an_error_before_the_session_tells_whether_another_try_helps(code, kind, error) -> None:
    event = {"type": "error", "error": {"type": kind, "code": code or None, "message": "no", "param": None}}
    async with HandServer(greeting=[event]) as server:
        with pytest.raises(error) as caught:
            async with server.provider().connect(setup()):
                pytest.fail("there is no session")
        assert caught.value.code == (code or kind)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, ProviderRejected),
        (403, ProviderRejected),
        (404, ProviderRejected),
        (429, ProviderUnavailable),
        (500, ProviderUnavailable),
        (503, ProviderUnavailable),
    ],
)
async def test_a_refused_handshake_tells_whether_another_try_helps(status: int, error: type) -> None:
    async with HandServer(status=status) as server:
        with pytest.raises(error) as caught:
            async with server.provider().connect(setup()):
                pytest.fail("there is no session")
    assert caught.value.code == str(status)
    assert KEY not in "".join(map(str, [caught.value, caught.value.__cause__]))
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("location", ["http://[::1", "ws://127.0.0.1:99999/"])
async def test_a_redirect_to_no_address_is_unavailable(location: str) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        provider = OpenAIProvider(OpenAISettings(api_key=KEY, base_url=url))
        with pytest.raises(ProviderUnavailable):
            async with provider.connect(setup()):
                pytest.fail("there is no session")


async def test_a_closed_port_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ProviderUnavailable):
            async with OpenAIProvider(OpenAISettings(api_key=KEY, base_url=address)).connect(setup()):
                pytest.fail("nobody listens")


async def test_a_name_that_does_not_resolve_is_unavailable() -> None:
    settings = OpenAISettings(api_key=KEY, base_url="http://no-such-host.invalid/v1")
    with pytest.raises(ProviderUnavailable):
        async with OpenAIProvider(settings).connect(setup()):
            pytest.fail("nobody listens")


@pytest.mark.report("BR-106")
@pytest.mark.parametrize("silence", ["before the session", "before its configuration"])
async def test_a_server_that_says_nothing_is_unavailable_after_the_limit(silence: str) -> None:
    quiet = (
        HandServer(greeting=[]) if silence.endswith("session") else HandServer(on_update=lambda update: [])
    )
    async with quiet as server:
        with pytest.raises(ProviderUnavailable, match=r"within 0\.1 s"):
            async with server.provider(timeout=0.1).connect(setup()):
                pytest.fail("there is no session")
        await server.left.wait()


async def test_a_server_that_does_not_speak_the_protocol_is_unavailable() -> None:
    async with HandServer(greeting=[{"hello": "world"}]) as server:
        with pytest.raises(ProviderUnavailable, match="protocol"):
            async with server.provider().connect(setup()):
                pytest.fail("there is no session")


@pytest.mark.parametrize(
    ("code", "error"), [(1008, ProviderRejected), (4000, ProviderRejected), (1011, ProviderUnavailable)]
)
async def test_a_close_during_the_set_up_tells_whether_another_try_helps(code: int, error: type) -> None:
    async with HandServer(on_update=lambda update: []) as server:

        async def close() -> None:
            while server.connection is None or not server.updates:
                await asyncio.sleep(0)
            await server.connection.close(code, f"no {KEY}")

        async with asyncio.TaskGroup() as group:
            group.create_task(close())
            with pytest.raises(error) as caught:
                async with server.provider().connect(setup()):
                    pytest.fail("there is no session")
    assert caught.value.code == str(code)
    assert KEY not in str(caught.value)


async def test_cancelling_the_set_up_closes_the_socket() -> None:
    async with HandServer(on_update=lambda update: []) as server:

        async def open_session() -> None:
            async with server.provider().connect(setup()):
                pytest.fail("there is no session")

        async with asyncio.TaskGroup() as group:
            task = group.create_task(open_session())
            while not server.updates:
                await asyncio.sleep(0)
            task.cancel()
        await server.left.wait()


async def test_leaving_closes_the_socket_normally() -> None:
    async with HandServer() as server:
        async with server.provider().connect(setup()):
            pass
        await server.left.wait()
        assert server.connection.close_code == 1000


async def test_what_the_call_raises_leaves_as_it_is() -> None:
    async with HandServer() as server:
        with pytest.raises(LookupError, match="of the call"):
            async with server.provider().connect(setup()):
                raise LookupError("of the call")
        await server.left.wait()


async def test_nothing_is_left_after_many_sessions() -> None:
    async with HandServer() as server:
        provider = server.provider()
        async with provider.connect(setup()):
            pass
        await server.left.wait()
        gc.collect()
        before, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        for _ in range(20):
            async with provider.connect(setup()):
                pass
            await server.left.wait()
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before
        assert len(asyncio.all_tasks()) <= tasks


def test_one_client_is_shared_by_all_sessions_of_a_key() -> None:
    made = [OpenAIProvider(OpenAISettings(api_key=KEY), name) for name in ("openai", "second")]
    assert made[0]._client is made[1]._client
    assert isinstance(made[0]._client, AsyncOpenAI)
    assert OpenAIProvider(OpenAISettings(api_key="sk-other"))._client is not made[0]._client
    assert str(made[0]._client.base_url) == "https://api.openai.com/v1/"


def test_the_capabilities_say_what_a_call_may_ask() -> None:
    provider = OpenAIProvider(OpenAISettings(api_key=KEY), "eu")
    assert provider.name == "eu"
    can = provider.capabilities
    assert (can.turn_model, can.truncates, can.cancels, can.resumes) == (
        TurnModel.TURN_BASED,
        True,
        True,
        False,
    )
    assert can.native_tools == frozenset()
    assert can.output_for(PCMA) == PCMA
    assert {part.value: way for part, way in can.updates.items()} == {
        "prompt": Updatable.LIVE,
        "language": Updatable.LIVE,
        "voice": Updatable.NEXT_SESSION,
        "tools": Updatable.LIVE,
    }


def test_the_socket_is_bounded_and_goes_straight_to_the_service() -> None:
    options = module.CONNECTION
    assert options["compression"] is None
    assert options["proxy"] is None
    assert 1024 * 1024 < options["max_size"] <= 64 * 1024 * 1024
    assert 16 < options["max_queue"] < 1024
