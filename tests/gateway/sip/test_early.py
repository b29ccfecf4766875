"""Places where a call of ours rings: early dialogs, early media, and PRACK (RFC 3262)."""

import pytest

from gateway.sip import events as sip
from gateway.sip.early import reliable_rseq
from gateway.sip.errors import LocalProtocolError
from gateway.sip.message import Headers, Response
from tests.gateway.sip.out_rig import CONTACT, CREDENTIALS, FIRST, SECOND, OutRig, answer, target
from tests.gateway.sip.rig import ANSWER

EARLY = (
    "v=0\r\no=- 1 1 IN IP4 198.51.100.7\r\ns=-\r\nc=IN IP4 198.51.100.7\r\nt=0 0\r\n"
    "m=audio 7078 RTP/AVP 8 101\r\n"
)
FINAL = EARLY.replace("7078 RTP/AVP 8 101", "7080 RTP/AVP 9 0 101")


@pytest.fixture
def rig():
    rig = OutRig()
    rig.dial()
    return rig


def reliable(rseq, *more):
    return (CONTACT, ("Require", "100rel"), ("RSeq", str(rseq)), *more)


def progress(rig, status, sdp=None, reason="OK"):
    return sip.CallProgressed(rig.call, status, reason, None if sdp is None else sdp.encode())


@pytest.mark.report("BR-045")
def test_a_reliable_183_and_then_a_180_each_get_their_prack(rig):
    (first,) = rig.reply(183, extra=reliable(10), body=EARLY)
    (second,) = rig.reply(180, extra=reliable(11), body=EARLY)

    assert (first.method, second.method) == ("PRACK", "PRACK")
    assert (first["rack"], second["rack"]) == ("10 1 INVITE", "11 1 INVITE")
    assert (first["cseq"], second["cseq"]) == ("2 PRACK", "3 PRACK")
    assert first.start == "PRACK sip:bob@198.51.100.7:5070 SIP/2.0"
    assert (first.tag("to"), first.tag("from")) == ("R1", rig.invite.tag("from"))
    assert first.body == second.body == ""
    # The second description says nothing new: it is no offer, and no second answer.
    assert rig.events() == [progress(rig, 183, EARLY), progress(rig, 180)]
    rig.response(first, 200)
    rig.response(second, 200)
    (ack,) = rig.reply(200)
    assert ack["cseq"] == "1 ACK"
    assert rig.events() == [sip.CallAccepted(rig.call, EARLY.encode())]
    rig.ua.bye(rig.call, now=1.0)
    assert rig.sent()[0]["cseq"] == "4 BYE"


def test_a_repeated_reliable_response_gets_no_second_prack(rig):
    rig.reply(183, extra=reliable(10), body=EARLY)
    rig.events()

    assert rig.reply(183, extra=reliable(10), body=EARLY) == []
    assert rig.events() == []


def test_a_response_after_a_gap_waits_for_the_one_before_it(rig):
    rig.reply(183, extra=reliable(10))
    rig.events()
    assert rig.reply(180, extra=reliable(12)) == []
    assert rig.events() == []
    assert [message["rack"] for message in rig.reply(180, extra=reliable(11))] == ["11 1 INVITE"]
    assert [message["rack"] for message in rig.reply(180, extra=reliable(12))] == ["12 1 INVITE"]


def test_each_place_counts_its_own(rig):
    (first,) = rig.reply(180, tag="A", extra=reliable(10))
    (second,) = rig.reply(180, tag="B", extra=reliable(700))

    assert [(each["rack"], each.tag("to"), each["cseq"]) for each in (first, second)] == [
        ("10 1 INVITE", "A", "2 PRACK"),
        ("700 1 INVITE", "B", "2 PRACK"),
    ]


def test_the_prack_takes_the_route_of_the_early_dialog(rig):
    (prack,) = rig.reply(
        183, extra=reliable(1, ("Record-Route", "<sip:p2.example;lr>, <sip:198.51.100.40:5080;lr>"))
    )

    assert prack.all("route") == ["<sip:198.51.100.40:5080;lr>", "<sip:p2.example;lr>"]
    assert rig.outgoing[-1].flow.remote == ("198.51.100.40", 5080)


def test_a_prack_is_repeated_until_it_is_answered_and_may_fail(rig):
    rig.reply(183, extra=reliable(10))
    assert [message.method for _, message in rig.advance(1.5)] == ["PRACK", "PRACK"]
    rig.advance(40.0)
    rig.events()
    rig.reply(200, body=FINAL)

    assert rig.events() == [sip.CallAccepted(rig.call, FINAL.encode())]


def test_a_challenged_prack_is_sent_again():
    rig = OutRig()
    rig.dial(target(credentials=CREDENTIALS))
    (prack,) = rig.reply(183, extra=reliable(10))
    (again,) = rig.response(prack, 407, extra=(("Proxy-Authenticate", 'Digest realm="r", nonce="n"'),))

    assert (again.method, again["rack"], again["cseq"]) == ("PRACK", "10 1 INVITE", "3 PRACK")
    assert "Digest" in again["proxy-authorization"]


@pytest.mark.parametrize("extra", [(CONTACT,), (CONTACT, ("RSeq", "10")), (CONTACT, ("Require", "100rel"))])
def test_an_unreliable_response_gets_no_prack(rig, extra):
    assert rig.reply(183, extra=extra, body=EARLY) == []
    assert rig.events() == [progress(rig, 183, EARLY)]


@pytest.mark.parametrize("rseq", ["0", "-1", "x", "", "4294967296", "\u0663"])
def test_what_is_no_rseq_asks_for_no_prack(rseq):
    headers = Headers([("Require", "100rel"), ("RSeq", rseq)])

    assert reliable_rseq(Response(headers, b"", 183)) is None


def test_after_a_cancel_a_reliable_response_still_gets_its_prack(rig):
    rig.ua.cancel(rig.call, now=0.1)
    rig.events()

    assert {message.method for message in rig.reply(183, extra=reliable(10), body=EARLY)} == {
        "CANCEL",
        "PRACK",
    }
    assert rig.events() == []


# Early media and its answers.


@pytest.mark.report("BR-078")
def test_the_answer_of_the_200_counts_where_the_183_of_the_same_place_said_otherwise(rig):
    rig.reply(183, tag="A", body=EARLY)
    rig.reply(200, tag="A", body=FINAL)

    assert rig.events() == [progress(rig, 183, EARLY), sip.CallAccepted(rig.call, FINAL.encode())]
    assert rig.ua.active_calls == 1


@pytest.mark.report("BR-078")
def test_the_answer_of_another_place_counts_for_its_own_dialog(rig):
    rig.reply(183, tag="A", body=EARLY)
    (ack,) = rig.reply(200, tag="B", body=FINAL)

    assert ack.tag("to") == "B"
    assert rig.events() == [progress(rig, 183, EARLY), sip.CallAccepted(rig.call, FINAL.encode())]


def test_another_place_that_answers_without_sdp_gave_no_answer(rig):
    rig.reply(183, tag="A", body=EARLY)
    rig.events()
    rig.reply(200, tag="B")

    assert rig.events() == [sip.CallAccepted(rig.call, None)]


def test_early_media_that_changes_place_is_told_each_time(rig):
    for tag, sdp in (("A", EARLY), ("A", EARLY), ("B", FINAL), ("A", EARLY), ("A", "")):
        rig.reply(183, tag=tag, body=sdp)

    assert [event.sdp for event in rig.events()] == [
        EARLY.encode(),
        None,
        FINAL.encode(),
        EARLY.encode(),
        None,
    ]


def test_a_place_that_has_given_up_is_no_progress(rig):
    assert [message.method for message in rig.reply(199, extra=reliable(1))] == ["PRACK"]
    assert rig.events() == []


@pytest.mark.parametrize("status", [180, 181, 182, 183])
def test_every_18x_is_told(rig, status):
    rig.reply(status, "Wait")

    assert rig.events() == [progress(rig, status, reason="Wait")]


def test_a_response_without_a_tag_opens_no_dialog_but_is_told(rig):
    assert rig.reply(183, tag="", extra=reliable(10)) == []
    assert rig.events() == [progress(rig, 183)]


def test_more_places_than_anybody_has_fill_no_table(rig):
    sent = [rig.reply(180, tag=f"T{n}", extra=reliable(1)) for n in range(20)]

    assert sum(map(len, sent)) == 16
    assert [message.method for message in rig.reply(200, tag="T19", body=FINAL)] == ["ACK"]


def test_a_body_that_is_no_sdp_is_no_answer(rig):
    data = (CONTACT, ("Content-Type", "text/plain"))
    rig.reply(183, extra=data, body="")

    assert rig.events() == [progress(rig, 183)]


# UPDATE before the answer (RFC 3311).


ALLOW = ("Allow", "INVITE, ACK, BYE, CANCEL, PRACK, UPDATE")


def exchange(rig, tag="R1"):
    """Let an answer come reliably, so that there may be a new offer."""
    (prack,) = rig.reply(183, tag=tag, extra=reliable(1, ALLOW), body=EARLY)
    rig.response(prack, 200)
    rig.events()


def test_an_update_without_sdp_of_a_place_that_rings_is_answered(rig):
    rig.reply(180)
    moved = rig.from_peer("UPDATE", 1).replace(b"sip:bob@198.51.100.7:5070", b"sip:bob@198.51.100.7:6000")
    (ok,) = rig.feed(moved)

    assert (ok.status, ok.body, ok["contact"]) == (200, "", "<sip:192.0.2.10:5060>")
    assert [message.status for message in rig.feed(rig.from_peer("OPTIONS", 2))] == [200]
    (prack,) = rig.reply(183, extra=(("Require", "100rel"), ("RSeq", "1")))
    assert prack.start == "PRACK sip:bob@198.51.100.7:6000 SIP/2.0"


@pytest.mark.parametrize("method", ["UPDATE", "INVITE"])
def test_an_offer_before_ours_is_answered_gets_491(rig, method):
    rig.reply(183, body=EARLY)

    assert [message.status for message in rig.feed(rig.from_peer(method, 1, body=FINAL))][-1:] == [491]


def test_an_update_with_an_offer_after_a_reliable_answer_is_the_applications_to_answer(rig):
    exchange(rig)
    assert rig.feed(rig.from_peer("UPDATE", 1, body=FINAL)) == []
    assert rig.events() == [sip.CallReoffered(rig.call, FINAL.encode())]
    rig.ua.answer_reoffer(rig.call, ANSWER, now=0.1)
    (ok,) = rig.sent()

    assert (ok.status, ok.body.encode()) == (200, ANSWER)
    rig.reply(200)
    assert rig.ua.active_calls == 1


def test_our_own_offer_before_the_answer_is_an_update(rig):
    exchange(rig)
    assert rig.ua.reoffer(rig.call, ANSWER, now=0.0)
    (update,) = rig.sent()
    assert (update.method, update["cseq"], update.tag("to")) == ("UPDATE", "3 UPDATE", "R1")
    assert rig.response(update, 200, extra=(CONTACT,)) == []
    assert rig.events() == [sip.ReofferAnswered(rig.call, 200, None)]


def test_an_update_that_fails_leaves_the_call_ringing(rig):
    exchange(rig)
    rig.ua.reoffer(rig.call, ANSWER, now=0.0)
    (update,) = rig.sent()
    assert rig.response(update, 481) == []

    assert rig.events() == [sip.ReofferAnswered(rig.call, 481, None)]
    assert rig.ua.active_calls == 1


def test_a_peer_that_knows_no_update_gets_none(rig):
    rig.reply(183, extra=reliable(1), body=EARLY)

    with pytest.raises(LocalProtocolError):
        rig.ua.reoffer(rig.call, ANSWER, now=0.0)


def test_an_update_to_a_place_that_does_not_answer_the_call_changes_nothing(rig):
    exchange(rig, "A")
    rig.ua.reoffer(rig.call, ANSWER, now=0.0)
    (update,) = rig.sent()
    rig.reply(200, tag="B", extra=(("Contact", "<sip:carol@198.51.100.9>"),), body=FINAL)
    assert rig.events() == [
        sip.ReofferAnswered(rig.call, 481, None),
        sip.CallAccepted(rig.call, FINAL.encode()),
    ]
    rig.response(update, 200, extra=(("Contact", "<sip:lost@198.51.100.7>"),))
    rig.ua.bye(rig.call, now=1.0)

    assert rig.sent()[0].start == "BYE sip:carol@198.51.100.9 SIP/2.0"


def test_an_offer_of_a_place_that_does_not_answer_the_call_is_refused(rig):
    exchange(rig, "A")
    rig.feed(rig.from_peer("UPDATE", 1, tag="A", body=FINAL))
    sent = rig.reply(200, tag="B", body=FINAL)

    assert [(message.status, message.method) for message in sent] == [(487, ""), (0, "ACK")]


def test_while_our_update_is_under_way_the_peers_gets_491(rig):
    exchange(rig)
    rig.ua.reoffer(rig.call, ANSWER, now=0.0)
    rig.sent()

    assert [message.status for message in rig.feed(rig.from_peer("UPDATE", 1, body=FINAL))] == [491]


def test_an_update_is_forgotten_when_the_next_address_is_tried():
    rig = OutRig()
    rig.dial(target(FIRST, SECOND))
    exchange(rig)
    rig.feed(rig.from_peer("UPDATE", 1, body=FINAL))
    rig.events()
    _, second = rig.reply(503, "Service Unavailable")
    rig.ua.answer_reoffer(rig.call, ANSWER, now=0.1)
    rig.sent()
    (ack,) = rig.reply(200, to=second, tag="R2", extra=(), body=FINAL)

    assert ack.start == "ACK sip:+12025550177@carrier.example SIP/2.0"


@pytest.mark.parametrize("who", ["the peer", "we"])
def test_a_200_without_sdp_stands_for_what_was_said_last(rig, who):
    exchange(rig)
    if who == "the peer":
        rig.feed(rig.from_peer("UPDATE", 1, body=FINAL))
        rig.ua.answer_reoffer(rig.call, ANSWER, now=0.1)
        rig.sent()
    else:
        rig.ua.reoffer(rig.call, ANSWER, now=0.1)
        (update,) = rig.sent()
        rig.feed(answer(update, 200, body=FINAL))
    rig.reply(200)

    assert rig.events()[-1] == sip.CallAccepted(rig.call, FINAL.encode())
