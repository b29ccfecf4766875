"""What can go wrong with a connection to OpenAI, in the two errors of the seam."""

import pytest
from openai import OpenAIError
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, InvalidStatus, InvalidURI
from websockets.frames import Close
from websockets.http11 import Response

from config.providers import LiveSettings, OpenAISettings
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.openai.failures import close_reason, failures_named, without_key

KEY = "sk-test-0123456789"
SETTINGS = (OpenAISettings(api_key=KEY), LiveSettings(api_key=KEY))


def closed(code: int, reason: str = "") -> ConnectionClosedError:
    return ConnectionClosedError(Close(code, reason), None)


def refused(status: int) -> InvalidStatus:
    return InvalidStatus(Response(status, "", Headers()))


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.kind)
@pytest.mark.parametrize(
    ("problem", "kind", "code"),
    [
        (refused(401), ProviderRejected, "401"),
        (refused(404), ProviderRejected, "404"),
        (refused(429), ProviderUnavailable, "429"),
        (refused(503), ProviderUnavailable, "503"),
        (TimeoutError(), ProviderUnavailable, "timeout"),
        (closed(1011), ProviderUnavailable, "1011"),
        (closed(1008), ProviderRejected, "1008"),
        (closed(4000), ProviderRejected, "4000"),
        (ConnectionClosedError(None, None), ProviderUnavailable, "1006"),
        (InvalidURI("x", "y"), ProviderRejected, ""),
        (OpenAIError("no"), ProviderRejected, ""),
        (ConnectionRefusedError(), ProviderUnavailable, ""),
    ],
)
def test_each_failure_says_whether_another_try_may_work(settings, problem, kind, code):
    with pytest.raises(kind) as found, failures_named(settings):
        raise problem
    assert found.value.code == code


def test_the_key_is_taken_out_whole_and_shortened():
    for text in (f"key {KEY} is wrong", "key sk-te**********789 is wrong"):
        assert without_key(text, SETTINGS[0]) == "key [key] is wrong"
    assert close_reason(closed(4001, f"bad {KEY}"), SETTINGS[1])[1].endswith("4001: bad [key]")
