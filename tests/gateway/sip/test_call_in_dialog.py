"""One call from INVITE to BYE: two sides by hand, time by force."""

import pytest

from gateway.sip import events as sip
from tests.gateway.sip.rig import ANSWER, OFFER, UDP, Rig, invite, request, statuses
from tests.kit import sip_text


@pytest.fixture
def rig():
    return Rig()


def in_dialog(method, made, cseq=2, **more):
    return request(method, branch=f"{method}{cseq}", to_tag=made.to_tag, cseq=cseq, **more)


# In the dialog.


def test_a_low_cseq_gets_500(rig):
    made = rig.confirmed()
    rig.feed(in_dialog("INFO", made, cseq=10))
    (refused,) = rig.feed(in_dialog("BYE", made, cseq=9))

    assert refused.status == 500
    assert rig.events() == [sip.RequestRefused("udp:198.51.100.7:5060", 500, "the CSeq is too low")]
    assert rig.ua.active_calls == 1


@pytest.mark.parametrize("method", ["OPTIONS", "INFO"])
def test_options_and_a_bare_info_are_fine(rig, method):
    made = rig.confirmed()
    (ok,) = rig.feed(in_dialog(method, made))

    assert ok.status == 200
    assert rig.events() == []


@pytest.mark.parametrize(
    ("method", "status"), [("SUBSCRIBE", 405), ("PUBLISH", 405), ("PRACK", 481), ("MESSAGE", 405)]
)
def test_unknown_methods_do_not_end_the_call(rig, method, status):
    made = rig.confirmed()

    assert statuses(rig.feed(in_dialog(method, made))) == [status]
    assert rig.ua.active_calls == 1


@pytest.mark.report("BR-002")
@pytest.mark.report("BR-009")
def test_a_reinvite_is_offered_once_and_answered_for_itself(rig):
    made = rig.confirmed()
    hold = sip_text.offer("203.0.113.20", 30010, direction="sendonly")
    reinvite = in_dialog("INVITE", made, body=hold, contact="<sip:moved@198.51.100.9:5080>")
    assert statuses(rig.feed(reinvite)) == [100]
    assert statuses(rig.feed(reinvite)) == [100]
    assert rig.events() == [sip.CallReoffered(made.call, hold.encode())]
    rig.ua.answer_reoffer(made.call, b"v=0 held\r\n", now=rig.now)
    (ok,) = rig.sent()

    assert (ok.status, ok.cseq, ok.body) == (200, 2, "v=0 held\r\n")
    assert ok["contact"] == "<sip:192.0.2.10:5060>"
    assert [message.cseq for _, message in rig.advance(1.0)] == [2]  # repeated until its ACK
    rig.feed(request("ACK", branch="a2", to_tag=made.to_tag, cseq=2))
    assert rig.advance(60.0) == []
    assert rig.events() == []
    rig.ua.bye(made.call, now=rig.now)
    assert rig.sent()[0].start == "BYE sip:moved@198.51.100.9:5080 SIP/2.0"


@pytest.mark.report("BR-009")
def test_update_with_an_offer_and_without(rig):
    made = rig.confirmed()
    assert rig.feed(in_dialog("UPDATE", made, cseq=104, body=OFFER)) == []
    assert rig.events() == [sip.CallReoffered(made.call, OFFER.encode())]
    rig.ua.answer_reoffer(made.call, ANSWER, now=rig.now)
    (ok,) = rig.sent()
    assert (ok.status, ok.answers, ok.cseq, ok.body.encode()) == (200, "UPDATE", 104, ANSWER)
    (refresh,) = rig.feed(in_dialog("UPDATE", made, cseq=105, contact="<sip:new@198.51.100.9>"))

    assert (refresh.status, refresh.body, refresh["content-type"]) == (200, "", "")
    assert rig.events() == []
    assert rig.advance(60.0) == []


@pytest.mark.report("BR-016")
@pytest.mark.parametrize("method", ["INVITE", "UPDATE"])
def test_a_refused_offer_leaves_the_call_as_it_was(rig, method):
    made = rig.confirmed()
    t38 = "v=0\r\nm=audio 0 RTP/AVP 8\r\nm=image 49158 udptl t38\r\n"
    rig.feed(in_dialog(method, made, body=t38, contact="<sip:other@198.51.100.9>"))
    rig.events()
    rig.ua.answer_reoffer(made.call, None, headers=(("Warning", '399 gw "no fax"'),), now=rig.now)

    (refusal,) = rig.sent()
    assert (refusal.status, refusal["warning"]) == (488, '399 gw "no fax"')
    assert rig.ua.active_calls == 1
    rig.ua.bye(made.call, now=rig.now)
    assert rig.sent()[0].start == "BYE sip:alice@198.51.100.7:5060 SIP/2.0"


def test_a_reinvite_without_sdp_asks_for_our_offer(rig):
    made = rig.confirmed()
    rig.feed(in_dialog("INVITE", made))
    assert rig.events() == [sip.CallReoffered(made.call, None)]
    rig.ua.answer_reoffer(made.call, ANSWER, now=rig.now)
    rig.sent()
    rig.feed(request("ACK", branch="a2", to_tag=made.to_tag, cseq=2, body=OFFER))

    assert rig.events() == [sip.CallConfirmed(made.call, OFFER.encode())]


def test_a_second_offer_while_one_is_pending_gets_500_with_retry_after(rig):
    made = rig.confirmed()
    rig.feed(in_dialog("INVITE", made, body=OFFER))
    for cseq, method in ((3, "INVITE"), (4, "UPDATE")):
        (refused,) = rig.feed(in_dialog(method, made, cseq=cseq, body=OFFER))
        assert refused.status == 500
        assert 0 <= int(refused["retry-after"]) <= 10


def test_an_update_with_an_offer_before_the_answer_gets_500(rig):
    call = rig.offered()
    rig.ua.ring(call, now=0.0)
    (ringing,) = rig.sent()
    made_tag = ringing.tag("to")

    assert statuses(rig.feed(request("UPDATE", branch="u", to_tag=made_tag, cseq=2, body=OFFER))) == [500]
    assert statuses(rig.feed(request("UPDATE", branch="v", to_tag=made_tag, cseq=3))) == [200]


def test_an_offer_while_our_own_is_pending_gets_491(rig):
    made = rig.answered(invite(body=""))

    assert statuses(rig.feed(in_dialog("INVITE", made, body=OFFER))) == [491]
    assert rig.ua.active_calls == 1


def test_a_reinvite_that_overtakes_the_ack_confirms_the_call(rig):
    made = rig.answered()
    rig.feed(in_dialog("INVITE", made, body=OFFER))

    assert rig.events() == [sip.CallConfirmed(made.call, None), sip.CallReoffered(made.call, OFFER.encode())]
    assert rig.feed(request("ACK", branch="late", to_tag=made.to_tag)) == []
    rig.ua.answer_reoffer(made.call, ANSWER, now=rig.now)
    assert statuses(rig.sent()) == [200]


def test_an_ack_with_the_branch_of_its_reinvite_counts_too(rig):
    made = rig.confirmed()
    rig.feed(in_dialog("INVITE", made, body=OFFER))
    rig.ua.answer_reoffer(made.call, ANSWER, now=rig.now)
    rig.sent()
    rig.feed(request("ACK", branch="INVITE2", to_tag=made.to_tag, cseq=2))

    assert rig.advance(60.0) == []
    assert rig.ua.active_calls == 1


def test_a_reinvite_on_a_failed_flow_is_forgotten(rig):
    made = rig.confirmed()
    rig.feed(in_dialog("INVITE", made, body=OFFER))
    rig.ua.transport_failed(UDP, now=rig.now)

    assert rig.ua.answer_reoffer(made.call, ANSWER, now=rig.now)
    assert rig.sent() == []
    assert rig.ua.active_calls == 1


def test_a_reinvite_without_its_ack_ends_the_call(rig):
    made = rig.confirmed()
    rig.feed(in_dialog("INVITE", made, body=OFFER))
    rig.events()
    rig.ua.answer_reoffer(made.call, ANSWER, now=0.0)
    rig.sent()

    assert rig.advance(32.0)[-1][1].method == "BYE"
    assert rig.events() == [sip.CallEnded(made.call, by_peer=False, reason="ack_timeout")]


def test_a_cancelled_reinvite_gets_487_and_the_call_stays(rig):
    made = rig.confirmed()
    rig.feed(in_dialog("INVITE", made, body=OFFER))
    ok, terminated = rig.feed(request("CANCEL", branch="INVITE2", to_tag=made.to_tag, cseq=2))

    assert (ok.status, terminated.status, terminated.cseq) == (200, 487, 2)
    assert rig.ua.answer_reoffer(made.call, ANSWER, now=rig.now)  # too late, and harmless
    assert rig.sent() == []
    assert rig.ua.active_calls == 1


def test_an_offer_that_the_application_forgets_is_refused_in_the_end(rig):
    made = rig.confirmed()
    rig.feed(in_dialog("UPDATE", made, body=OFFER))
    rig.events()

    assert [message.status for _, message in rig.advance(32.0)] == [500]
    assert rig.ua.active_calls == 1


@pytest.mark.parametrize("ended_by", ["us", "peer"])
def test_a_pending_reinvite_gets_487_when_the_call_ends(rig, ended_by):
    made = rig.confirmed()
    rig.feed(in_dialog("INVITE", made, body=OFFER))
    if ended_by == "us":
        rig.ua.bye(made.call, now=rig.now)
        sent = rig.sent()
    else:
        sent = rig.feed(in_dialog("BYE", made, cseq=3))

    assert [(message.status, message.answers) for message in sent if message.answers == "INVITE"] == [
        (487, "INVITE")
    ]


@pytest.mark.parametrize("method", ["INVITE", "UPDATE"])
def test_a_reoffer_that_is_no_sdp_gets_415(rig, method):
    made = rig.confirmed()

    assert statuses(rig.feed(in_dialog(method, made, body="x", kind="text/plain"))) == [415]
    assert rig.ua.active_calls == 1


def test_after_our_bye_offers_get_481(rig):
    made = rig.confirmed()
    rig.ua.bye(made.call, now=rig.now)
    rig.sent()

    assert statuses(rig.feed(in_dialog("INVITE", made, body=OFFER))) == [481]
