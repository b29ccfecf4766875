"""Cold transfer: REFER, its answer, and NOTIFYs to the end."""

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from gateway.sip.settings import UaSettings
from tests.gateway.sip.rig import US, Rig, invite, request, statuses


@pytest.fixture
def rig():
    return Rig(UaSettings(refer_timeout=60.0))


@pytest.fixture
def made(rig):
    return rig.confirmed()


def refer(rig, made, target="sip:+12125551234@198.51.100.7"):
    rig.ua.refer(made.call, target, now=rig.now)
    (sent,) = rig.sent()
    return sent


def notify(made, cseq, body="SIP/2.0 100 Trying\r\n", *, event="refer", state="active;expires=60"):
    extra = (("Event", event), ("Subscription-State", state))
    return request(
        "NOTIFY",
        branch=f"n{cseq}",
        to_tag=made.to_tag,
        cseq=cseq,
        extra=extra,
        body=body,
        kind="message/sipfrag",
    )


def test_the_refer_names_the_target_and_who_asks(rig, made):
    sent = refer(rig, made)

    assert sent.start == "REFER sip:alice@198.51.100.7:5060 SIP/2.0"
    assert sent["refer-to"] == "<sip:+12125551234@198.51.100.7>"
    assert sent["referred-by"] == "<sip:+12125550100@192.0.2.10>"
    assert sent["contact"] == "<sip:192.0.2.10:5060>"
    assert (sent.tag("from"), sent.tag("to")) == (made.to_tag, "f1")


@pytest.mark.parametrize(
    ("target", "uri"),
    [
        ("+12125551234", "<sip:+12125551234@198.51.100.7:5060>"),
        ("*21#", "<sip:*21%23@198.51.100.7:5060>"),
        ("tel:+12125551234", "<tel:+12125551234>"),
    ],
)
def test_a_bare_number_is_one_of_the_peers_own(rig, made, target, uri):
    assert refer(rig, made, target)["refer-to"] == uri


@pytest.mark.parametrize(
    "target", ["", "sales", "sip:a@h>\r\nX: y", "sip:a b@h", "sip:a@h>", "1234\r\n", "sip:\ud800@h"]
)
def test_what_is_no_target_is_refused_before_anything_is_sent(rig, made, target):
    with pytest.raises(LocalProtocolError):
        rig.ua.refer(made.call, target, now=rig.now)

    assert rig.sent() == []


def test_progress_until_the_other_side_answers(rig, made):
    sent = refer(rig, made)
    rig.response(sent, 202, "Accepted")
    assert rig.events() == [sip.ReferAnswered(made.call, 202)]
    assert statuses(rig.feed(notify(made, 2))) == [200]
    assert statuses(rig.feed(notify(made, 3, "SIP/2.0 180 Ringing\r\n"))) == [200]
    assert statuses(
        rig.feed(notify(made, 4, "SIP/2.0 200 OK\r\n", state="terminated;reason=noresource"))
    ) == [200]

    assert rig.events() == [
        sip.ReferProgressed(made.call, 100, "Trying", final=False),
        sip.ReferProgressed(made.call, 180, "Ringing", final=False),
        sip.ReferProgressed(made.call, 200, "OK", final=True),
    ]
    assert rig.ua.active_calls == 1  # hanging up is the application's decision


def test_a_busy_target(rig, made):
    rig.response(refer(rig, made), 202, "Accepted")
    rig.events()
    rig.feed(notify(made, 2, "SIP/2.0 486 Busy Here", state="terminated"))

    assert rig.events() == [sip.ReferProgressed(made.call, 486, "Busy Here", final=True)]
    assert refer(rig, made, "sip:other@h").cseq == 2  # another try is possible


def test_a_repeated_notify_is_answered_and_told_once(rig, made):
    rig.response(refer(rig, made), 202)
    rig.events()

    assert [statuses(rig.feed(notify(made, 2))) for _ in range(2)] == [[200], [200]]
    assert len(rig.events()) == 1


def test_a_notify_that_overtakes_the_202(rig, made):
    sent = refer(rig, made)
    assert statuses(rig.feed(notify(made, 2))) == [200]
    rig.response(sent, 202, "Accepted")

    assert rig.events() == [
        sip.ReferAnswered(made.call, 202),
        sip.ReferProgressed(made.call, 100, "Trying", final=False),
    ]


def test_a_final_notify_that_overtakes_the_202(rig, made):
    sent = refer(rig, made)
    rig.feed(notify(made, 2, "SIP/2.0 200 OK", state="terminated"))
    rig.response(sent, 202, "Accepted")

    assert rig.events() == [
        sip.ReferAnswered(made.call, 202),
        sip.ReferProgressed(made.call, 200, "OK", final=True),
    ]


@pytest.mark.parametrize("body", ["", "SIP/2.0 100 Trying"])
def test_an_end_without_a_final_status_is_unknown(rig, made, body):
    rig.response(refer(rig, made), 202)
    rig.events()
    rig.feed(notify(made, 2, body, state="terminated;reason=timeout"))

    assert rig.events() == [sip.ReferProgressed(made.call, 0, "unknown", final=True)]


def test_an_active_notify_that_says_nothing_is_answered_and_not_told(rig, made):
    rig.response(refer(rig, made), 202)
    rig.events()

    assert statuses(rig.feed(notify(made, 2, ""))) == [200]
    assert rig.events() == []


def test_after_the_end_a_notify_gets_481(rig, made):
    rig.response(refer(rig, made), 202)
    rig.feed(notify(made, 2, "SIP/2.0 200 OK", state="terminated"))
    rig.events()

    assert statuses(rig.feed(notify(made, 3, "SIP/2.0 200 OK", state="terminated"))) == [481]


@pytest.mark.parametrize(("event", "status"), [("refer;id=1", 200), ("refer;id=99", 481), ("presence", 489)])
def test_only_the_notify_of_this_refer_counts(rig, made, event, status):
    rig.response(refer(rig, made), 202)

    assert statuses(rig.feed(notify(made, 2, event=event))) == [status]


def test_a_notify_without_any_refer_gets_481(rig, made):
    assert statuses(rig.feed(notify(made, 2))) == [481]


@pytest.mark.parametrize("status", [302, 403, 405, 407, 603])
def test_a_refused_refer_leaves_the_call(rig, made, status):
    rig.response(refer(rig, made), status, "No")

    assert rig.events() == [sip.ReferAnswered(made.call, status)]
    assert rig.ua.active_calls == 1
    assert statuses(rig.feed(notify(made, 2))) == [481]


def test_a_peer_that_will_not_tell_leaves_the_outcome_unknown(rig, made):
    rig.response(refer(rig, made), 202, "Accepted", extra=(("Refer-Sub", "false"),))

    assert rig.events() == [
        sip.ReferAnswered(made.call, 202),
        sip.ReferProgressed(made.call, 0, "unknown", final=True),
    ]


def test_without_an_outcome_the_wait_ends(rig, made):
    rig.response(refer(rig, made), 202)
    rig.feed(notify(made, 2))
    rig.events()
    rig.advance(60.0)

    assert rig.events() == [sip.ReferProgressed(made.call, 0, "timeout", final=True)]
    assert statuses(rig.feed(notify(made, 3, "SIP/2.0 200 OK"))) == [481]
    assert rig.ua.active_calls == 1


def test_a_refer_without_any_answer_means_that_the_peer_is_gone(rig, made):
    refer(rig, made)
    log = rig.advance(32.0)

    assert [message.method for _, message in log] == ["REFER"] * 10 + ["BYE"]
    assert rig.events() == [
        sip.ReferAnswered(made.call, 408),
        sip.CallEnded(made.call, by_peer=False, reason="timeout"),
    ]
    rig.advance(120.0)
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


def test_a_short_wait_may_end_before_the_transaction():
    rig = Rig(UaSettings(refer_timeout=3.0))
    made = rig.confirmed()
    sent = refer(rig, made)
    rig.advance(3.0)

    assert rig.events() == [sip.ReferAnswered(made.call, 408)]
    rig.response(sent, 202)
    assert rig.events() == []
    assert rig.ua.active_calls == 1


def test_a_peer_that_forgot_the_dialog_ends_the_call(rig, made):
    sent = refer(rig, made)
    (bye,) = rig.response(sent, 481, "Gone")

    assert bye.method == "BYE"
    assert rig.events() == [
        sip.ReferAnswered(made.call, 481),
        sip.CallEnded(made.call, by_peer=False, reason="timeout"),
    ]


def test_a_contradiction_after_a_notify_ends_the_transfer(rig, made):
    sent = refer(rig, made)
    rig.feed(notify(made, 2))
    rig.events()
    rig.response(sent, 603, "Decline")

    assert rig.events() == [sip.ReferProgressed(made.call, 603, "Decline", final=True)]


def test_the_outcome_may_come_after_the_peers_bye(rig, made):
    rig.response(refer(rig, made), 202)
    rig.events()
    assert statuses(rig.feed(request("BYE", branch="b", to_tag=made.to_tag, cseq=2))) == [200]
    assert rig.ua.active_calls == 0
    assert statuses(rig.feed(notify(made, 3, "SIP/2.0 200 OK", state="terminated"))) == [200]

    assert rig.events() == [
        sip.CallEnded(made.call, by_peer=True, reason="bye"),
        sip.ReferProgressed(made.call, 200, "OK", final=True),
    ]
    assert rig.ua.dialogs == 0


def test_a_dialog_that_waits_for_the_outcome_is_forgotten_in_the_end(rig, made):
    rig.response(refer(rig, made), 202)
    rig.feed(request("BYE", branch="b", to_tag=made.to_tag, cseq=2))
    assert rig.ua.dialogs == 1
    rig.advance(100.0)

    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


def test_only_one_transfer_at_a_time(rig, made):
    refer(rig, made)

    with pytest.raises(LocalProtocolError, match="already"):
        rig.ua.refer(made.call, "sip:x@h", now=rig.now)


def test_a_bye_in_mid_transfer_goes_out_at_once(rig, made):
    rig.response(refer(rig, made), 202)
    rig.ua.bye(made.call, now=rig.now)

    assert [message.method for message in rig.sent()] == ["BYE"]


def test_a_number_goes_to_the_source_when_the_contact_is_no_sip_uri():
    rig = Rig()
    made = rig.confirmed(invite(contact="<tel:+1212>"), Flow("udp", ("203.0.113.77", 5080), US))

    assert refer(rig, made, "100")["refer-to"] == "<sip:100@203.0.113.77:5080>"
