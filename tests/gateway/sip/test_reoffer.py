"""Our re-INVITE: its answers, glare in both directions, and what a peer that knows nothing means."""

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from tests.gateway.sip.out_rig import CONTACT, CREDENTIALS, FIRST, SDP, OutRig
from tests.gateway.sip.rig import ANSWER, OFFER, Rig, request, statuses

HOLD = ANSWER + b"a=sendonly\r\n"


@pytest.fixture
def rig():
    """A call that we placed."""
    rig = OutRig()
    rig.accepted()
    return rig


def reoffer(rig, call=None, sdp=HOLD):
    assert rig.ua.reoffer(call or rig.call, sdp, now=rig.now)
    (sent,) = rig.sent()
    return sent


def test_a_reinvite_and_its_answer(rig):
    sent = reoffer(rig)
    assert sent.start == "INVITE sip:bob@198.51.100.7:5070 SIP/2.0"
    assert (sent["cseq"], sent.tag("to"), sent["contact"]) == ("2 INVITE", "R1", "<sip:192.0.2.10:5060>")
    assert sent.body.encode() == HOLD
    rig.reply(100, to=sent)
    (ack,) = rig.reply(200, to=sent, extra=(("Contact", "<sip:bob@198.51.100.99:5070>"),), body=SDP)

    assert ack.start == "ACK sip:bob@198.51.100.99:5070 SIP/2.0"  # 12.2.1.2: the target follows
    assert ack["cseq"] == "2 ACK"
    assert rig.events() == [sip.ReofferAnswered(rig.call, 200, SDP.encode())]


def test_each_repeated_2xx_is_acknowledged_also_when_its_transaction_is_over(rig):
    sent = reoffer(rig)
    rig.reply(200, to=sent, body=SDP)
    rig.events()
    acks = rig.reply(200, to=sent, body=SDP)
    rig.advance(40.0)
    acks += rig.reply(200, to=sent, body=SDP)

    assert [ack["cseq"] for ack in acks] == ["2 ACK", "2 ACK"]
    assert rig.events() == []


def test_a_refused_offer_leaves_the_call(rig):
    sent = reoffer(rig)
    (ack,) = rig.reply(488, "Not Acceptable Here", to=sent)

    assert (ack.method, ack["via"]) == ("ACK", sent["via"])
    assert rig.events() == [sip.ReofferAnswered(rig.call, 488, None)]
    assert rig.ua.active_calls == 1
    assert reoffer(rig)["cseq"] == "3 INVITE"


def test_in_a_callers_call_it_works_as_well():
    rig = Rig()
    made = rig.confirmed()
    sent = reoffer(rig, made.call)

    assert sent.start == "INVITE sip:alice@198.51.100.7:5060 SIP/2.0"
    assert (sent["cseq"], sent.tag("to"), sent.tag("from")) == ("1 INVITE", "f1", made.to_tag)
    rig.response(sent, 200, extra=(CONTACT,))
    assert rig.events() == [sip.ReofferAnswered(made.call, 200, None)]


@pytest.mark.parametrize(("ours", "least", "most"), [(True, 2.1, 4.0), (False, 0.0, 2.0)])
def test_after_a_491_it_is_sent_again_after_the_wait_of_its_side(ours, least, most):
    waits = set()
    for run in range(12):
        rig = OutRig()
        for _ in range(run):
            rig.ua._token()  # another draw
        if ours:
            rig.accepted()
            call = rig.call
        else:
            call = rig.confirmed().call
        sent = reoffer(rig, call)
        rig.response(sent, 491, "Request Pending")
        assert rig.events() == []
        ((at, again),) = rig.advance(4.4)[:1]
        assert (again.method, again.cseq, again.body) == ("INVITE", sent.cseq + 1, sent.body)
        assert least <= at <= most
        assert round(at * 100) == pytest.approx(at * 100)
        waits.add(at)
    assert len(waits) > 3


def test_a_peer_that_always_has_an_offer_of_its_own_is_not_asked_for_ever(rig):
    sent, count = reoffer(rig), 0
    while sent is not None:
        count += 1
        rig.response(sent, 491, "Request Pending")
        sent = next(
            (message for _, message in rig.advance(rig.now + 4.5) if message.method == "INVITE"), None
        )

    assert count == 6
    assert rig.events() == [sip.ReofferAnswered(rig.call, 491, None)]
    assert rig.ua.active_calls == 1


def test_a_500_with_retry_after_asks_for_a_wait(rig):
    sent = reoffer(rig)
    rig.response(sent, 500, extra=(("Retry-After", "7 (pending);duration=5"),))

    assert [at for at, message in rig.advance(8.0) if message.method == "INVITE"][:1] == [7.0]


@pytest.mark.parametrize("extra", [(), (("Retry-After", "3600"),), (("Retry-After", "soon"),)])
def test_any_other_500_is_a_refusal(rig, extra):
    rig.response(reoffer(rig), 500, extra=extra)

    assert rig.events() == [sip.ReofferAnswered(rig.call, 500, None)]


@pytest.mark.parametrize("status", [481, 408])
def test_a_peer_that_does_not_know_the_call_ends_it(rig, status):
    *_, bye = rig.response(reoffer(rig), status)

    assert bye.method == "BYE"
    assert rig.events() == [
        sip.ReofferAnswered(rig.call, status, None),
        sip.CallEnded(rig.call, by_peer=False, reason="timeout"),
    ]


@pytest.mark.parametrize("trying", [False, True])
def test_a_peer_that_does_not_answer_is_gone(rig, trying):
    sent = reoffer(rig)
    if trying:
        rig.reply(100, to=sent)
    rig.advance(130.0)

    assert rig.events() == [
        sip.ReofferAnswered(rig.call, 408, None),
        sip.CallEnded(rig.call, by_peer=False, reason="timeout"),
    ]
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


def test_the_peers_offer_meets_ours_and_gets_491(rig):
    sent = reoffer(rig)

    assert statuses(rig.feed(rig.from_peer("INVITE", 1, body=OFFER)))[-1:] == [491]
    assert statuses(rig.feed(rig.from_peer("UPDATE", 2, body=OFFER))) == [491]
    rig.reply(200, to=sent, body=SDP)
    assert statuses(rig.feed(rig.from_peer("INVITE", 3, body=OFFER))) == [100]


def test_our_offer_waits_while_the_peers_is_under_way(rig):
    rig.feed(rig.from_peer("INVITE", 1, body=OFFER))
    rig.ua.reoffer(rig.call, HOLD, now=0.0)
    assert rig.sent() == []
    rig.ua.answer_reoffer(rig.call, ANSWER, now=0.1)
    rig.sent()
    rig.feed(rig.from_peer("ACK", 1))
    log = rig.advance(4.0)

    assert [message.method for _, message in log][:1] == ["INVITE"]
    rig.reply(200, to=log[0][1], body=SDP)
    assert rig.events()[-1] == sip.ReofferAnswered(rig.call, 200, SDP.encode())


def test_while_we_wait_after_a_491_the_peers_offer_is_taken(rig):
    rig.response(reoffer(rig), 491)

    assert statuses(rig.feed(rig.from_peer("INVITE", 1, body=OFFER))) == [100]


def test_hanging_up_meanwhile_still_acknowledges_the_late_answer(rig):
    sent = reoffer(rig)
    rig.ua.bye(rig.call, now=1.0)
    (bye,) = rig.sent()
    rig.response(bye, 200)
    assert [message.method for message in rig.reply(200, to=sent, body=SDP)] == ["ACK"]
    rig.advance(100.0)

    assert rig.events() == [sip.CallEnded(rig.call, by_peer=False, reason="local")]
    assert (rig.ua.dialogs, rig.ua.transactions, rig.ua.next_timeout()) == (0, 0, None)


def test_the_peer_hangs_up_meanwhile(rig):
    sent = reoffer(rig)
    assert statuses(rig.feed(rig.from_peer("BYE", 1))) == [200]
    rig.response(sent, 487, "Request Terminated")
    rig.advance(100.0)

    assert rig.events() == [sip.CallEnded(rig.call, by_peer=True, reason="bye")]
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


def test_a_lost_connection_ends_the_call(rig):
    reoffer(rig)
    way = rig.outgoing[-1].flow
    rig.ua.transport_failed(way, now=1.0)

    assert rig.events() == [
        sip.ReofferAnswered(rig.call, 408, None),
        sip.CallEnded(rig.call, by_peer=False, reason="timeout"),
    ]


def test_only_one_offer_at_a_time_and_never_an_empty_one(rig):
    with pytest.raises(LocalProtocolError):
        rig.ua.reoffer(rig.call, b"", now=0.0)
    reoffer(rig)
    with pytest.raises(LocalProtocolError):
        rig.ua.reoffer(rig.call, HOLD, now=0.0)


def test_a_call_that_is_not_up_has_nothing_to_offer_anew():
    rig = Rig()
    made = rig.answered()

    with pytest.raises(LocalProtocolError):
        rig.ua.reoffer(made.call, HOLD, now=0.0)
    rig.feed(request("ACK", branch="a", to_tag=made.to_tag))
    assert rig.ua.reoffer(made.call, HOLD, now=0.0)
    assert rig.outgoing[-1].flow == FIRST


def test_a_reinvite_that_nobody_answers_after_the_end_is_forgotten(rig):
    sent = reoffer(rig)
    rig.reply(100, to=sent)
    rig.ua.bye(rig.call, now=1.0)
    (bye,) = rig.sent()
    rig.response(bye, 200)
    rig.advance(100.0)

    assert rig.events() == [sip.CallEnded(rig.call, by_peer=False, reason="local")]
    assert (rig.ua.dialogs, rig.ua.transactions, rig.ua.next_timeout()) == (0, 0, None)


def test_an_answer_to_a_try_that_was_challenged_decides_nothing(rig):
    rig.ua.use_credentials(rig.call, CREDENTIALS, now=0.0)
    first = reoffer(rig)
    challenge = (("WWW-Authenticate", 'Digest realm="r", nonce="n"'),)
    _, second = rig.response(first, 401, extra=challenge)
    (ack,) = rig.reply(200, to=first, body=SDP)
    assert ack["cseq"] == "2 ACK"
    assert rig.events() == []
    rig.reply(200, to=second, body=SDP)
    assert rig.events() == [sip.ReofferAnswered(rig.call, 200, SDP.encode())]
