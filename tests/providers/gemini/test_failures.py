"""No key in any sentence."""

from __future__ import annotations

import pytest

from config.providers import GeminiSettings
from providers.gemini.failures import without_key

KEY = "AIzaSy-test_0123456789"


@pytest.mark.parametrize(
    "text",
    [
        f"bad key {KEY}",
        "bad key AIzaSyOther-key_1",
        "wss://host/ws?key=abcdef123&alt=ws",
        "Bearer ya29.a0-secret_token.x",
        "Token auth_tokens/abc-def",
    ],
)
def test_what_is_a_key_or_looks_like_one_is_taken_out(text: str) -> None:
    cleaned = without_key(text, GeminiSettings(api_key=KEY))
    assert "[key]" in cleaned
    for secret in (KEY, "AIza", "abcdef123", "ya29", "abc-def"):
        assert secret not in cleaned


def test_without_a_key_of_our_own_nothing_else_changes() -> None:
    settings = GeminiSettings(vertex={"project": "p"})
    assert without_key("a monkey=1 is no key", settings) == "a monkey=1 is no key"
