"""
What may still come when a call is over, and how our own end of it is told: late, doubled and silent peers.

Reported of carriers' callbacks and REST calls; on a SIP line the messages of a dialog are what comes late.
"""

import itertools

import pytest

from gateway.sip import events as sip
from gateway.sip.settings import UaSettings
from gateway.sip.timers import Timers
from tests.gateway.sip.rig import ANSWER, OFFER, Rig, invite, request, statuses
from tests.kit import sip_text


@pytest.fixture
def rig():
    return Rig(UaSettings(timers=Timers(t1=0.5, t2=4.0, t4=5.0), refer_timeout=10.0))


def in_dialog(method, made, *, cseq, **more):
    return request(method, branch=f"{method}{cseq}", to_tag=made.to_tag, cseq=cseq, **more)


def notify(made, cseq, fragment="SIP/2.0 200 OK"):
    extra = (("Event", "refer"), ("Subscription-State", "terminated;reason=noresource"))
    return in_dialog("NOTIFY", made, cseq=cseq, extra=extra, body=fragment, kind="message/sipfrag")


def ended(rig):
    return [event for event in rig.events() if isinstance(event, sip.CallEnded)]


@pytest.mark.report("BR-092")
def test_our_bye_is_repeated_until_timer_f_and_the_call_is_over_at_once_all_the_same(rig):
    made = rig.confirmed()
    rig.ua.bye(made.call, now=rig.now)
    (bye,) = rig.sent()

    assert ended(rig) == [sip.CallEnded(made.call, by_peer=False, reason="local")]
    assert rig.ua.active_calls == 0
    log = rig.advance(32.0)
    assert [(message.method, message["via"]) for _, message in log] == [("BYE", bye["via"])] * len(log)
    assert [round(at, 1) for at, _ in log] == [0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5]
    assert rig.advance(200.0) == []
    assert (rig.ua.dialogs, rig.ua.transactions, ended(rig)) == (0, 0, [])


@pytest.mark.report("BR-092")
def test_an_answer_stops_the_repeating(rig):
    made = rig.confirmed()
    rig.ua.bye(made.call, now=rig.now)
    (bye,) = rig.sent()
    rig.advance(1.6)
    rig.response(bye, 200)

    assert rig.advance(200.0) == []
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


@pytest.mark.report("BR-096")
@pytest.mark.parametrize("status", [200, 404, 408, 481, 500, 603])
def test_any_answer_to_our_bye_is_the_end(rig, status):
    made = rig.confirmed()
    rig.ua.bye(made.call, now=rig.now)
    (bye,) = rig.sent()
    rig.response(bye, status, "Whatever")

    assert ended(rig) == [sip.CallEnded(made.call, by_peer=False, reason="local")]
    assert rig.advance(200.0) == []
    assert rig.ua.dialogs == 0


@pytest.mark.report("BR-096")
@pytest.mark.parametrize("command", ["bye", "refer"])
def test_after_the_peer_s_bye_our_commands_send_nothing(rig, command):
    made = rig.confirmed()
    assert statuses(rig.feed(in_dialog("BYE", made, cseq=2))) == [200]
    assert ended(rig) == [sip.CallEnded(made.call, by_peer=True, reason="bye")]

    match command:
        case "bye":
            assert not rig.ua.bye(made.call, now=rig.now)
        case "refer":
            assert not rig.ua.refer(made.call, "+12125551234", now=rig.now)
    assert rig.sent() == []
    assert rig.advance(200.0) == []
    assert ended(rig) == []


@pytest.mark.report("BR-096")
def test_two_byes_that_cross_are_each_answered_and_the_call_ends_once(rig):
    made = rig.confirmed()
    rig.ua.bye(made.call, now=rig.now)
    (ours,) = rig.sent()

    assert statuses(rig.feed(in_dialog("BYE", made, cseq=2))) == [200]
    rig.response(ours, 481)
    assert len(ended(rig)) == 1
    assert rig.advance(200.0) == []
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


@pytest.mark.report("BR-097")
def test_a_refer_without_any_notify_times_out_and_a_late_one_is_refused(rig):
    made = rig.confirmed()
    rig.ua.refer(made.call, "+12125551234", now=rig.now)
    (sent,) = rig.sent()
    rig.response(sent, 202, "Accepted")
    assert rig.events() == [sip.ReferAnswered(made.call, 202)]

    assert rig.advance(9.9) == []
    assert rig.events() == []
    assert rig.advance(10.0) == []
    assert rig.events() == [sip.ReferProgressed(made.call, 0, "timeout", final=True)]
    assert statuses(rig.feed(notify(made, 2))) == [481]
    assert rig.events() == [sip.RequestRefused("udp:198.51.100.7:5060", 481, "no such subscription")]
    assert rig.ua.active_calls == 1
    rig.advance(60.0)
    assert (rig.ua.transactions, rig.ua.next_timeout()) == (0, None)


LATE = [
    "180",
    "200 again",
    "NOTIFY",
    "INVITE again",
    "re-INVITE",
    "UPDATE",
    "CANCEL",
    "ACK",
    "BYE again",
    "INFO",
]


def late(rig, made, ours, what, cseq):
    """Feed one message that comes too late; return the final answers to it."""
    match what:
        case "180":
            sent = rig.response(ours, 180, "Ringing")
        case "200 again":
            sent = rig.response(ours, 200)
        case "NOTIFY":
            sent = rig.feed(notify(made, cseq))
        case "INVITE again":
            sent = rig.feed(invite())
        case "re-INVITE":
            sent = rig.feed(in_dialog("INVITE", made, cseq=cseq, body=OFFER))
        case "UPDATE" | "INFO":
            sent = rig.feed(in_dialog(what, made, cseq=cseq))
        case "CANCEL":
            sent = rig.feed(request("CANCEL"))
        case "ACK":
            sent = rig.feed(request("ACK", branch="ack9", to_tag=made.to_tag))
        case "BYE again":
            sent = rig.feed(in_dialog("BYE", made, cseq=cseq))
    return [message.status for message in sent if message.status >= 200]


@pytest.mark.report("BR-173")
@pytest.mark.parametrize("whose", ["ours", "the peer's"])
@pytest.mark.parametrize("first", LATE)
def test_what_comes_after_the_end_changes_nothing_and_neither_does_its_double(rig, whose, first):
    """Reported of a carrier's status callbacks that came in the order completed, in-progress, ringing."""
    made = rig.confirmed()
    rig.ua.refer(made.call, "+12125551234", now=rig.now)
    (refer,) = rig.sent()
    rig.response(refer, 202)
    rig.feed(notify(made, 2))
    if whose == "ours":
        rig.ua.bye(made.call, now=rig.now)
        (ours,) = rig.sent()
        rig.response(ours, 200)
    else:
        ours = refer
        rig.feed(in_dialog("BYE", made, cseq=3))
    assert len(ended(rig)) == 1

    count = itertools.count(10)
    for what in [first, first, *LATE]:
        rig.advance(rig.now + 0.1)
        answers = late(rig, made, ours, what, next(count))
        assert all(status in (200, 481, 482) for status in answers), (what, answers)
        assert [event for event in rig.events() if hasattr(event, "call")] == [], what
        assert rig.ua.active_calls == 0
    rig.advance(rig.now + 200.0)
    assert (rig.ua.dialogs, rig.ua.transactions, rig.ua.next_timeout()) == (0, 0, None)


@pytest.mark.report("BR-173")
def test_a_cancel_behind_the_answer_does_not_undo_it(rig):
    """RFC 3261, section 9.2: it is answered and has no effect."""
    made = rig.answered()

    assert statuses(rig.feed(request("CANCEL"))) == [200]
    assert rig.events() == []
    rig.feed(request("ACK", branch="ack1", to_tag=made.to_tag))
    assert rig.events() == [sip.CallConfirmed(made.call, None)]
    assert rig.ua.active_calls == 1


@pytest.mark.report("BR-173")
@pytest.mark.parametrize("end", ["rejected", "cancelled"])
def test_a_call_that_ended_while_it_rang_cannot_be_answered_any_more(rig, end):
    call = rig.offered()
    rig.ua.ring(call, now=rig.now)
    rig.sent()
    if end == "rejected":
        rig.ua.reject(call, 480, now=rig.now)
    else:
        rig.feed(request("CANCEL"))
    rig.sent()
    assert len(ended(rig)) == 1

    assert not rig.ua.ring(call, now=rig.now)
    assert not rig.ua.answer(call, ANSWER, now=rig.now)
    assert rig.sent() == []
    assert [message.status for message in rig.feed(invite())] == [480 if end == "rejected" else 487]
    assert ended(rig) == []


@pytest.mark.report("BR-173")
def test_a_response_to_a_call_of_somebody_else_is_dropped(rig):
    stray = sip_text.read(in_dialog("BYE", rig.confirmed(), cseq=2))
    rig.response(stray, 200)

    assert [type(event) for event in rig.events()] == [sip.MessageDropped]
    assert rig.ua.active_calls == 1
