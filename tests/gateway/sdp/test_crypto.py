"""Lines with keys."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sdp.crypto import MAX_LIFETIME, Suite, draw_crypto, read_crypto, redact_sdp

KEY = bytes(range(30))
B64 = base64.b64encode(KEY).decode()
NAME = "AES_CM_128_HMAC_SHA1_80"


def read(value: str):
    found = read_crypto([value])
    return found[0] if found else None


def test_a_line_is_read_with_its_lifetime_and_mki() -> None:
    line = read(f"1 {NAME} inline:{B64}|2^20|1:4")
    assert line is not None
    assert (line.tag, line.suite, line.key) == (1, Suite.AES_CM_128_HMAC_SHA1_80, KEY)
    assert (line.lifetime, line.mki) == (2**20, b"\0\0\0\1")


@pytest.mark.parametrize(
    ("keys", "lifetime", "mki"),
    [
        (B64, MAX_LIFETIME, b""),
        (f"{B64}|1048576", 2**20, b""),
        (f"{B64}|2^48", MAX_LIFETIME, b""),
        (f"{B64}|66051:4", MAX_LIFETIME, b"\0\1\2\3"),
    ],
)
def test_both_of_them_may_be_left_out(keys, lifetime, mki) -> None:
    line = read(f"999999999 {NAME.lower()} INLINE:{keys} WSH=64 -later=1")
    assert line is not None
    assert (line.tag, line.lifetime, line.mki) == (999_999_999, lifetime, mki)


def test_a_key_without_its_padding_is_read() -> None:
    key = bytes(28)
    (line,) = read_crypto([f"2 AEAD_AES_128_GCM inline:{base64.b64encode(key).decode().rstrip('=')}"])
    assert line.key == key


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        f"1 {NAME}",
        f"x {NAME} inline:{B64}",
        f"-1 {NAME} inline:{B64}",
        f"1234567890 {NAME} inline:{B64}",
        f"1 F8_128_HMAC_SHA1_80 inline:{B64}",
        f"1 AES_256_CM_HMAC_SHA1_80 inline:{base64.b64encode(bytes(46)).decode()}",
        f"1 {NAME} uri:{B64}",
        f"1 {NAME} {B64}",
        f"1 {NAME} inline:AAAA",
        f"1 {NAME} inline:{B64}AAAA",
        f"1 {NAME} inline:{B64[:-1]}*",
        f"1 {NAME} inline:é{B64[1:]}",
        f"1 {NAME} inline:{B64}|0",
        f"1 {NAME} inline:{B64}|2^49",
        f"1 {NAME} inline:{B64}|2^x",
        f"1 {NAME} inline:{B64}|2^20|1:0",
        f"1 {NAME} inline:{B64}|2^20|1:129",
        f"1 {NAME} inline:{B64}|2^20|256:1",
        f"1 {NAME} inline:{B64}|2^20|1:4|9",
        f"1 {NAME} inline:{B64}|2^20|1:4;inline:{B64}|2^20|2:4",
        f"1 {NAME} inline:{B64} KDR=1",
        f"1 {NAME} inline:{B64} UNENCRYPTED_SRTP",
        f"1 {NAME} inline:{B64} UNAUTHENTICATED_SRTP",
        f"1 {NAME} inline:{B64} FEC_ORDER=FEC_SRTP",
    ],
)
def test_what_is_broken_unknown_or_weaker_is_left_out(value) -> None:
    assert read(value) is None
    assert len(read_crypto([value, f"1 {NAME} inline:{B64}"])) == 1


def test_many_lines_do_not_make_much_work() -> None:
    assert len(read_crypto([f"1 {NAME} inline:{B64}"] * 1000)) == 16


def test_our_lines_have_each_a_key_of_its_own_and_are_read_back() -> None:
    drawn = iter(range(256))
    lines = draw_crypto(lambda length: bytes(next(drawn) for _ in range(length)))
    assert [line.suite for line in lines] == list(Suite)
    assert len({line.key[:12] for line in lines}) == len(lines)
    assert read_crypto(str(line).partition(":")[2] for line in lines) == lines


def test_a_key_does_not_show_when_a_line_is_printed() -> None:
    (line,) = read_crypto([f"1 {NAME} inline:{B64}"])
    assert repr(KEY) not in repr(line)
    assert "key" not in repr(line)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_no_text_is_too_odd(text) -> None:
    for value in (
        text,
        f"1 {NAME} inline:{text}",
        f"1 {NAME} inline:{B64}|{text}",
        f"1 {NAME} inline:{B64} {text}",
    ):
        read_crypto([value])


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
def test_keys_and_passwords_are_cut_out_of_a_message(end) -> None:
    secrets = [f"S3cret{number}" for number in range(7)]
    lines = [
        "INVITE sip:a@b SIP/2.0",
        "k: timer",
        "",
        "v=0",
        f"k=base64:{secrets[0]}",
        f"a=crypto:1 {NAME} inline:{secrets[1]}|2^20;inline:{secrets[2]}",
        f" A = Crypto : 2 {NAME} {secrets[3]}",
        f"a=ice-pwd:{secrets[4]}",
        f"a=key-mgmt:mikey {secrets[5]}",
        "a=sendrecv",
    ]
    cut = redact_sdp(end.join(lines).encode()).decode()
    assert not any(secret in cut for secret in secrets)
    assert f"a=crypto:1 {NAME} inline:[redacted]|2^20;inline:[redacted]" in cut
    assert "k: timer" in cut
    assert cut.endswith("a=sendrecv")
    assert cut.count(end) == len(lines) - 1
