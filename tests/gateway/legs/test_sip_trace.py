"""Which message belongs to which call, and what nobody may read in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.legs import sip_trace
from gateway.legs.sip_trace import LINGER_S, MAX_MESSAGES, SipTrace, Traced, without_secrets
from gateway.sip.flow import Flow

FLOW = Flow("udp", ("192.0.2.1", 5062), ("192.0.2.9", 5060))


def message(call: str, start: str = "INVITE sip:x@y SIP/2.0", name: str = "Call-ID") -> bytes:
    return f"{start}\r\nFrom: <sip:a@b>;tag=1\r\n{name}: {call}\r\nContent-Length: 0\r\n\r\n".encode()


class Kept:
    """What came out."""

    def __init__(self) -> None:
        self.all: list[tuple[str, float, Traced]] = []
        self.trace = SipTrace(lambda *seen: self.all.append(seen))

    def starts(self, call_id: str) -> list[str]:
        return [traced.text.split("\r\n")[0] for call, _, traced in self.all if call == call_id]


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_the_first_message_waits_until_it_is_known_whose_it_is(kept) -> None:
    kept.trace.saw(message("abc"), FLOW, sent=False, now=10.0)
    assert kept.all == []
    kept.trace.bind("h1", "abc", "call-1", now=10.002)
    kept.trace.saw(message("abc", "SIP/2.0 100 Trying"), FLOW, sent=True, now=10.003)
    assert kept.starts("call-1") == ["INVITE sip:x@y SIP/2.0", "SIP/2.0 100 Trying"]
    (_, first, invite), (_, second, trying) = kept.all
    assert (first, second) == (0.0, pytest.approx(0.003))
    assert (invite.sent, trying.sent) == (False, True)
    assert (invite.transport, invite.remote, invite.local) == ("udp", "192.0.2.1:5062", "192.0.2.9:5060")


@pytest.mark.parametrize("name", ["Call-ID", "call-id", "CALL-ID", "i", "I", "Call-ID \t"])
def test_the_call_id_is_found_however_it_is_written(kept, name) -> None:
    kept.trace.bind("h1", "a@b c", "call-1", now=0.0)
    kept.trace.saw(message("a@b c ", name=name), FLOW, sent=False, now=0.0)
    assert len(kept.all) == 1


def test_two_dialogs_of_one_call_share_its_clock(kept) -> None:
    kept.trace.bind("h1", "in", "call-1", now=10.0)
    kept.trace.bind("h2", "out", "call-1", now=15.0)
    kept.trace.saw(message("out"), FLOW, sent=True, now=15.0)
    assert [at for _, at, _ in kept.all] == [5.0]


def test_the_last_words_of_a_dialog_are_kept_for_a_while(kept) -> None:
    kept.trace.bind("h1", "abc", "call-1", now=0.0)
    kept.trace.release("h1", now=5.0)
    kept.trace.saw(message("abc", "SIP/2.0 200 OK"), FLOW, sent=False, now=5.1)
    assert len(kept.all) == 1
    kept.trace.bind("h2", "other", "call-2", now=5.0 + LINGER_S)
    assert len(kept.trace) == 1
    kept.trace.saw(message("abc", "SIP/2.0 200 OK"), FLOW, sent=False, now=80.0)
    assert len(kept.all) == 1


def test_a_call_id_that_comes_again_belongs_to_the_new_call(kept) -> None:
    kept.trace.bind("h1", "abc", "call-1", now=0.0)
    kept.trace.bind("h2", "abc", "call-2", now=1.0)
    kept.trace.release("h1", now=2.0)
    kept.trace.bind("h3", "other", "call-3", now=2.0 + LINGER_S)
    kept.trace.saw(message("abc"), FLOW, sent=False, now=70.0)
    assert [(call, at) for call, at, _ in kept.all] == [("call-2", 69.0)]


def test_a_call_that_comes_again_long_after_its_end_has_a_new_clock(kept) -> None:
    kept.trace.bind("h1", "in", "call-1", now=0.0)
    kept.trace.release("h1", now=1.0)
    kept.trace.bind("h2", "again", "call-1", now=1.0 + LINGER_S)
    kept.trace.saw(message("again"), FLOW, sent=False, now=70.0)
    assert [at for _, at, _ in kept.all] == [70.0 - 1.0 - LINGER_S]


def test_what_no_call_claims_is_forgotten(kept) -> None:
    for number in range(1000):
        kept.trace.saw(message(f"options-{number}", "OPTIONS sip:x SIP/2.0"), FLOW, sent=False, now=0.0)
        for _ in range(20):
            kept.trace.saw(message("flood"), FLOW, sent=False, now=0.0)
    kept.trace.bind("h1", "options-0", "call-1", now=0.0)
    assert kept.all == []
    kept.trace.bind("h2", "options-999", "call-2", now=0.0)
    assert len(kept.all) == 1


def test_a_flood_in_one_call_is_kept_up_to_a_number_and_a_size(kept, monkeypatch) -> None:
    kept.trace.bind("h1", "abc", "call-1", now=0.0)
    for _ in range(MAX_MESSAGES + 5):
        kept.trace.saw(message("abc"), FLOW, sent=False, now=0.0)
    assert len(kept.all) == MAX_MESSAGES
    monkeypatch.setattr(sip_trace, "MAX_BYTES", 2000)
    kept.all.clear()
    kept.trace.bind("h2", "xyz", "call-2", now=0.0)
    for _ in range(100):
        kept.trace.saw(message("xyz") + b"x" * 900, FLOW, sent=False, now=0.0)
    assert 2000 <= sum(len(traced.text) for _, _, traced in kept.all) < 3000


def test_a_long_message_is_cut(kept) -> None:
    kept.trace.bind("h1", "abc", "call-1", now=0.0)
    kept.trace.saw(message("abc") + b"x" * 100_000, FLOW, sent=False, now=0.0)
    assert len(kept.all[0][2].text) == sip_trace.MAX_MESSAGE


DIGEST = (
    'Proxy-Authorization: Digest username="200", realm="pbx", nonce="n1", uri="sip:x",\r\n'
    ' response="d41d8cd98f00b204e9800998ecf8427e", cnonce="c1", nc=00000001\r\n'
)


def test_the_proof_of_a_password_is_taken_out_and_the_rest_stays() -> None:
    text = without_secrets(f"INVITE sip:x SIP/2.0\r\n{DIGEST}Call-ID: 1\r\n\r\n")
    assert "d41d8cd98f" not in text
    assert 'username="200", realm="pbx", nonce="n1"' in text
    assert 'response="[redacted]", cnonce="c1", nc=00000001' in text
    assert "Call-ID: 1" in text


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("Authorization: Digest response=0123456789abcdef", "0123456789abcdef"),
        ('AUTHORIZATION: digest Response = "0123456789abcdef"', "0123456789abcdef"),
        ("authorization:Basic QWxhZGRpbjpvcGVu", "QWxhZGRpbjpvcGVu"),
        ("Authorization: Bearer eyJhbGciOi", "eyJhbGciOi"),
        ("\r\n\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwg|2^20|1:4", "WVNfX19zZW1jdGwg"),
        ("\r\n\r\na=crypto:2 AES_CM_128_HMAC_SHA1_80 inline:AAAA|2^20;inline:BBBB|2^20", "BBBB"),
        ("\r\n\r\na=key-mgmt:mikey AQAFgM0XflABAAAAAA", "AQAFgM0XflABAAAAAA"),
        ("\r\n\r\nk=clear:password1", "password1"),
    ],
)  # fmt: skip
def test_no_key_and_no_password_is_kept(line, secret) -> None:
    text = without_secrets(f"INVITE sip:x SIP/2.0\r\n{line}\r\n")
    assert secret not in text
    assert "[redacted]" in text


def test_the_algorithm_and_the_life_time_of_a_key_stay() -> None:
    text = without_secrets(
        "\r\n\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19|2^20|1:4 UNENCRYPTED_SRTCP"
    )
    assert "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:[redacted]|2^20|1:4 UNENCRYPTED_SRTCP" in text


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_nothing_that_comes_breaks_it(data) -> None:
    kept = Kept()
    kept.trace.bind("h", "1", "call", now=0.0)
    kept.trace.saw(b"X\r\nCall-ID: 1\r\n" + data, FLOW, sent=False, now=0.0)
    kept.trace.saw(data, FLOW, sent=False, now=0.0)
    assert len(kept.all) >= 1
