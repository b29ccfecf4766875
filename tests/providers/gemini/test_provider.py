"""Opening sessions: addresses, keys, and every way in which it can fail."""

from __future__ import annotations

import asyncio

import pytest

from config.providers import GeminiSettings
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.gemini import GeminiProvider
from providers.types import PCM16_16K, PCM16_24K, PCMU, Said, ToolUsed, TurnModel
from tests.kit.certificates import Authority
from tests.providers.gemini.hand_server import KEY, HandServer, setup
from tools.types import ToolCall


async def refusal(provider: GeminiProvider, kind: type) -> Exception:
    with pytest.raises(kind) as caught:
        async with provider.connect(setup()):
            raise AssertionError("it was opened")
    assert KEY not in str(caught.value)
    return caught.value


async def test_the_session_is_open_when_the_server_confirmed_the_set_up(server) -> None:
    async with server.provider().connect(setup(voice="Kore", language="de-DE")) as session:
        assert (session.input, session.output) == (PCM16_16K, PCM16_24K)
    request, made = server.requests[0], server.setups[0]
    assert request.path == "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
    assert request.headers["x-goog-api-key"] == KEY
    assert "Sec-WebSocket-Extensions" not in request.headers  # compression costs CPU and brings nothing
    assert made["model"] == "models/gemini-3.8-live"
    assert made["systemInstruction"]["parts"] == [{"text": "You answer the phone.\n\n## Tools"}]
    assert made["sessionResumption"] == {}
    assert "historyConfig" not in made


async def test_the_key_stands_in_a_header_and_never_in_the_address(server) -> None:
    async with server.provider().connect(setup()):
        pass
    assert KEY not in server.requests[0].path


async def test_two_calls_share_one_client_and_have_their_own_sockets(server) -> None:
    provider = server.provider()
    async with provider.connect(setup()) as one, provider.connect(setup()) as two:
        await one.send_text("to the first")
        await two.send_text("to the second")
        heard = [await server.receive(), await server.receive()]
    assert len(server.setups) == 2
    assert {frame["clientContent"]["turns"][0]["parts"][0]["text"] for frame in heard} == {
        "to the first",
        "to the second",
    }


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_key_or_model_is_never_tried_again(tls, status: int) -> None:
    async with HandServer(tls, status=status) as server:
        assert (await refusal(server.provider(), ProviderRejected)).code == str(status)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_overloaded_server_may_be_tried_again(tls, status: int) -> None:
    async with HandServer(tls, status=status) as server:
        assert (await refusal(server.provider(), ProviderUnavailable)).code == str(status)


@pytest.mark.report("BR-114")
@pytest.mark.parametrize("code", [1007, 1008])
async def test_a_refused_set_up_is_rejected_as_a_whole_and_not_tried_without_its_tools(tls, code) -> None:
    async with HandServer(tls, on_setup=lambda _index, _made: code) as server:
        error = await refusal(server.provider(), ProviderRejected)
    assert error.code == str(code)
    assert "because of [key]" in str(error)
    assert len(server.setups) == 1


@pytest.mark.parametrize("code", [1000, 1011])
async def test_a_close_for_the_servers_own_reasons_is_no_refusal(tls, code: int) -> None:
    async with HandServer(tls, on_setup=lambda _index, _made: code) as server:
        assert (await refusal(server.provider(), ProviderUnavailable)).code == str(code)


@pytest.mark.report("BR-106")
async def test_a_server_that_never_confirms_is_given_up(tls) -> None:
    async with HandServer(tls, on_setup=lambda _index, _made: None) as server:
        assert (await refusal(server.provider(timeout=0.2), ProviderUnavailable)).code == "timeout"


@pytest.mark.parametrize("answer", [{"error": {"code": 3}}, {"sessionResumptionUpdate": {}}, {"brandNew": 1}])
async def test_fault_38_any_other_first_answer_is_no_session(tls, answer: dict) -> None:
    async with HandServer(tls, on_setup=lambda _index, _made: [answer]) as server:
        assert (await refusal(server.provider(), ProviderUnavailable)).code == "no_setup"


@pytest.mark.parametrize("answer", [5, "text", [], [1], None, {"setupComplete": 5}, {"goAway": []}])
async def test_a_first_answer_of_no_shape_is_a_server_that_cannot_be_used(tls, answer) -> None:
    async with HandServer(tls, on_setup=lambda _index, _made: [answer]) as server:
        await refusal(server.provider(), ProviderUnavailable)


async def test_a_certificate_that_nobody_vouches_for_is_named(tls, tmp_path) -> None:
    other = Authority(tmp_path, "somebody else").file
    async with HandServer(tls) as server:
        error = await refusal(server.provider(ca_file=other), ProviderRejected)
    assert "ca_file" in str(error)


async def test_nobody_listens(tls) -> None:
    async with HandServer(tls) as server:
        provider = server.provider()
    await refusal(provider, ProviderUnavailable)


async def test_a_proxy_of_the_environment_is_not_used(server, monkeypatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    async with server.provider().connect(setup()):
        pass


async def test_leaving_closes_the_connection(server) -> None:
    async with server.provider().connect(setup()):
        connection = await server.arrival()
    async with asyncio.timeout(5):
        await connection.wait_closed()
    assert connection.close_code == 1000


HISTORY = (
    Said("caller", "My number is 12."),
    ToolUsed(ToolCall("c1", "lookup_caller", '{"n":12}'), '{"name":"Ann"}'),
    Said("agent", "Hello Ann."),
    Said("system", "The language is German."),
)
TOLD = [
    ("user", "My number is 12."),
    ("user", '[You called lookup_caller with {"n":12}. Its result: {"name":"Ann"}]'),
    ("model", "Hello Ann."),
    ("user", "[The language is German.]"),
]


def words(content: dict) -> list[tuple[str, str]]:
    return [(turn["role"], turn["parts"][0]["text"]) for turn in content["turns"]]


async def test_history_is_announced_and_then_told_without_an_answer(server) -> None:
    async with server.provider().connect(setup(history=HISTORY)):
        told = (await server.receive())["clientContent"]
    assert server.setups[0]["historyConfig"] == {"initial_history_in_client_content": True}
    assert words(told) == TOLD
    assert told["turnComplete"] is True  # the end of the history; the server does not answer to that


async def test_fault_26_a_model_that_does_not_know_the_announcement_is_told_without_it(server) -> None:
    provider = server.provider(model="gemini-2.5-flash-native-audio-preview-12-2025")
    async with provider.connect(setup(history=HISTORY)):
        told = (await server.receive())["clientContent"]
    assert "historyConfig" not in server.setups[0]
    assert words(told) == TOLD
    assert told["turnComplete"] is False


async def test_the_model_decides_how_tools_are_declared(server) -> None:
    async with server.provider(model="gemini-2.5-flash-native-audio-preview-12-2025").connect(setup()):
        pass
    async with server.provider().connect(setup()):
        pass
    made = [each["tools"][0]["functionDeclarations"][0].get("behavior") for each in server.setups]
    assert made == ["NON_BLOCKING", None]


def test_capabilities_are_asked_for_by_flag() -> None:
    made = GeminiProvider(GeminiSettings(api_key="k")).capabilities
    assert made.turn_model is TurnModel.ASYNC_TOOLS
    assert (made.truncates, made.cancels, made.resumes) == (False, False, True)
    assert (made.input_for(PCMU), made.output_for(PCMU)) == (PCM16_16K, PCM16_24K)
