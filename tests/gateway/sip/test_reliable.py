import pytest

from gateway.sip.message import Headers, Request, Response
from gateway.sip.reliable import Rack, ReliableProvisionals, RingDue, requires, supports
from gateway.sip.timers import Timers


@pytest.fixture
def ringing():
    return ReliableProvisionals(first=7, cseq=3, timers=Timers())


def response(status=180):
    return Response(Headers(), b"", status)


def prack(rack):
    return Request(Headers([("RAck", rack)]), b"", "PRACK")


def test_who_requires_supports():
    assert requires(Headers([("Require", "x, 100REL")]))
    assert not requires(Headers([("Supported", "100rel")]))
    assert supports(Headers([("k", "timer,100rel")]))
    assert supports(Headers([("Require", "100rel")]))
    assert not supports(Headers())


def test_reading_rack():
    assert Rack.parse(" 776656   1 INVITE ") == Rack(776656, 1, "INVITE")
    for broken in ("", "1 INVITE", "x 1 INVITE", "1 1 INVITE y", "99999999999 1 INVITE"):
        with pytest.raises(ValueError, match="RAck"):
            Rack.parse(broken)


def test_a_response_is_numbered_and_required(ringing):
    sent = ringing.send(response(), has_sdp=False, now=0.0)

    assert list(sent.headers) == [("Require", "100rel"), ("RSeq", "7")]
    assert ringing.pending is sent


def test_it_is_sent_again_at_doubling_intervals_until_64_t1(ringing):
    ringing.send(response(), has_sdp=False, now=0.0)
    times, now = [], 0.0
    while (now := ringing.next_timeout()) is not None:
        match ringing.due(now):
            case RingDue.RESEND:
                times.append(now)
            case RingDue.EXPIRED:
                break

    assert times == [0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    assert now == 32.0
    assert ringing.due(0.1) is RingDue.NOTHING


@pytest.mark.parametrize(
    "rack", ["8 3 INVITE", "7 4 INVITE", "7 3 UPDATE", "", "seven", "6 3 INVITE", "07 3 invite"]
)
def test_a_prack_of_something_else_changes_nothing(ringing, rack):
    ringing.send(response(), has_sdp=False, now=0.0)

    assert ringing.acknowledge(prack(rack), now=0.1) == (False, None)
    assert ringing.pending is not None


def test_the_right_prack_ends_it_and_so_does_its_copy(ringing):
    ringing.send(response(), has_sdp=False, now=0.0)

    assert ringing.acknowledge(prack("7 3 INVITE"), now=0.1) == (True, None)
    assert ringing.next_timeout() is None
    assert ringing.acknowledge(prack("7 3 INVITE"), now=0.2) == (True, None)


def test_the_next_waits_for_the_prack_and_only_the_latest_does(ringing):
    ringing.send(response(180), has_sdp=False, now=0.0)
    assert ringing.send(response(181), has_sdp=False, now=0.1) is None
    assert ringing.send(response(183), has_sdp=True, now=0.2) is None
    assert ringing.send(response(182), has_sdp=False, now=0.3) is None  # it may not push the answer out
    assert ringing.holds_answer
    ours, ready = ringing.acknowledge(prack("7 3 INVITE"), now=1.0)

    assert (ours, ready.status, ready.headers.get("RSeq")) == (True, 183, "8")
    assert ringing.next_timeout() == 1.5
    assert ringing.holds_answer
    assert ringing.acknowledge(prack("8 3 INVITE"), now=2.0) == (True, None)
    assert not ringing.holds_answer


def test_after_the_final_response_only_the_prack_on_its_way_is_ours(ringing):
    ringing.send(response(180), has_sdp=False, now=0.0)
    ringing.send(response(183), has_sdp=True, now=0.0)
    ringing.stop()

    assert ringing.next_timeout() is None
    assert not ringing.holds_answer
    assert ringing.acknowledge(prack("7 3 INVITE"), now=0.1) == (True, None)
    assert ringing.acknowledge(prack("8 3 INVITE"), now=0.1) == (False, None)
