"""Checks of a peer that speaks ICE, written by aioice."""

from __future__ import annotations

import pytest
from aioice import stun
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.net.ice import IceLite
from gateway.sdp import Ice, IceCredentials

OURS = IceCredentials("0a1b2c3d", "00112233445566778899aabbccddeeff")
THEIRS = IceCredentials("Zx+9", "theirs/theirs+theirs01")
SOURCE = ("203.0.113.7", 40_000)


def check(
    *, username: str = "0a1b2c3d:Zx+9", password: str = OURS.password, nominates: bool = False
) -> bytes:
    message = stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)
    message.attributes["USERNAME"] = username
    message.attributes["PRIORITY"] = 1
    message.attributes["ICE-CONTROLLING"] = 7
    if nominates:
        message.attributes["USE-CANDIDATE"] = None
    message.add_message_integrity(password.encode())
    return bytes(message)


@pytest.fixture
def ice() -> IceLite:
    return IceLite(Ice(OURS, THEIRS))


@pytest.mark.parametrize("source", [SOURCE, ("2001:db8::7", 40_000)])
@pytest.mark.parametrize("nominates", [False, True])
def test_a_good_check_is_answered_with_its_source_and_our_signature(ice, source, nominates) -> None:
    request = check(nominates=nominates)
    answer, nominated = ice.receive(request, source)
    read = stun.parse_message(answer)  # which checks the fingerprint
    read.check_message_integrity(OURS.password.encode())
    assert read.message_class is stun.Class.RESPONSE
    assert read.transaction_id == stun.parse_message(request).transaction_id
    assert read.attributes["XOR-MAPPED-ADDRESS"] == source
    assert "FINGERPRINT" in read.attributes
    assert nominated is nominates
    assert ice.knows(source)
    assert not ice.knows(("203.0.113.8", 40_000))


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\0\1",
        check(password="another"),
        check(username="0a1b2c3d:other"),
        check(username="other:Zx+9"),
        bytes(stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)),
        bytes(stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.INDICATION)),
        check()[:-3],
        check() + bytes(1300),
    ],
    ids=range(9),  # by number: each check has random bytes, and workers must agree on the names
)
def test_what_is_no_good_check_gets_no_answer_and_is_not_known(ice, request_) -> None:
    assert ice.receive(request_, SOURCE) == (b"", False)
    assert not ice.knows(SOURCE)


def test_a_nomination_behind_the_signature_does_not_count(ice) -> None:
    signed = check()
    length = int.from_bytes(signed[2:4], "big") + 4
    forged = signed[:2] + length.to_bytes(2, "big") + signed[4:] + b"\0\x25\0\0"
    answer, nominates = ice.receive(forged, SOURCE)
    assert answer
    assert not nominates


def test_only_so_many_places_are_remembered(ice) -> None:
    for port in range(1, 101):
        ice.receive(check(), ("203.0.113.7", port))
    assert not ice.knows(("203.0.113.7", 84))
    assert ice.knows(("203.0.113.7", 85))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 83), st.integers(0, 255))
def test_no_datagram_is_too_odd(noise, at, value) -> None:
    ice = IceLite(Ice(OURS, THEIRS))
    good = check()
    changed = good[:at] + bytes([value]) + good[at + 1 :]
    for data in (noise, good[:20] + noise, changed, good[:at]):
        answer, nominates = ice.receive(data, SOURCE)
        assert bool(answer) == (data == good)
        assert not nominates
