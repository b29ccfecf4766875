"""Challenges to requests of ours: the INVITE, and what follows in a dialog of either side's."""

import re

import pytest

from gateway.sip import events as sip
from tests.gateway.sip.out_rig import CREDENTIALS, FIRST, SDP, SECOND, OutRig, target
from tests.gateway.sip.rig import ANSWER, OFFER, request

PROXY = "Proxy-Authenticate"
MD5 = 'Digest realm="aura", nonce="n1", algorithm=MD5, qop="auth", stale=false'


@pytest.fixture
def rig():
    return OutRig()


def field(message, name, header="proxy-authorization"):
    found = re.search(rf'\b{name}="?([^",]+)"?', message[header])
    return found[1] if found else ""


def challenge(rig, to, *lines, status=407):
    name = PROXY if status == 407 else "WWW-Authenticate"
    return rig.response(to, status, "Unauthorized", tag="c1", extra=tuple((name, line) for line in lines))


# The INVITE.


@pytest.mark.report("BR-037")
def test_an_authenticated_invite_is_the_same_call_with_the_next_cseq(rig):
    first = rig.dial(target(credentials=CREDENTIALS))
    ack, second = challenge(
        rig,
        first,
        'Digest realm="r", nonce="n1", algorithm=SHA-256, qop="auth"',
        'Digest realm="r", nonce="n2"',
    )

    assert (ack.method, ack["cseq"], ack["via"]) == ("ACK", "1 ACK", first["via"])
    assert second["cseq"] == "2 INVITE"
    assert second["via"] != first["via"]
    for header in ("call-id", "from", "to", "contact"):
        assert second[header] == first[header]
    assert second.body == first.body
    assert (field(second, "algorithm"), field(second, "nonce"), field(second, "nc")) == (
        "SHA-256",
        "n1",
        "00000001",
    )
    assert rig.events() == []

    (ack,) = rig.reply(200, to=second, body=SDP)
    assert ack["cseq"] == "2 ACK"
    assert ack["proxy-authorization"] == second["proxy-authorization"]  # 22.1: nobody may challenge an ACK
    assert rig.events() == [sip.CallAccepted(rig.call, SDP.encode())]


def test_a_wrong_password_ends_the_call_with_the_status(rig):
    first = rig.dial(target(credentials=CREDENTIALS))
    _, second = challenge(rig, first, MD5)
    challenge(rig, second, MD5.replace("n1", "n2"))

    assert [end.status for end in rig.ends()] == [407]
    rig.advance(60.0)
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


def test_a_challenge_without_credentials_is_a_rejection(rig):
    challenge(rig, rig.dial(), MD5)

    assert [end.status for end in rig.ends()] == [407]


def test_a_server_behind_a_proxy_may_challenge_as_well(rig):
    first = rig.dial(target(credentials=CREDENTIALS))
    _, second = challenge(rig, first, MD5)
    _, third = challenge(rig, second, MD5.replace("aura", "inner"), status=401)

    assert third["cseq"] == "3 INVITE"
    assert field(third, "nc") == "00000002"
    assert field(third, "realm", "authorization") == "inner"


def test_a_cancelled_invite_is_not_sent_again_after_its_challenge(rig):
    first = rig.dial(target(credentials=CREDENTIALS))
    rig.ua.cancel(rig.call, now=0.1)

    assert [message.method for message in challenge(rig, first, MD5)] == ["ACK"]
    assert [end.reason for end in rig.ends()] == ["cancel"]


def test_the_next_address_gets_the_same_cseq_and_the_credentials(rig):
    first = rig.dial(target(FIRST, SECOND, credentials=CREDENTIALS))
    _, second = challenge(rig, first, MD5)
    _, third = rig.reply(503, "Service Unavailable", to=second)

    assert third["cseq"] == second["cseq"] == "2 INVITE"
    assert field(third, "nc") == "00000002"
    assert rig.outgoing[-1].flow == SECOND


# In a dialog.


@pytest.mark.report("BR-010")
def test_a_challenged_bye_of_a_callers_call_is_sent_again_with_credentials(rig):
    made = rig.confirmed()
    assert rig.ua.use_credentials(made.call, CREDENTIALS, now=0.0)
    for _ in range(2):
        rig.ua.refer(made.call, "sip:x@h", now=0.0)
        (refer,) = rig.sent()
        rig.response(refer, 603)
    rig.events()
    rig.ua.bye(made.call, now=1.0, reason="Q.850;cause=16")
    (bye,) = rig.sent()
    assert bye["cseq"] == "3 BYE"
    assert bye["proxy-authorization"] == ""
    (again,) = challenge(rig, bye, MD5)

    assert again["cseq"] == "4 BYE"
    assert again["via"] != bye["via"]
    for header in ("call-id", "from", "to", "reason", "contact"):
        assert again[header] == bye[header]
    assert again.start == bye.start
    assert (field(again, "nc"), field(again, "nonce"), field(again, "realm")) == ("00000001", "n1", "aura")
    assert CREDENTIALS.password not in again["proxy-authorization"]
    (stale,) = challenge(rig, again, MD5.replace("n1", "n2").replace("stale=false", "stale=true"))

    assert (stale["cseq"], field(stale, "nonce"), field(stale, "nc")) == ("5 BYE", "n2", "00000001")
    assert rig.response(stale, 200) == []
    rig.advance(60.0)
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


@pytest.mark.report("BR-010")
def test_a_peer_that_never_is_content_does_not_keep_the_call(rig):
    made = rig.confirmed()
    rig.ua.use_credentials(made.call, CREDENTIALS, now=0.0)
    rig.ua.bye(made.call, now=1.0)
    (bye,) = rig.sent()
    sent = 0
    while bye is not None:
        sent += 1
        bye = next(iter(challenge(rig, bye, MD5.replace("n1", f"n{sent}").replace("false", "true"))), None)

    assert sent == 4
    assert rig.ua.dialogs == 0


@pytest.mark.report("BR-010")
def test_a_challenged_refer_is_sent_again_and_its_notify_names_the_new_number(rig):
    made = rig.confirmed()
    rig.ua.use_credentials(made.call, CREDENTIALS, now=0.0)
    rig.ua.refer(made.call, "sip:+12125551234@198.51.100.7", now=0.0)
    (refer,) = rig.sent()
    (again,) = challenge(rig, refer, MD5)

    assert (again["cseq"], again["refer-to"]) == ("2 REFER", refer["refer-to"])
    rig.response(again, 202, "Accepted")
    extra = (("Event", "refer;id=2"), ("Subscription-State", "terminated"))
    rig.feed(
        request(
            "NOTIFY",
            branch="n2",
            to_tag=made.to_tag,
            cseq=2,
            extra=extra,
            body="SIP/2.0 200 OK",
            kind="message/sipfrag",
        )
    )
    assert rig.events() == [
        sip.ReferAnswered(made.call, 202),
        sip.ReferProgressed(made.call, 200, "OK", final=True),
    ]


@pytest.mark.report("BR-010")
def test_a_challenged_reinvite_is_sent_again(rig):
    made = rig.confirmed()
    rig.ua.use_credentials(made.call, CREDENTIALS, now=0.0)
    rig.ua.reoffer(made.call, ANSWER, now=0.0)
    (invite,) = rig.sent()
    ack, again = challenge(rig, invite, MD5, status=401)

    assert (ack.method, ack["cseq"]) == ("ACK", "1 ACK")
    assert (again["cseq"], again.body) == ("2 INVITE", invite.body)
    assert field(again, "nc", "authorization") == "00000001"


def test_later_requests_of_the_call_carry_credentials_at_once(rig):
    first = rig.dial(target(credentials=CREDENTIALS))
    _, second = challenge(rig, first, MD5)
    rig.reply(200, to=second, body=SDP)
    rig.ua.bye(rig.call, now=1.0)
    (bye,) = rig.sent()

    assert (bye["cseq"], field(bye, "nc"), field(bye, "uri")) == ("3 BYE", "00000002", bye.start.split()[1])


def test_credentials_of_a_call_that_is_over_are_not_taken(rig):
    assert rig.ua.use_credentials("nobody", CREDENTIALS, now=0.0) is False


def test_no_event_holds_a_password(rig):
    first = rig.dial(target(credentials=CREDENTIALS))
    _, second = challenge(rig, first, MD5)
    challenge(rig, second, MD5)
    rig.feed(rig.from_peer("INVITE", 1, body=OFFER))

    assert CREDENTIALS.password not in repr(rig.events()) + repr(target(credentials=CREDENTIALS))


def test_a_peer_that_wants_ever_longer_sessions_is_not_asked_for_ever(rig):
    invite, sent = rig.dial(), 0
    while invite is not None:
        sent += 1
        extra = (("Min-SE", str(3600 * sent)),)
        answers = rig.response(invite, 422, "Session Interval Too Small", tag="c1", extra=extra)
        invite = next((message for message in answers if message.method == "INVITE"), None)

    assert sent == 4
    assert [end.status for end in rig.ends()] == [422]
