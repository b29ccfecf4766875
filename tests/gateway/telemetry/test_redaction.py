import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.telemetry.redaction import REDACTED, Redactor, mask_number

SECRET = "s3cr3t-value-0123456789"


def clean(**event):
    return Redactor()(None, "info", event)


@pytest.mark.parametrize(
    "key",
    [
        "key", "api_key", "API_KEY", "apiKey", "x-api-key", "token", "access_token", "admin_token",
        "password", "Password", "auth", "client_lookup_auth", "Authorization", "secret", "client_secret",
        "cookie", "X-Twilio-Signature",
    ],
)  # fmt: skip
def test_what_stands_under_a_secret_name_is_cut_out(key):
    assert clean(**{key: SECRET}) == {key: REDACTED}
    assert clean(outer=[{key: SECRET}]) == {"outer": [{key: REDACTED}]}
    assert clean(outer={"a": ({key: {"deep": SECRET}},)}) == {"outer": {"a": [{key: REDACTED}]}}


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"basic {SECRET}",
        "the key sk-proj-s3cr3t-value-0123456789 is not valid",
        "AIzas3cr3t-value-0123456789xx",
        f"https://user:{SECRET}@example.com/x",
        json.dumps({"a": {"api_key": SECRET}}),
        json.dumps({"a": {"Authorization": f'q"{SECRET}'}}),
        f"{{'client_secret': '{SECRET}'}}",
        f"GET /x?token={SECRET}&a=1",
        f"wss://h/v1?api_key={SECRET}",
    ],
)
def test_what_looks_like_a_secret_is_cut_out_of_any_text(text):
    cleaned = clean(error=text)["error"]

    assert "s3cr3t" not in cleaned
    assert REDACTED in cleaned


def test_secret_types_and_bytes_are_never_written():
    assert clean(a=SecretStr(SECRET), b=[SecretStr(SECRET)], c=b"\x00" * 160) == {
        "a": REDACTED, "b": [REDACTED], "c": "<160 bytes>",
    }  # fmt: skip


def test_an_exception_is_written_without_its_secrets():
    assert clean(error=ValueError(f"bad Bearer {SECRET}")) == {"error": f"bad Bearer {REDACTED}"}


def test_what_is_not_secret_stays():
    event = {
        "event": "tool.answered", "message_key": "not_found", "status": 200, "total_tokens": 12,
        "token": 5, "ok": True, "none": None, "ratio": 0.5, "called": "+12125550100",
        "number": "+12125550199", "nearest": "+12125550100",
    }  # fmt: skip
    assert clean(**event) == event


def test_a_callers_number_keeps_its_last_four_digits():
    assert clean(caller="+12125551234") == {"caller": "+*******1234"}
    assert clean(call={"caller": "sip:+12125551234@192.0.2.1"})["call"]["caller"].count("*") > 6
    assert Redactor(show_callers=True)(None, "info", {"caller": "+12125551234"}) == {"caller": "+12125551234"}


def test_short_numbers_are_extensions_and_stay():
    assert mask_number("4012") == "4012"
    assert mask_number("") == ""
    assert mask_number("40123") == "*0123"


def test_a_structure_without_an_end_is_cut_off():
    deep = inner = {}
    for _ in range(50):
        inner["a"] = inner = {}
    deep["loop"] = deep

    assert REDACTED in str(clean(deep=deep))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(json_values, st.sampled_from(["token", "api_key", "password", "Authorization"]))
def test_a_secret_is_found_wherever_it_is(around, key):
    cleaned = clean(a=[around, {"b": around, "c": {key: SECRET}}])

    assert SECRET not in repr(cleaned)


def test_keys_of_a_session_description_are_cut_out():
    key = "WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz"
    text = f"refused: a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{key}|2^20, a=ice-pwd:{key[:24]}"
    told = clean(error=text)["error"]
    assert key[:24] not in told
    assert f"inline:{REDACTED}|2^20" in told
