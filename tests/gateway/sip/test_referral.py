"""A REFER of the peer: accepted or refused by the application, and told how it goes."""

import pytest

from gateway.sip import events as sip
from tests.gateway.sip.rig import Established, Rig, request, statuses

TARGET = "sip:+12025550177@gw.example"


@pytest.fixture
def rig():
    return Rig()


@pytest.fixture
def made(rig):
    return rig.confirmed()


def in_dialog(method, made, *, cseq, extra=()):
    return request(method, branch=f"{method}{cseq}", to_tag=made.to_tag, cseq=cseq, extra=extra)


def refer(rig, made, *, cseq=2, to=f"<{TARGET}>", extra=()):
    headers = (("Refer-To", to), *extra) if to else extra
    return rig.feed(in_dialog("REFER", made, cseq=cseq, extra=headers))


@pytest.mark.report("BR-101")
def test_a_refer_that_is_accepted_is_told_of_until_the_transferor_hangs_up(rig, made):
    assert refer(rig, made) == []
    assert rig.events() == [sip.ReferReceived(made.call, TARGET)]
    rig.ua.answer_refer(made.call, 100, now=rig.now)
    accepted, trying = rig.sent()
    assert accepted.status == 202
    assert trying.method == "NOTIFY"
    assert trying["event"] == "refer;id=2"
    assert trying["subscription-state"] == "active;expires=180"
    assert trying["content-type"] == "message/sipfrag;version=2.0"
    assert trying.body == "SIP/2.0 100 Trying\r\n"
    rig.response(trying, 200)

    rig.advance(0.28)
    assert statuses(rig.feed(in_dialog("BYE", made, cseq=3))) == [200]
    assert rig.events() == [sip.CallEnded(made.call, by_peer=True, reason="bye")]
    assert rig.ua.answer_refer(made.call, 200, now=rig.now) is False
    rig.advance(200.0)
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


@pytest.mark.parametrize(("status", "fragment"), [(200, "200 OK"), (486, "486 Busy Here")])
def test_the_last_notify_says_how_it_went_and_ends_the_subscription(rig, made, status, fragment):
    refer(rig, made)
    rig.ua.answer_refer(made.call, 100, now=rig.now)
    rig.sent()
    rig.ua.answer_refer(made.call, status, now=rig.now)

    (last,) = rig.sent()
    assert last["subscription-state"] == "terminated;reason=noresource"
    assert last.body == f"SIP/2.0 {fragment}\r\n"
    rig.ua.answer_refer(made.call, 200, now=rig.now)
    assert rig.sent() == []


def test_a_refer_that_is_refused_leaves_the_call_as_it_was(rig, made):
    refer(rig, made)
    rig.ua.answer_refer(made.call, 603, now=rig.now)

    assert statuses(rig.sent()) == [603]
    assert rig.ua.active_calls == 1


@pytest.mark.parametrize(
    ("to", "status"),
    [
        ("", 400),
        ("<sip:a@gw.example>, <sip:b@gw.example>", 400),
        ("nobody", 400),
        ("<http://gw.example/>", 416),
        ("<sip:a@gw.example;method=BYE>", 501),
        ("<sip:a@gw.example?Replaces=1%3Bto-tag%3D2%3Bfrom-tag%3D3>", 501),
    ],
)
def test_what_is_no_plain_call_is_refused_before_the_application_hears_of_it(rig, made, to, status):
    assert statuses(refer(rig, made, to=to)) == [status]
    assert [type(event) for event in rig.events()] == [sip.RequestRefused]


def test_a_second_refer_waits_for_the_outcome_of_the_first(rig, made):
    refer(rig, made)
    rig.events()

    assert statuses(refer(rig, made, cseq=3)) == [491]


def test_a_peer_that_wants_no_notify_gets_none(rig, made):
    refer(rig, made, extra=(("Refer-Sub", "false"),))
    rig.ua.answer_refer(made.call, 100, now=rig.now)

    (accepted,) = rig.sent()
    assert (accepted.status, accepted["refer-sub"]) == (202, "false")
    rig.ua.answer_refer(made.call, 200, now=rig.now)
    assert rig.sent() == []


def test_a_question_that_nobody_answers_is_refused(rig, made):
    refer(rig, made)

    assert 603 in [message.status for _, message in rig.advance(32.0)]


def test_the_end_of_the_call_refuses_what_was_asked(rig, made):
    refer(rig, made)

    assert statuses(rig.feed(in_dialog("BYE", made, cseq=3))) == [200, 603]


def test_a_refer_before_the_answer_is_declined_at_once(rig):
    call = rig.offered()
    rig.ua.ring(call, now=rig.now)
    ringing = next(each for each in rig.sent() if each.status == 180)
    early = Established(call, ringing.tag("to"))

    assert statuses(refer(rig, early)) == [603]
    assert not any(isinstance(each, sip.ReferReceived) for each in rig.events())
