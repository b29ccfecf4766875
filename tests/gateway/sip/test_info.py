import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip import events as sip
from gateway.sip.body import UnsupportedBody
from gateway.sip.info import DEFAULT_DURATION_MS, DTMF_TYPES, LONGEST_MS, Key, read_key
from gateway.sip.message import Headers, Request
from tests.gateway.sip.rig import Rig, request

RELAY = "application/dtmf-relay"


def info(body, kind=RELAY, *extra):
    return Request(Headers([("Content-Type", kind), *extra]), body, "INFO")


@pytest.mark.report("BR-140")
@pytest.mark.parametrize(
    ("kind", "body", "key"),
    [
        (RELAY, b"Signal= 5\r\nDuration= 160\r\n", Key("5", 160)),
        (RELAY, b"Signal=*\r\nDuration=250", Key("*", 250)),
        (RELAY, b"Signal=11\r\n", Key("#")),
        (RELAY, b"Signal=10\r\n", Key("*")),
        (RELAY, b"Signal=#\nDuration=160\n", Key("#", 160)),
        (RELAY, b"signal=d\r\nduration=0\r\n", Key("D")),
        (RELAY, b"Duration=90\r\n  Signal = 0 \r\n", Key("0", 90)),
        (RELAY, b"Signal=5\r\nDuration=99999999", Key("5", LONGEST_MS)),
        ("application/dtmf", b"5", Key("5")),
        ("Application/DTMF;charset=utf-8", b" 11\r\n", Key("#")),
        ("application/dtmf", b"d=7\r\n", Key("7")),
        ("audio/telephone-event", b"9", Key("9")),
        ("audio/telephone-event", b"\x0b\x8a\x05\x00", Key("#", 160)),
        ("application/telephone-event", b"Event=3", Key("3")),
        (
            "application/vnd.nortelnetworks.digits",
            b"p=Digit-Collection\r\ny=Digits\r\nd=Digits=8\r\n",
            Key("8"),
        ),
        ("application/vnd.nortelnetworks.digits", b"d=4", Key("4")),
    ],
)
def test_one_key_in_every_form_in_use(kind, body, key):
    assert read_key(info(body, kind)) == key


@pytest.mark.parametrize(
    "body", [b"Signal=\r\n", b"Signal=16", b"hello", b"Duration=100", b"55", b"\xff\xff"]
)
def test_a_body_of_ours_without_a_key_is_an_error(body):
    with pytest.raises(ValueError, match="no key"):
        read_key(info(body))


def test_a_keep_alive_has_no_body_and_tells_nothing():
    assert read_key(info(b"")) is None
    assert read_key(info(b"\r\n", "text/plain")) is None


def test_other_content_must_be_understood_unless_it_is_optional():
    with pytest.raises(UnsupportedBody, match="text/plain"):
        read_key(info(b"5", "text/plain"))
    with pytest.raises(UnsupportedBody, match="without a type"):
        read_key(info(b"5", ""))
    assert read_key(info(b"5", "text/plain", ("Content-Disposition", "x; handling=optional"))) is None


@given(st.binary(max_size=200), st.sampled_from(DTMF_TYPES))
def test_any_body_gives_a_key_or_an_error_of_its_own(body, kind):
    try:
        key = read_key(info(body, kind))
    except ValueError:
        return
    assert key is None or (key.digit in "0123456789*#ABCD" and 0 < key.duration_ms <= LONGEST_MS)


# In a call.


def fed(rig, made, cseq, body, kind=RELAY, extra=()):
    data = request(
        "INFO", branch=f"i{cseq}", to_tag=made.to_tag, cseq=cseq, body=body, kind=kind, extra=extra
    )
    return rig.feed(data)


@pytest.mark.report("BR-140")
def test_a_key_is_answered_200_and_reported_once():
    rig = Rig()
    made = rig.confirmed()
    for _ in range(2):
        (ok,) = fed(rig, made, 2, "Signal= 5\r\nDuration= 160\r\n")
        assert ok.status == 200

    assert rig.events() == [sip.InfoReceived(made.call, "5", 160)]


@pytest.mark.report("BR-140")
def test_what_is_no_key_gets_415_469_or_400_and_the_call_stays():
    rig = Rig()
    made = rig.confirmed()
    (unknown,) = fed(rig, made, 2, "x", kind="application/x-unknown")
    (package,) = fed(rig, made, 3, "Signal=5", extra=(("Info-Package", "foo"),))
    (empty,) = fed(rig, made, 4, "Signal=\r\n")
    (bare,) = fed(rig, made, 5, "")

    assert (unknown.status, unknown["accept"].split(", ")) == (415, list(DTMF_TYPES))
    assert (package.status, package["recv-info"]) == (469, "")
    assert [message.status for message in (empty, bare)] == [400, 200]
    assert not [event for event in rig.events() if isinstance(event, sip.InfoReceived)]
    assert rig.ua.active_calls == 1
    assert DEFAULT_DURATION_MS == 100
