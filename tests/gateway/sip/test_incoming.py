"""Provisional responses of an incoming call: PRACK, and sound before the answer (RFC 3262)."""

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from gateway.sip.policy import PeerPolicy
from tests.gateway.sip.rig import ANSWER, OFFER, Rig, invite, request, statuses

REQUIRED = (("Require", "100rel"), ("Allow", "INVITE,ACK,CANCEL,BYE,PRACK,UPDATE"))
SUPPORTED = (("Supported", "100rel, timer"),)
EARLY = ANSWER


@pytest.fixture
def rig():
    return Rig()


def prack(ringing, cseq=2, rack=None, **more):
    extra = (("RAck", rack or f"{ringing['rseq']} 1 INVITE"),)
    return request("PRACK", branch=f"p{cseq}", to_tag=ringing.tag("to"), cseq=cseq, extra=extra, **more)


def rung(rig, data=None):
    call = rig.offered(data or invite(extra=REQUIRED))
    rig.ua.ring(call, now=rig.now)
    (ringing,) = rig.sent()
    return call, ringing


@pytest.mark.report("BR-028")
def test_a_required_reliable_180_is_sent_again_until_its_prack_and_then_the_call_is_answered(rig):
    call, ringing = rung(rig)
    assert (ringing.status, ringing["require"]) == (180, "100rel")
    assert 1 <= int(ringing["rseq"]) < 2**31
    again = rig.advance(4.0)
    assert [at for at, _ in again] == [0.5, 1.5, 3.5]
    assert {message["rseq"] for _, message in again} == {ringing["rseq"]}
    assert statuses(rig.feed(prack(ringing))) == [200]
    assert rig.advance(60.0) == []
    rig.ua.answer(call, ANSWER, now=rig.now)
    (ok,) = rig.sent()

    assert (ok.status, ok["require"], ok["rseq"]) == (200, "", "")
    assert rig.ua.active_calls == 1


def test_a_retransmitted_invite_brings_the_same_reliable_180(rig):
    _, ringing = rung(rig)
    (again,) = rig.feed(invite(extra=REQUIRED))

    assert again["rseq"] == ringing["rseq"]


def test_without_a_prack_the_invite_is_refused_after_64_t1(rig):
    call, _ = rung(rig)
    at, last = rig.advance(32.0)[-1]

    assert (at, last.status, last.answers) == (32.0, 504, "INVITE")
    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="timeout")]
    assert rig.ua.active_calls == 0


@pytest.mark.parametrize("rack", ["1 1 INVITE", "x", "{rseq} 2 INVITE", "{rseq} 1 UPDATE"])
def test_a_prack_of_something_else_gets_481_and_the_180_goes_on(rig, rack):
    _, ringing = rung(rig)
    wrong = prack(ringing, rack=rack.format(rseq=ringing["rseq"]))

    assert statuses(rig.feed(wrong)) == [481]
    assert statuses([message for _, message in rig.advance(0.5)]) == [180]


def test_answered_before_the_prack_the_2xx_goes_at_once_and_the_prack_is_still_welcome(rig):
    call, ringing = rung(rig)
    rig.ua.answer(call, ANSWER, now=0.1)
    assert statuses(rig.sent()) == [200]
    assert statuses(rig.feed(prack(ringing))) == [200]
    rig.feed(request("ACK", branch="a", to_tag=ringing.tag("to")))

    assert rig.advance(60.0) == []


def test_with_a_description_in_the_183_the_2xx_waits_for_the_prack(rig):
    call = rig.offered(invite(extra=REQUIRED))
    rig.ua.progress(call, EARLY, now=0.0)
    (early,) = rig.sent()
    assert (early.status, early["require"], early.body.encode()) == (183, "100rel", EARLY)
    rig.ua.answer(call, ANSWER, now=0.1)
    assert rig.sent() == []
    with pytest.raises(LocalProtocolError, match="twice"):
        rig.ua.answer(call, ANSWER, now=0.2)
    rig.now = 0.3
    to_prack, ok = rig.feed(prack(early))

    assert (to_prack.status, to_prack.answers) == (200, "PRACK")
    assert (ok.status, ok.answers, ok.body.encode()) == (200, "INVITE", ANSWER)
    rig.feed(request("ACK", branch="a", to_tag=ok.tag("to")))
    assert rig.events() == [sip.CallConfirmed(call, None)]


def test_a_second_reliable_response_waits_for_the_prack_of_the_first(rig):
    call, ringing = rung(rig)
    rig.ua.progress(call, EARLY, now=0.1)
    assert rig.sent() == []
    ok, early = rig.feed(prack(ringing))

    assert statuses([ok, early]) == [200, 183]
    assert int(early["rseq"]) == int(ringing["rseq"]) + 1


@pytest.mark.parametrize("how", ["hang up", "cancel", "peer hangs up"])
def test_an_answer_that_waits_is_given_up_with_the_call(rig, how):
    call = rig.offered(invite(extra=REQUIRED))
    rig.ua.progress(call, EARLY, now=0.0)
    (early,) = rig.sent()
    rig.ua.answer(call, ANSWER, now=0.0)
    match how:
        case "hang up":
            rig.ua.bye(call, now=0.1)
            sent = rig.sent()
        case "cancel":
            sent = rig.feed(request("CANCEL"))
        case _:
            sent = rig.feed(request("BYE", branch="b", to_tag=early.tag("to"), cseq=2))
    assert [message.status for message in sent if message.answers == "INVITE"] == [487]
    assert rig.ua.active_calls == 0
    assert {message.status for _, message in rig.advance(40.0)} == {487}  # until its ACK
    assert statuses(rig.feed(prack(early, cseq=9))) == [481]


def test_without_an_offer_nothing_is_sent_reliably_and_the_200_makes_ours(rig):
    """RFC 3262, section 5: the first reliable response would have to carry our offer."""
    call = rig.offered(invite(body="", extra=REQUIRED))
    rig.ua.ring(call, now=0.0)
    assert rig.sent() == []
    with pytest.raises(LocalProtocolError, match="offer"):
        rig.ua.progress(call, EARLY, now=0.0)
    rig.ua.answer(call, ANSWER, now=0.0)

    assert statuses(rig.sent()) == [200]


def test_who_only_supports_it_gets_plain_ringing_unless_its_trunk_wants_more(rig):
    _, plain = rung(rig, invite(extra=SUPPORTED))
    assert (plain["require"], plain["rseq"]) == ("", "")
    assert rig.advance(10.0) == []
    wanting = Rig()
    wanting.ua.treat(lambda flow, _user: PeerPolicy(reliable_provisional=flow.transport == "udp"))
    _, reliable = rung(wanting, invite(extra=SUPPORTED))
    _, without = rung(wanting, invite(call_id="old", branch="old"))

    assert reliable["require"] == "100rel"
    assert without["require"] == ""


def test_early_media_without_prack_and_then_the_same_answer(rig):
    call = rig.offered()
    rig.ua.progress(call, EARLY, now=0.0)
    (early,) = rig.sent()
    rig.ua.answer(call, EARLY, now=0.0)
    (ok,) = rig.sent()

    assert (early.status, early.body, early["rseq"]) == (183, ok.body, "")
    assert ok.status == 200
    with pytest.raises(LocalProtocolError, match="early media"):
        rig.ua.progress(call, EARLY, now=0.0)
    with pytest.raises(LocalProtocolError, match="session description"):
        rig.ua.progress(call, b"", now=0.0)


@pytest.mark.parametrize(
    ("sdp", "status", "last"), [(b"v=0 new\r\n", 200, b"v=0 new\r\n"), (None, 488, EARLY)]
)
def test_a_new_offer_in_a_prack_is_answered_before_the_call_is(rig, sdp, status, last):
    """RFC 3262, section 5: once the first offer has its answer, a PRACK may bring another."""
    call = rig.offered(invite(extra=REQUIRED))
    rig.ua.progress(call, EARLY, now=0.0)
    (early,) = rig.sent()
    assert rig.feed(prack(early, body=OFFER)) == []
    assert rig.events() == [sip.CallReoffered(call, OFFER.encode())]
    rig.ua.answer(call, EARLY, now=0.1)
    assert rig.sent() == []
    rig.ua.answer_reoffer(call, sdp, now=0.2)
    to_prack, ok = rig.sent()

    assert (to_prack.status, to_prack.answers, to_prack.body.encode()) == (status, "PRACK", sdp or b"")
    assert (ok.status, ok.answers, ok.body.encode()) == (200, "INVITE", last)


def test_an_offer_in_a_prack_that_the_application_forgets_keeps_the_answer_only_for_a_while(rig):
    call = rig.offered(invite(extra=REQUIRED))
    rig.ua.progress(call, EARLY, now=0.0)
    (early,) = rig.sent()
    rig.feed(prack(early, body=OFFER))
    rig.ua.answer(call, EARLY, now=0.0)

    assert [(at, message.status) for at, message in rig.advance(32.0)] == [(32.0, 500), (32.0, 200)]


def test_an_offer_in_a_prack_while_the_first_has_no_answer_is_refused(rig):
    call, ringing = rung(rig)

    assert statuses(rig.feed(prack(ringing, body=OFFER))) == [488]
    rig.ua.answer(call, ANSWER, now=0.0)
    assert statuses(rig.sent()) == [200]


def test_a_prack_with_a_body_that_must_be_understood_gets_415(rig):
    _, ringing = rung(rig)

    assert statuses(rig.feed(prack(ringing, body="x", kind="text/plain"))) == [415]


def test_a_prack_that_nobody_asked_for_gets_481(rig):
    made = rig.confirmed()

    assert statuses(rig.feed(request("PRACK", branch="p", to_tag=made.to_tag, cseq=2))) == [481]
    assert rig.ua.active_calls == 1
