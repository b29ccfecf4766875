import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.net import stun

TRANSACTION = bytes.fromhex("b7e7a701bc34d686fa87dfae")


def answer(attributes: str, kind=0x0101) -> bytes:
    body = bytes.fromhex(attributes)
    return (
        kind.to_bytes(2, "big")
        + len(body).to_bytes(2, "big")
        + bytes.fromhex("2112a442")
        + TRANSACTION
        + body
    )


@pytest.mark.parametrize(
    ("attributes", "address"),
    [
        # The mapped addresses of RFC 5769, sections 2.2 and 2.3, behind an attribute that is to be skipped.
        ("8022000b7465737420766563746f7220" + "002000080001a147e112a643", ("192.0.2.1", 32853)),
        (
            "8022000b7465737420766563746f7220" + "002000140002a1470113a9faa5d3f179bc25f4b5bed2b9d9",
            ("2001:db8:1234:5678:11:2233:4455:6677", 32853),
        ),
        ("0001000800011f90c6336407", ("198.51.100.7", 8080)),  # RFC 3489: not masked
    ],
    ids=["IPv4", "IPv6", "old"],
)
def test_the_address_is_read(attributes, address):
    assert stun.mapped_address(answer(attributes), TRANSACTION) == address


def test_a_request_and_our_answer_to_it():
    request = stun.binding_request(TRANSACTION)
    assert stun.is_stun(request)
    assert stun.kind_of(request) == stun.REQUEST
    assert request.hex() == "000100002112a442" + TRANSACTION.hex()
    for seen in (("203.0.113.5", 5060), ("2001:db8::1", 65535)):
        assert stun.mapped_address(stun.binding_response(request, seen), TRANSACTION) == seen


def test_what_is_no_answer_to_our_request_is_ignored():
    good = answer("0001000800011f90c6336407")
    assert stun.mapped_address(good, b"x" * 12) is None
    assert stun.mapped_address(b"SIP/2.0 200 OK\r\n\r\n\r\n\r\n", TRANSACTION) is None
    assert stun.mapped_address(stun.binding_request(TRANSACTION), TRANSACTION) is None
    assert stun.mapped_address(good[:24], TRANSACTION) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (answer("000900040000041e", kind=0x0111), "refused with 430"),
        (answer("", kind=0x0111), "refused"),
        (answer(""), "no address"),
        (answer("00200008000aa147e112a643"), "no address"),
        (answer("002000300001a147e112a643"), "no address"),
    ],
    ids=["error", "bare error", "nothing", "unknown family", "cut off"],
)
def test_an_answer_of_no_use_says_why(data, why):
    with pytest.raises(stun.StunError, match=why):
        stun.mapped_address(data, TRANSACTION)


@given(st.binary(max_size=80))
def test_no_input_raises_anything_else(rubbish):
    try:
        stun.mapped_address(answer("")[:20] + rubbish, TRANSACTION)
    except stun.StunError:
        pass
    stun.is_stun(rubbish)
