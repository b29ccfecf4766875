"""A call that we place, from its INVITE to its end: the peer by hand, time by force."""

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from gateway.sip.policy import PeerPolicy, Proof
from gateway.sip.settings import UaSettings
from tests.gateway.sip.out_rig import (
    CONTACT,
    CREDENTIALS,
    FIRST,
    NOTHING,
    SDP,
    OutRig,
    answer,
    idle,
    target,
)
from tests.gateway.sip.rig import ANSWER, OFFER, statuses
from tests.gateway.sip.rig import invite as sip_invite


@pytest.fixture
def rig():
    return OutRig()


def test_the_invite_says_whom_from_whom_and_what_we_offer(rig):
    invite = rig.dial(target(headers=(("P-Asserted-Identity", "<sip:+12025550199@gw.example>"),), user="gw"))

    assert invite.start == "INVITE sip:+12025550177@carrier.example SIP/2.0"
    assert invite["to"] == "<sip:+12025550177@carrier.example>"
    assert invite["from"].startswith('"Sales" <sip:+12025550100@gw.example>;tag=')
    assert invite["contact"] == "<sip:gw@192.0.2.10:5060>"
    assert invite["max-forwards"] == "70"
    assert invite["cseq"] == "1 INVITE"
    assert invite["p-asserted-identity"] == "<sip:+12025550199@gw.example>"
    assert invite["content-type"] == "application/sdp"
    assert invite["supported"] == "timer, 100rel"
    assert (invite["session-expires"], invite["min-se"]) == ("1800", "90")
    assert "UPDATE" in invite["allow"]
    assert invite.body.encode() == ANSWER
    assert rig.outgoing[-1].flow == FIRST
    assert rig.ua.active_calls == 1


def test_a_call_that_rings_and_is_answered(rig):
    rig.dial()
    assert rig.reply(100, "Trying", tag="") == []
    assert rig.events() == []
    rig.reply(180, "Ringing")
    (ack,) = rig.reply(200, body=SDP)

    assert rig.events() == [
        sip.CallProgressed(rig.call, 180, "Ringing", None),
        sip.CallAccepted(rig.call, SDP.encode()),
    ]
    assert ack.start == "ACK sip:bob@198.51.100.7:5070 SIP/2.0"
    assert ack["cseq"] == "1 ACK"
    assert (ack.tag("from"), ack.tag("to")) == (rig.invite.tag("from"), "R1")
    assert ack["via"] != rig.invite["via"]
    assert ack["contact"] == ack.body == ""


def test_hanging_up_releases_everything(rig):
    rig.accepted()
    rig.ua.bye(rig.call, now=1.0, reason="Q.850;cause=16")
    (bye,) = rig.sent()

    assert bye.start == "BYE sip:bob@198.51.100.7:5070 SIP/2.0"
    assert (bye["cseq"], bye["reason"]) == ("2 BYE", "Q.850;cause=16")
    rig.response(bye, 200)
    assert rig.events() == [sip.CallEnded(rig.call, by_peer=False, reason="local")]
    assert idle(rig) == NOTHING


def test_the_peer_hangs_up_and_says_why(rig):
    rig.accepted()
    bye = rig.from_peer("BYE").replace(b"\r\nContact", b"\r\nReason: Q.850;cause=31\r\nContact", 1)

    assert statuses(rig.feed(bye)) == [200]
    assert rig.events() == [sip.CallEnded(rig.call, by_peer=True, reason="bye", phrase="Q.850;cause=31")]
    assert idle(rig) == NOTHING


@pytest.mark.parametrize(
    ("status", "phrase"),
    [(486, "Busy Here"), (404, "Not Found"), (603, "Decline"), (302, "Moved Temporarily")],
)
def test_a_rejection_is_acknowledged_and_reported_with_its_words(rig, status, phrase):
    rig.dial()
    (ack,) = rig.reply(status, phrase)

    assert (ack.method, ack["cseq"], ack["via"]) == ("ACK", "1 ACK", rig.invite["via"])
    assert rig.events() == [
        sip.CallEnded(rig.call, by_peer=True, reason="rejected", status=status, phrase=phrase)
    ]
    assert idle(rig) == NOTHING


@pytest.mark.report("BR-014")
def test_ack_and_bye_go_to_the_contact_through_the_reversed_record_route(rig):
    route = "<sip:10.255.0.1;r2=on;lr;ftag=N1>", "<sip:192.0.2.120;r2=on;lr;ftag=N1>"
    ack = rig.accepted(
        extra=(
            ("Contact", "<sip:+12025550123@10.20.30.40:5070;transport=udp>"),
            *(("Record-Route", each) for each in route),
        )
    )
    rig.ua.bye(rig.call, now=1.0)
    (bye,) = rig.sent()

    for message in (ack, bye):
        assert message.start.split()[1] == "sip:+12025550123@10.20.30.40:5070;transport=udp"
        assert message.all("route") == [route[1], route[0]]
    assert [each.flow.remote for each in rig.outgoing[-2:]] == [("192.0.2.120", 5060)] * 2


def test_a_strict_router_finds_itself_in_the_request_uri_of_our_ack(rig):
    ack = rig.accepted(extra=(CONTACT, ("Record-Route", "<sip:p1.example;lr>, <sip:198.51.100.20>")))

    assert ack.start == "ACK sip:198.51.100.20 SIP/2.0"
    assert ack.all("route") == ["<sip:p1.example;lr>", "<sip:bob@198.51.100.7:5070>"]


def test_the_2xx_rules_over_what_a_1xx_said_of_contact_and_route(rig):
    rig.dial()
    rig.reply(
        180, extra=(("Contact", "<sip:early@198.51.100.7>"), ("Record-Route", "<sip:198.51.100.30;lr>"))
    )
    (ack,) = rig.reply(200, body=SDP)

    assert ack.start == "ACK sip:bob@198.51.100.7:5070 SIP/2.0"
    assert ack.all("route") == []


def test_an_answer_without_a_contact_that_can_be_read_is_acknowledged_where_the_invite_went(rig):
    ack = rig.accepted(extra=(("Contact", "*"), ("Record-Route", '"open <sip:x>')))

    assert ack.start == "ACK sip:+12025550177@carrier.example SIP/2.0"


@pytest.mark.report("BR-024")
def test_each_repeated_2xx_gets_its_ack_and_no_second_dialog(rig):
    first = rig.accepted()
    again = []
    for now in (0.5, 1.5):
        rig.now = now
        again += rig.reply(200, body=SDP)
    late = rig.now = 40.0
    rig.advance(late)
    again += rig.reply(200, body=SDP)

    assert [ack["cseq"] for ack in [first, *again]] == ["1 ACK"] * 4
    assert {ack.tag("to") for ack in again} == {"R1"}
    assert rig.events() == []
    assert rig.ua.dialogs == 1


@pytest.mark.report("BR-024")
def test_a_2xx_of_another_place_gets_ack_and_bye(rig):
    rig.accepted()
    elsewhere = (("Contact", "<sip:carol@198.51.100.9:5060>"),)
    ack, bye = rig.reply(200, tag="R2", extra=elsewhere, body=SDP)

    assert (ack.method, bye.method) == ("ACK", "BYE")
    assert ack.start.split()[1] == bye.start.split()[1] == "sip:carol@198.51.100.9:5060"
    assert (ack["cseq"], bye["cseq"]) == ("1 ACK", "2 BYE")
    assert (ack.tag("to"), bye.tag("to")) == ("R2", "R2")
    assert [message.method for message in rig.reply(200, tag="R2", extra=elsewhere)] == ["ACK"]
    rig.response(bye, 200)
    assert rig.events() == []
    assert rig.ua.active_calls == 1  # the first one goes on
    rig.ua.bye(rig.call, now=1.0)
    (bye,) = rig.sent()
    assert bye.tag("to") == "R1"
    rig.response(bye, 200)
    assert idle(rig) == NOTHING


def test_an_answer_after_a_rejection_gets_ack_and_bye(rig):
    rig.dial()
    rig.reply(486, "Busy Here")
    ack, bye = rig.reply(200, tag="R2", body=SDP)

    assert (ack.method, bye.method, bye.tag("to")) == ("ACK", "BYE", "R2")
    rig.response(bye, 200)
    assert [end.status for end in rig.ends()] == [486]
    assert idle(rig) == NOTHING


# CANCEL.


def test_a_cancel_waits_for_a_provisional_response(rig):
    rig.dial()
    assert rig.ua.cancel(rig.call, now=0.1, reason="SIP;cause=200")
    assert rig.sent() == []
    assert rig.events() == [sip.CallEnded(rig.call, by_peer=False, reason="cancel")]
    (cancel,) = rig.reply(100, "Trying", tag="")

    assert cancel.start == "CANCEL sip:+12025550177@carrier.example SIP/2.0"
    assert (cancel["via"], cancel["cseq"]) == (rig.invite["via"], "1 CANCEL")
    assert (cancel["to"], cancel["from"]) == (rig.invite["to"], rig.invite["from"])
    assert cancel["reason"] == "SIP;cause=200"
    assert rig.reply(180, "Ringing") == []  # only one
    rig.response(cancel, 200)
    assert [message.method for message in rig.reply(487, "Request Terminated")] == ["ACK"]
    assert rig.events() == []
    assert idle(rig) == NOTHING


@pytest.mark.report("BR-030")
def test_an_answer_that_crosses_our_cancel_gets_ack_and_bye(rig):
    rig.dial()
    rig.reply(180, "Ringing")
    rig.ua.cancel(rig.call, now=1.0)
    (cancel,) = rig.sent()
    rig.now = 1.02
    ack, bye = rig.reply(200, body=SDP)

    assert (ack.method, bye.method) == ("ACK", "BYE")
    assert ack.start.split()[1] == bye.start.split()[1] == "sip:bob@198.51.100.7:5070"
    rig.response(cancel, 481, "Call/Transaction Does Not Exist")
    assert [message.method for message in rig.reply(200, body=SDP)] == ["ACK"]
    rig.response(bye, 200)
    assert rig.ends() == [sip.CallEnded(rig.call, by_peer=False, reason="cancel")]
    assert idle(rig) == NOTHING


def test_an_answer_that_comes_before_the_cancel_could_be_sent_gets_ack_and_bye(rig):
    rig.dial()
    rig.ua.cancel(rig.call, now=0.1)

    assert [message.method for message in rig.reply(200, body=SDP)] == ["ACK", "BYE"]
    assert [end.reason for end in rig.ends()] == ["cancel"]


def test_a_cancel_that_nobody_answers_is_given_up_after_64_t1(rig):
    rig.dial()
    rig.reply(180, "Ringing")
    rig.ua.cancel(rig.call, now=1.0)
    log = rig.advance(34.0)

    assert {message.method for _, message in log} <= {"CANCEL"}
    assert rig.ua.transactions == 0
    assert idle(rig) == NOTHING


@pytest.mark.report("BR-030")
@pytest.mark.parametrize("heard", [True, False])
def test_an_answer_after_all_patience_still_gets_ack_and_bye(rig, heard):
    rig.dial()
    if heard:
        rig.reply(180, "Ringing")
    rig.ua.cancel(rig.call, now=1.0)
    rig.advance(34.0)
    rig.events()
    ack, bye = rig.reply(200, body=SDP)

    assert (ack.method, bye.method) == ("ACK", "BYE")
    rig.response(bye, 200)
    assert rig.events() == []
    assert idle(rig) == NOTHING


def test_cancelling_an_answered_call_hangs_up(rig):
    rig.accepted()
    rig.ua.cancel(rig.call, now=1.0, reason="SIP;cause=200")
    (bye,) = rig.sent()

    assert (bye.method, bye["reason"]) == ("BYE", "SIP;cause=200")
    assert rig.ua.cancel(rig.call, now=1.0) is False


def test_a_call_that_rings_too_long_is_cancelled(rig):
    rig.dial(ring_for=30.0)
    rig.reply(180, "Ringing")
    rig.events()
    log = rig.advance(30.0)

    assert [(at, message.method) for at, message in log] == [(30.0, "CANCEL")]
    assert rig.events() == [sip.CallEnded(rig.call, by_peer=False, reason="timeout")]
    rig.reply(487, "Request Terminated")
    assert rig.events() == []
    assert idle(rig) == NOTHING


def test_nobody_answers_at_all(rig):
    rig.dial()
    log = rig.advance(40.0)

    assert [at for at, _ in log] == [0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    assert rig.events() == [sip.CallEnded(rig.call, by_peer=False, reason="timeout")]
    assert idle(rig) == NOTHING


def test_a_call_that_cannot_be_sent_ends(rig):
    rig.dial()
    rig.ua.transport_failed(FIRST, now=0.1)

    assert rig.events() == [sip.CallEnded(rig.call, by_peer=False, reason="transport")]
    assert idle(rig) == NOTHING


# What the peer asks meanwhile.


@pytest.mark.report("BR-017")
def test_a_reinvite_of_the_peer_in_a_call_of_ours_is_matched_and_answered_with_our_sdp(rig):
    rig.accepted()
    hold = OFFER.replace("c=IN IP4 198.51.100.7", "c=IN IP4 0.0.0.0").replace("sendrecv", "sendonly")
    assert statuses(rig.feed(rig.from_peer("INVITE", 1, body=hold))) == [100]
    assert rig.events() == [sip.CallReoffered(rig.call, hold.encode())]
    rig.ua.answer_reoffer(rig.call, ANSWER + b"a=recvonly\r\n", now=0.1)
    (ok,) = rig.sent()

    assert ok.status == 200
    assert "192.0.2.10" in ok.body
    assert "a=recvonly" in ok.body
    assert ok.tag("to") == rig.invite.tag("from")
    assert rig.feed(rig.from_peer("ACK", 1)) == []
    assert (rig.ua.active_calls, rig.ua.dialogs) == (1, 1)
    assert statuses(rig.feed(rig.from_peer("OPTIONS", 0))) == [500]  # from now on it has to rise


@pytest.mark.report("BR-017")
def test_whom_we_called_is_asked_for_no_digest_though_its_callers_are(rig):
    rig.ua.treat(lambda flow, called: PeerPolicy(proof=Proof(CREDENTIALS)))
    rig.accepted()

    assert statuses(rig.feed(rig.from_peer("INVITE", 1, body=OFFER))) == [100]
    assert rig.events() == [sip.CallReoffered(rig.call, OFFER.encode())]
    assert statuses(rig.feed(sip_invite())) == [401]


def test_a_request_with_a_foreign_tag_is_not_in_the_call(rig):
    rig.accepted()

    assert statuses(rig.feed(rig.from_peer("BYE", 1, tag="other"))) == [481]
    assert rig.ua.active_calls == 1


def test_a_bye_whose_2xx_was_lost_ends_the_call_and_cancels_what_still_rings(rig):
    rig.dial()
    rig.reply(180, "Ringing")
    rig.events()
    ok, cancel = rig.feed(rig.from_peer("BYE", 1))

    assert (ok.status, cancel.method) == (200, "CANCEL")
    assert rig.events() == [sip.CallEnded(rig.call, by_peer=True, reason="bye")]
    rig.reply(487, "Request Terminated")
    assert idle(rig) == NOTHING


def test_a_place_that_was_turned_away_may_hang_up_itself(rig):
    rig.accepted()
    rig.reply(200, tag="R2", body=SDP)

    assert statuses(rig.feed(rig.from_peer("BYE", 1, tag="R2"))) == [200]
    assert rig.ua.active_calls == 1


# Commands that make no sense.


def test_a_call_of_ours_cannot_be_answered_and_one_of_the_peers_not_cancelled(rig):
    rig.dial()
    for command in (
        lambda: rig.ua.ring(rig.call, now=0.0),
        lambda: rig.ua.bye(rig.call, now=0.0),
        lambda: rig.ua.refer(rig.call, "sip:x@h", now=0.0),
        lambda: rig.ua.reoffer(rig.call, ANSWER, now=0.0),
        lambda: rig.ua.cancel(rig.offered(), now=0.0),
    ):
        with pytest.raises(LocalProtocolError):
            command()
    assert rig.ua.active_calls == 2


@pytest.mark.parametrize(
    "broken",
    [
        {"headers": (("X-Note", "a\r\nEvil: 1"),)},
        {"headers": (("not a name", "x"),)},
        {"to": '"open <sip:x>'},
        {"routes": ("<sip:a>\r\nX: y",)},
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(rig, broken):
    with pytest.raises(LocalProtocolError):
        rig.ua.invite(target(**broken), ANSWER, now=0.0)

    assert (rig.sent(), rig.events()) == ([], [])
    assert idle(rig) == NOTHING


def test_an_invite_without_an_offer_is_our_mistake(rig):
    with pytest.raises(LocalProtocolError):
        rig.ua.invite(target(), b"", now=0.0)


def test_the_public_host_is_where_we_want_to_be_answered():
    rig = OutRig(UaSettings(public_host="gw.example"))
    invite = rig.dial()

    assert invite["contact"] == "<sip:gw.example:5060>"
    assert "gw.example" in invite["via"]


def test_a_response_to_what_we_never_sent_is_dropped(rig):
    rig.accepted()
    stray = answer(rig.invite, 200, tag="R1").replace(rig.invite["call-id"].encode(), b"nobody")
    rig.ua.receive(stray.replace(b"z9hG4bK", b"z9hG4bKx"), FIRST, now=1.0)

    assert [type(event) for event in rig.events()] == [sip.MessageDropped]
