"""Opening a session of GPT-Live: what the server must confirm, and how it may refuse."""

import pytest

from providers.errors import ProviderRejected, ProviderUnavailable
from tests.providers.openai_live.hand_server import KEY, HandServer, setup, started


def without(*path: str):
    def answer(start: dict) -> list[dict]:
        [event] = started(start)
        at = event["session"]
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]
        return [event]

    return answer


def with_tools(start: dict) -> list[dict]:
    [event] = started(start)
    event["session"]["delegation"]["responses"]["tools"] = []
    return [event]


def refusal(code: str, message: str = "No."):
    error = {"type": "invalid_request_error", "code": code, "message": message, "client_event_id": "start"}
    return lambda _start: [{"type": "error", "event_id": "event_1", "error": error}]


async def test_a_session_that_is_confirmed_is_open():
    async with HandServer() as server, server.provider().connect(setup()) as session:
        assert session.input == session.output == setup().line


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (without("audio"), "format_unconfirmed"),
        (without("audio", "format"), "format_unconfirmed"),
        (with_tools, "tools_missing"),
        (refusal("unknown_parameter"), "unknown_parameter"),
        (refusal("model_not_found"), "model_not_found"),
    ],
)
async def test_what_is_not_as_we_asked_for_is_refused(answer, code):
    async with HandServer(answer) as server:
        with pytest.raises(ProviderRejected) as refused:
            async with server.provider().connect(setup()):
                pass
        assert refused.value.code == code


async def test_a_server_that_does_not_show_its_tools_is_believed():
    async with HandServer(without("delegation")) as server, server.provider().connect(setup()):
        pass


async def test_a_rate_limit_is_worth_another_try():
    async with HandServer(refusal("rate_limit_exceeded")) as server:
        with pytest.raises(ProviderUnavailable):
            async with server.provider().connect(setup()):
                pass


async def test_the_key_is_in_no_message():
    async with HandServer(refusal("invalid_api_key", f"Incorrect API key: {KEY} (sk-te**789).")) as server:
        with pytest.raises(ProviderRejected) as refused:
            async with server.provider().connect(setup()):
                pass
        assert KEY not in str(refused.value)
        assert "sk-" not in str(refused.value)


async def test_a_server_that_does_not_answer_is_given_up():
    async with HandServer(lambda _start: []) as server:
        with pytest.raises(ProviderUnavailable, match="no configured session"):
            async with server.provider(connect_timeout_s=0.2).connect(setup()):
                pass
