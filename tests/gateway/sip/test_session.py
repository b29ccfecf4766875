"""Session timers of a call at work (RFC 4028)."""

import pytest

from gateway.sip import events as sip
from gateway.sip.policy import PeerPolicy
from gateway.sip.settings import SessionTerms, UaSettings
from tests.gateway.sip.out_rig import CONTACT, SDP, OutRig, answer
from tests.gateway.sip.rig import ANSWER, OFFER, UDP, Rig, invite, request, statuses

UPDATES = ("Allow", "INVITE, ACK, BYE, CANCEL, UPDATE")
TIMER = ("Supported", "timer")


@pytest.fixture
def rig():
    return Rig()


def up(rig, *extra):
    """Bring a call up; return it and our 200."""
    call = rig.offered(invite(extra=extra))
    rig.ua.answer(call, ANSWER, now=rig.now)
    (ok,) = rig.sent()
    rig.feed(request("ACK", branch="ack", to_tag=ok.tag("to")))
    rig.events()
    return call, ok


def in_dialog(method, ok, cseq, *extra, **more):
    return request(method, branch=f"{method}{cseq}", to_tag=ok.tag("to"), cseq=cseq, extra=extra, **more)


def log(sent):
    """Our requests; responses that wait for their ACK are not the point here."""
    return [(at, message.method) for at, message in sent if message.method]


@pytest.mark.report("BR-035")
def test_too_small_an_interval_is_refused_in_the_invite_and_later_without_harm(rig):
    small = ("Session-Expires", "30")
    refused = rig.feed(invite(call_id="small", branch="s", extra=(TIMER, small)))[-1]
    assert (refused.status, refused["min-se"]) == (422, "90")
    assert rig.ua.active_calls == 0
    call, ok = up(rig, TIMER, ("Session-Expires", "600;refresher=uac"))
    rig.events()
    rig.now = 100.0
    for cseq, method in ((2, "UPDATE"), (3, "INVITE")):
        (refused,) = rig.feed(in_dialog(method, ok, cseq, TIMER, small, body=OFFER))
        assert (refused.status, refused["min-se"]) == (422, "90")
    assert rig.ua.active_calls == 1
    assert [event.status for event in rig.events()] == [422, 422]

    assert log(rig.advance(568.0)) == [(568.0, "BYE")]  # 600 - 32: the timer of before
    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="timeout")]


def test_the_2xx_tells_interval_and_refresher(rig):
    _, ok = up(rig, TIMER, ("Session-Expires", "1200"))

    assert ok["session-expires"] == "1200;refresher=uas"
    assert ok["require"] == "timer"
    assert ok["supported"] == "timer, 100rel"


@pytest.mark.report("BR-027")
def test_as_refresher_we_send_an_update_at_half_the_interval_again_and_again(rig):
    call, _ = up(rig, TIMER, UPDATES, ("Session-Expires", "120"))
    for round_ in range(3):
        at = 60.0 * (round_ + 1)
        ((when, update),) = rig.advance(at)
        assert (when, update.method, update.body) == (at, "UPDATE", "")
        assert update["session-expires"] == "120;refresher=uac"
        assert update["supported"] == "timer, 100rel"
        rig.response(update, 200, extra=(("Session-Expires", "120;refresher=uac"),))

    assert rig.events() == []
    assert rig.ua.bye(call, now=rig.now)


@pytest.mark.report("BR-009")
def test_a_body_less_update_is_answered_without_sdp_and_starts_the_timer_again(rig):
    _, ok = up(rig, TIMER, UPDATES, ("Session-Expires", "600;refresher=uac"))
    rig.now = 500.0
    (fresh,) = rig.feed(in_dialog("UPDATE", ok, 105))

    assert (fresh.status, fresh.body, fresh["content-type"]) == (200, "", "")
    assert fresh["session-expires"] == "600;refresher=uac"
    assert log(rig.advance(1067.9)) == []
    assert log(rig.advance(1068.0)) == [(1068.0, "BYE")]


def test_an_update_while_it_rings_starts_no_timer(rig):
    call = rig.offered(invite(extra=(TIMER, ("Session-Expires", "90"))))
    rig.ua.ring(call, now=0.0)
    (ringing,) = rig.sent()
    (fresh,) = rig.feed(in_dialog("UPDATE", ringing, 2, TIMER, ("Session-Expires", "90")))
    assert (fresh.status, fresh["session-expires"], fresh["supported"]) == (200, "", "timer, 100rel")

    assert log(rig.advance(170.0)) == []
    assert rig.events() == []


@pytest.mark.parametrize("method", ["INVITE", "UPDATE"])
def test_an_accepted_offer_starts_the_timer_again_and_a_refused_one_does_not(rig, method):
    call, ok = up(rig, TIMER, UPDATES, ("Session-Expires", "600;refresher=uac"))
    rig.now = 400.0
    rig.feed(in_dialog(method, ok, 2, TIMER, ("Session-Expires", "90;refresher=uac"), body=OFFER))
    rig.ua.answer_reoffer(call, None, now=400.0)
    assert statuses(rig.sent()) == [488]
    rig.feed(in_dialog(method, ok, 3, TIMER, ("Session-Expires", "90;refresher=uac"), body=OFFER))
    rig.ua.answer_reoffer(call, ANSWER, now=400.0)
    (agreed,) = rig.sent()
    rig.feed(request("ACK", branch="a3", to_tag=ok.tag("to"), cseq=3))

    assert agreed["session-expires"] == "90;refresher=uac"
    assert log(rig.advance(460.0)) == [(460.0, "BYE")]


def test_a_refusal_of_our_refresh_is_no_failure_of_the_call(rig):
    up(rig, TIMER, UPDATES, ("Session-Expires", "120"))
    ((_, update),) = rig.advance(60.0)
    rig.response(update, 500)
    ((at, again),) = rig.advance(70.0)

    assert (at, again.method) == (70.0, "UPDATE")
    rig.response(again, 200, extra=(("Session-Expires", "120;refresher=uac"),))
    assert log(rig.advance(130.0)) == [(130.0, "UPDATE")]


def test_refreshes_that_never_succeed_end_in_a_bye_before_the_session_does(rig):
    call, _ = up(rig, TIMER, UPDATES, ("Session-Expires", "90"))
    seen = []
    while not seen or seen[-1] != "BYE":
        for _, message in rig.advance(rig.now + 1.0):
            seen.append(message.method)
            if message.method == "UPDATE":
                rig.response(message, 503)

    assert seen == ["UPDATE", "UPDATE", "BYE"]
    assert rig.now == 60.0
    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="timeout")]


@pytest.mark.parametrize("status", [408, 481])
def test_a_peer_that_does_not_know_the_call_any_more_ends_it(rig, status):
    call, _ = up(rig, TIMER, UPDATES, ("Session-Expires", "120"))
    ((_, update),) = rig.advance(60.0)
    (bye,) = rig.response(update, status)

    assert bye.method == "BYE"
    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="timeout")]


def test_a_peer_that_does_not_answer_a_refresh_is_gone(rig):
    call, _ = up(rig, TIMER, UPDATES, ("Session-Expires", "1800"))
    sent = rig.advance(932.0)

    assert sent[-1][1].method == "BYE"
    assert sent[0][0] == 900.0
    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="timeout")]


def test_a_422_to_our_refresh_raises_the_interval_at_once(rig):
    up(rig, TIMER, UPDATES, ("Session-Expires", "120"))
    ((_, update),) = rig.advance(60.0)
    rig.response(update, 422, extra=(("Min-SE", "300"),))
    ((at, again),) = rig.advance(60.0)

    assert (at, again["session-expires"], again["min-se"]) == (60.0, "300;refresher=uac", "300")
    rig.response(again, 200, extra=(("Session-Expires", "300;refresher=uac"),))
    assert log(rig.advance(210.0)) == [(210.0, "UPDATE")]


def test_a_late_answer_to_a_refresh_does_not_wake_a_call_that_has_ended(rig):
    call, _ = up(rig, TIMER, UPDATES, ("Session-Expires", "120"))
    ((_, update),) = rig.advance(60.0)
    rig.ua.bye(call, now=60.0)
    (bye,) = rig.sent()
    rig.response(update, 500)
    rig.response(bye, 200)

    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="local")]
    assert rig.advance(400.0) == []
    assert rig.ua.next_timeout() is None


def test_a_peer_without_timers_gets_none(rig):
    _, ok = up(rig)

    assert (ok["session-expires"], ok["require"]) == ("", "")
    assert rig.advance(10_000.0) == []


def test_a_trunk_may_go_without_timers():
    rig = Rig()
    rig.ua.treat(lambda _flow, _user: PeerPolicy(session_timers=False))
    _, ok = up(rig, TIMER, ("Session-Expires", "30"))

    assert (ok.status, ok["session-expires"], ok["supported"]) == (200, "", "100rel")
    (refused,) = rig.feed(invite(call_id="r", branch="r", extra=(("Require", "timer"),)))
    assert (refused.status, refused["unsupported"]) == (420, "timer")
    assert log(rig.advance(10_000.0)) == []


def test_our_own_terms_are_settings():
    rig = Rig(UaSettings(session=SessionTerms(interval=300, min_se=200)))
    refused = rig.feed(invite(call_id="s", branch="s", extra=(TIMER, ("Session-Expires", "199"))), UDP)[-1]
    _, ok = up(rig, TIMER, ("Session-Expires", "4000"))

    assert (refused.status, refused["min-se"]) == (422, "200")
    assert ok["session-expires"] == "300;refresher=uas"


# Without UPDATE at the peer: a re-INVITE.


def acked(sent):
    return [message for message in sent if message.method == "ACK"]


def test_a_peer_without_update_is_refreshed_by_our_last_description(rig):
    _, ok = up(rig, TIMER, ("Session-Expires", "120"))
    for at in (60.0, 120.0):
        ((when, again),) = rig.advance(at)
        assert (when, again.method, again.body) == (at, "INVITE", ok.body)
        assert again["session-expires"] == "120;refresher=uac"
        assert again["content-type"] == "application/sdp"
        extra = (("Session-Expires", "120;refresher=uac"), ("Contact", "<sip:alice@198.51.100.7:5060>"))
        (ack,) = rig.feed(answer(again, 200, extra=extra, body=OFFER))
        assert ack.method == "ACK"
        (reported,) = rig.events()
        assert (reported.status, reported.sdp) == (200, OFFER.encode())


def test_a_peer_that_refuses_update_is_refreshed_by_invite_at_once(rig):
    up(rig, TIMER, UPDATES, ("Session-Expires", "120"))
    ((_, update),) = rig.advance(60.0)
    rig.response(update, 501)
    ((at, again),) = rig.advance(60.0)

    assert (at, again.method) == (60.0, "INVITE")


def test_a_held_call_is_refreshed_as_held(rig):
    call, ok = up(rig, TIMER, ("Session-Expires", "120"))
    rig.feed(in_dialog("INVITE", ok, 2, TIMER, body=OFFER))
    rig.ua.answer_reoffer(call, b"v=0 held\r\n", now=rig.now)
    rig.sent()
    rig.feed(request("ACK", branch="a2", to_tag=ok.tag("to"), cseq=2))
    refreshes = [message for _, message in rig.advance(900.0) if message.method == "INVITE"]

    assert refreshes[0].body == "v=0 held\r\n"


def test_a_refused_reinvite_is_told_to_nobody_and_tried_again(rig):
    call, _ = up(rig, TIMER, ("Session-Expires", "120"))
    ((_, again),) = rig.advance(60.0)
    assert len(acked(rig.response(again, 488))) == 1
    assert rig.events() == []
    ((at, third),) = rig.advance(70.0)
    assert (at, third.method) == (70.0, "INVITE")
    rig.response(third, 481)

    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="timeout")]


def test_a_refresh_waits_while_an_offer_of_the_peer_is_open(rig):
    call, ok = up(rig, TIMER, ("Session-Expires", "120"))
    rig.advance(59.0)
    rig.feed(in_dialog("INVITE", ok, 2, body=OFFER))
    assert log(rig.advance(61.0)) == []
    rig.ua.answer_reoffer(call, None, now=61.0)
    rig.sent()

    at, method = log(rig.advance(65.0))[0]
    assert (at > 61.0, method) == (True, "INVITE")


def test_an_offer_of_ours_that_comes_during_a_refresh_follows_it(rig):
    call, _ = up(rig, TIMER, ("Session-Expires", "120"))
    ((_, refresh),) = rig.advance(60.0)
    rig.ua.reoffer(call, b"v=0 new\r\n", now=60.0)
    assert rig.sent() == []
    ack, offer = rig.feed(answer(refresh, 200, extra=(("Session-Expires", "120;refresher=uac"),), body=OFFER))

    assert (ack.method, offer.method, offer.body) == ("ACK", "INVITE", "v=0 new\r\n")
    rig.feed(answer(offer, 200, extra=(("Session-Expires", "120;refresher=uac"),), body=OFFER))
    assert [event.status for event in rig.events()] == [200, 200]
    ((_, later),) = rig.advance(120.0)
    assert later.body == "v=0 new\r\n"


# Calls of ours.


@pytest.mark.report("BR-027")
def test_the_callees_timer_makes_us_refresh_within_60_s():
    rig = OutRig()
    rig.dial()
    assert "timer" in rig.invite["supported"]
    extra = (CONTACT, TIMER, ("Session-Expires", "120;refresher=uac"), ("Require", "timer"), UPDATES)
    rig.reply(200, body=SDP, extra=extra)
    for at in (60.0, 120.0):
        ((when, update),) = rig.advance(at)
        assert (when, update.method) == (at, "UPDATE")
        assert update["session-expires"] == "120;refresher=uac"
        rig.response(update, 200, extra=(TIMER, ("Session-Expires", "120;refresher=uac")))
    assert rig.ua.active_calls == 1


def test_where_the_callee_refreshes_we_hang_up_when_it_does_not():
    rig = OutRig()
    rig.accepted(extra=(CONTACT, ("Session-Expires", "90;refresher=uas"), ("Require", "timer")))

    assert log(rig.advance(60.0)) == [(60.0, "BYE")]
    assert rig.ends() == [sip.CallEnded(rig.call, by_peer=False, reason="timeout")]


def test_a_callee_with_a_larger_minimum_gets_a_second_invite_with_it():
    rig = OutRig()
    rig.dial()
    ack, again = rig.reply(422, "Session Interval Too Small", extra=(("Min-SE", "3600"),))

    assert (ack.method, again.method, again.cseq) == ("ACK", "INVITE", 2)
    assert (again["session-expires"], again["min-se"]) == ("3600", "3600")
    assert again["call-id"] == rig.invite["call-id"]
    rig.reply(422, to=again, extra=(("Min-SE", "3600"),))
    assert [end.status for end in rig.ends()] == [422]


def test_a_callee_without_timers_is_left_alone():
    rig = OutRig()
    rig.accepted()

    assert rig.advance(20_000.0) == []
