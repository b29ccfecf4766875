"""One call from INVITE to BYE: two sides by hand, time by force."""

import pytest

from gateway.sip import events as sip
from gateway.sip.flow import Flow
from gateway.sip.settings import UaSettings
from gateway.sip.timers import Timers
from tests.gateway.sip.rig import ANSWER, OFFER, TCP, US, Rig, invite, request, statuses
from tests.kit import sip_text


@pytest.fixture
def rig():
    return Rig()


def in_dialog(method, made, cseq=2, **more):
    return request(method, branch=f"{method}{cseq}", to_tag=made.to_tag, cseq=cseq, **more)


# Set-up.


def test_ringing_and_answer_carry_tag_contact_and_record_route(rig):
    routes = (("Record-Route", "<sip:p2.example;lr>"), ("Record-Route", "<sip:p1.example;lr>"))
    call = rig.offered(invite(extra=routes))
    rig.ua.ring(call, now=0.0)
    rig.ua.answer(call, ANSWER, now=0.0)
    ringing, ok = rig.sent()

    assert statuses([ringing, ok]) == [180, 200]
    assert ringing.tag("to") == ok.tag("to") != ""
    for response in (ringing, ok):
        assert response.all("record-route") == ["<sip:p2.example;lr>", "<sip:p1.example;lr>"]
        assert response["contact"] == "<sip:192.0.2.10:5060>"
    assert ok.body.encode() == ANSWER
    assert ok["content-type"] == "application/sdp"
    assert "UPDATE" in ok["allow"]
    assert ok["server"] == "Trunkline"


@pytest.mark.report("BR-003")
def test_a_repeated_invite_makes_no_second_call_and_gets_the_last_response(rig):
    call = rig.offered()
    rig.ua.ring(call, now=0.0)
    rig.sent()
    rig.now = 0.5
    assert statuses(rig.feed(invite())) == [180]
    rig.ua.answer(call, ANSWER, now=1.0)
    rig.sent()
    rig.now = 1.4
    assert statuses(rig.feed(invite())) == [200]
    assert rig.events() == []
    assert rig.ua.active_calls == 1


@pytest.mark.report("BR-003")
def test_the_200_is_repeated_until_the_ack(rig):
    made = rig.answered()
    log = rig.advance(9.0)

    assert [(at, message.status) for at, message in log] == [(0.5, 200), (1.5, 200), (3.5, 200), (7.5, 200)]
    rig.feed(request("ACK", branch="a", to_tag=made.to_tag))
    assert rig.events() == [sip.CallConfirmed(made.call, None)]
    assert rig.advance(100.0) == []
    assert rig.feed(invite()) != []  # its transaction is over: 482, and no second call
    assert rig.ua.active_calls == 1


@pytest.mark.report("BR-003")
def test_without_an_ack_a_bye_follows_after_32_seconds_and_all_is_released(rig):
    made = rig.answered()
    log = rig.advance(32.0)
    at, bye = log[-1]

    assert (at, bye.method, bye["reason"]) == (32.0, "BYE", "")
    assert rig.events() == [sip.CallEnded(made.call, by_peer=False, reason="ack_timeout")]
    assert rig.ua.active_calls == 0
    rig.response(bye, 200)
    rig.advance(100.0)
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


def test_the_200_is_repeated_over_tcp_too(rig):
    rig.answered(invite(via="SIP/2.0/TCP 198.51.100.7"), TCP)

    assert [at for at, _ in rig.advance(4.0)] == [0.5, 1.5, 3.5]


def test_timers_are_settings():
    rig = Rig(UaSettings(timers=Timers(t1=0.01, t2=0.02, t4=0.02)))
    made = rig.answered()
    log = rig.advance(0.64)

    assert log[-1][0] == pytest.approx(0.64)
    assert rig.events() == [sip.CallEnded(made.call, by_peer=False, reason="ack_timeout")]


@pytest.mark.report("BR-001")
def test_a_late_offer_is_ours_and_the_ack_brings_the_answer(rig):
    rig.feed(invite(body=""))
    (offered,) = rig.events()
    assert offered.offer is None
    rig.ua.answer(offered.call, ANSWER, now=0.0)
    (ok,) = rig.sent()
    assert ok.body.encode() == ANSWER
    answer = sip_text.offer("198.51.100.7", 24500, codecs=("PCMA",))
    rig.feed(request("ACK", branch="a", to_tag=ok.tag("to"), body=answer))

    assert rig.events() == [sip.CallConfirmed(offered.call, answer.encode())]


@pytest.mark.report("BR-001")
@pytest.mark.parametrize(("body", "kind"), [("", "application/sdp"), ("x", "text/plain")])
def test_an_ack_without_the_answer_is_told_and_the_call_can_be_ended(rig, body, kind):
    made = rig.answered(invite(body=""))
    rig.feed(request("ACK", branch="a", to_tag=made.to_tag, body=body, kind=kind))

    assert rig.events() == [sip.CallConfirmed(made.call, None)]
    rig.ua.bye(made.call, now=0.0)
    assert [message.method for message in rig.sent()] == ["BYE"]


def test_an_ack_body_means_nothing_when_the_offer_was_theirs(rig):
    made = rig.answered()
    rig.feed(request("ACK", branch="a", to_tag=made.to_tag, body=OFFER))

    assert rig.events() == [sip.CallConfirmed(made.call, None)]


def test_repeated_acks_are_absorbed(rig):
    made = rig.confirmed()

    assert rig.feed(request("ACK", branch="again", to_tag=made.to_tag)) == []
    assert rig.events() == []


@pytest.mark.parametrize("tag", ["other", ""])
def test_an_ack_with_another_tag_confirms_nothing(rig, tag):
    rig.answered()
    rig.feed(request("ACK", branch="a", to_tag=tag))

    assert [type(event) for event in rig.events()] == [sip.MessageDropped]


def test_a_rejection_carries_its_reason_and_headers_and_waits_for_the_ack(rig):
    call = rig.offered()
    rig.ua.reject(call, 503, reason="Full", headers=[("Retry-After", "9")], now=0.0)
    (refused,) = rig.sent()

    assert (refused.start, refused["retry-after"]) == ("SIP/2.0 503 Full", "9")
    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="rejected")]
    assert [message.status for _, message in rig.advance(2.0)] == [503, 503]
    assert rig.feed(request("ACK", to_tag=refused.tag("to"))) == []
    assert rig.advance(40.0) == []
    assert rig.ua.transactions == 0


def test_a_rejection_cannot_smuggle_a_header(rig):
    call = rig.offered()
    with pytest.raises(ValueError, match="line break"):
        rig.ua.reject(call, 404, headers=[("X", "a\r\nB: c")], now=0.0)
    assert rig.sent() == []
    rig.ua.reject(call, 404, now=0.0)
    assert statuses(rig.sent()) == [404]


def test_a_bye_cannot_smuggle_a_header_and_may_be_tried_again(rig):
    made = rig.confirmed()
    with pytest.raises(ValueError, match="line break"):
        rig.ua.bye(made.call, reason="a\r\nB: c", now=rig.now)
    assert (rig.sent(), rig.events()) == ([], [])
    rig.ua.bye(made.call, now=rig.now)
    assert [message.method for message in rig.sent()] == ["BYE"]


def test_a_call_that_nobody_answers_ends_with_480(rig):
    call = rig.offered()
    log = rig.advance(180.0)

    assert [message.status for _, message in log] == [480]
    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="timeout")]


# CANCEL.


@pytest.mark.report("BR-015")
def test_a_cancel_gets_200_and_the_invite_487(rig):
    call = rig.offered()
    rig.ua.ring(call, now=0.0)
    (ringing,) = rig.sent()
    ok, terminated = rig.feed(request("CANCEL"))

    assert (ok.status, ok.answers) == (200, "CANCEL")
    assert (terminated.status, terminated.answers) == (487, "INVITE")
    assert ok.tag("to") == terminated.tag("to") == ringing.tag("to")
    assert rig.events() == [sip.CallEnded(call, by_peer=True, reason="cancel")]
    assert rig.feed(request("ACK", to_tag=ok.tag("to"))) == []
    assert statuses(rig.feed(request("CANCEL"))) == [200]  # a repeated CANCEL
    assert rig.events() == []


def test_a_cancel_may_say_why(rig):
    call = rig.offered()
    reason = 'SIP;cause=200;text="Call completed elsewhere"'
    rig.feed(request("CANCEL", extra=(("Reason", reason),)))

    assert rig.events() == [sip.CallEnded(call, by_peer=True, reason="cancel", phrase=reason)]


@pytest.mark.report("BR-023")
def test_a_cancel_that_crosses_the_200_has_no_effect(rig):
    made = rig.answered()
    rig.now = 1.01
    (ok,) = rig.feed(request("CANCEL"))
    assert (ok.status, ok.tag("to")) == (200, made.to_tag)
    rig.feed(request("ACK", branch="a", to_tag=made.to_tag))

    assert rig.events() == [sip.CallConfirmed(made.call, None)]
    assert statuses(rig.feed(in_dialog("BYE", made))) == [200]
    assert rig.events() == [sip.CallEnded(made.call, by_peer=True, reason="bye")]


# BYE.


def test_a_repeated_bye_is_answered_by_its_transaction(rig):
    made = rig.confirmed()
    bye = in_dialog("BYE", made)

    assert [statuses(rig.feed(bye)) for _ in range(3)] == [[200], [200], [200]]
    assert rig.events() == [sip.CallEnded(made.call, by_peer=True, reason="bye")]
    assert statuses(rig.feed(in_dialog("BYE", made, cseq=3))) == [481]


def test_our_bye_is_repeated_until_its_answer(rig):
    made = rig.confirmed()
    rig.ua.bye(made.call, reason='Q.850;cause=16;text="done"', now=rig.now)
    (bye,) = rig.sent()

    assert bye.start == "BYE sip:alice@198.51.100.7:5060 SIP/2.0"
    assert bye["reason"] == 'Q.850;cause=16;text="done"'
    assert bye.tag("from") == made.to_tag
    assert rig.events() == [sip.CallEnded(made.call, by_peer=False, reason="local")]
    assert [at for at, _ in rig.advance(2.0)] == [0.5, 1.5]
    rig.response(bye, 200)
    assert rig.advance(60.0) == []
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


@pytest.mark.parametrize("status", [407, 481, 500])
def test_a_refused_bye_still_frees_everything(rig, status):
    made = rig.confirmed()
    rig.ua.bye(made.call, now=rig.now)
    (bye,) = rig.sent()
    rig.response(bye, 100)
    assert rig.ua.dialogs == 1
    rig.response(bye, status, "No")

    assert rig.ua.dialogs == 0


def test_an_unanswered_bye_frees_everything_too(rig):
    made = rig.confirmed()
    rig.ua.bye(made.call, now=rig.now)
    rig.advance(60.0)

    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)
    assert rig.events() == [sip.CallEnded(made.call, by_peer=False, reason="local")]


def test_crossing_byes_are_both_answered(rig):
    made = rig.confirmed()
    rig.ua.bye(made.call, now=rig.now)
    (bye,) = rig.sent()

    assert statuses(rig.feed(in_dialog("BYE", made))) == [200]
    assert len(rig.events()) == 1
    rig.response(bye, 481, "Gone")
    assert rig.ua.dialogs == 0


def test_a_bye_before_the_ack_waits_for_it(rig):
    made = rig.answered()
    rig.ua.bye(made.call, reason="Q.850;cause=16", now=0.1)
    assert rig.sent() == []
    assert rig.events() == [sip.CallEnded(made.call, by_peer=False, reason="local")]
    assert [message.status for _, message in rig.advance(0.9)] == [200]  # until the ACK, as before
    (bye,) = rig.feed(request("ACK", branch="a", to_tag=made.to_tag))

    assert (bye.method, bye["reason"]) == ("BYE", "Q.850;cause=16")
    assert rig.events() == []
    assert not rig.ua.bye(made.call, now=1.0)


def test_a_bye_before_the_ack_leaves_at_the_latest_with_the_timeout(rig):
    made = rig.answered()
    rig.ua.bye(made.call, now=0.1)
    rig.events()
    at, bye = rig.advance(32.0)[-1]

    assert (at, bye.method) == (32.0, "BYE")
    assert rig.events() == []


def test_the_peers_bye_makes_ours_needless(rig):
    made = rig.answered()
    rig.ua.bye(made.call, now=0.1)
    assert statuses(rig.feed(in_dialog("BYE", made))) == [200]

    assert rig.feed(request("ACK", branch="a", to_tag=made.to_tag)) == []
    assert rig.advance(60.0) == []
    assert rig.events()[0] == sip.CallEnded(made.call, by_peer=False, reason="local")
    assert rig.ua.dialogs == 0


def test_the_peers_bye_before_its_ack_ends_the_call(rig):
    made = rig.answered()

    assert statuses(rig.feed(in_dialog("BYE", made))) == [200]
    assert rig.events() == [sip.CallEnded(made.call, by_peer=True, reason="bye")]
    assert rig.advance(60.0) == []  # the 200 to the INVITE is not repeated any more


def test_a_bye_of_a_ringing_call_ends_it_with_487(rig):
    call = rig.offered()
    rig.ua.ring(call, now=0.0)
    (ringing,) = rig.sent()
    ok, terminated = rig.feed(request("BYE", branch="b", to_tag=ringing.tag("to"), cseq=2))

    assert (ok.answers, ok.status, terminated.answers, terminated.status) == ("BYE", 200, "INVITE", 487)
    assert rig.events() == [sip.CallEnded(call, by_peer=True, reason="bye")]


@pytest.mark.report("BR-022")
def test_our_bye_reaches_a_phone_behind_nat(rig):
    flow = Flow("udp", ("203.0.113.77", 21044), US)
    made = rig.confirmed(
        invite(via="SIP/2.0/UDP 192.168.88.15:5060;rport", contact="<sip:phone@192.168.88.15:5060>"), flow
    )
    rig.ua.bye(made.call, now=rig.now)
    (bye,) = rig.sent()

    assert bye.start == "BYE sip:phone@192.168.88.15:5060 SIP/2.0"
    assert rig.outgoing[-1].flow == flow


@pytest.mark.report("BR-026")
def test_our_bye_follows_the_record_route(rig):
    routes = (
        ("Route", "<sip:edge.us.example;lr>"),
        ("Record-Route", "<sip:203.0.113.2:5070;lr>"),
        ("Record-Route", "<sip:p1.example;lr>"),
    )
    made = rig.confirmed(invite(contact="<sip:alice@198.51.100.4:5070>", extra=routes))
    rig.ua.bye(made.call, now=rig.now)
    (bye,) = rig.sent()

    assert bye.start == "BYE sip:alice@198.51.100.4:5070 SIP/2.0"
    assert bye.all("route") == ["<sip:203.0.113.2:5070;lr>", "<sip:p1.example;lr>"]
    assert rig.outgoing[-1].flow.remote == ("203.0.113.2", 5070)
