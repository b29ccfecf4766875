"""An offer of the peer waits for its answer, no longer than its transaction lives."""

from gateway.sip import events as sip
from tests.gateway.sip.out_rig import OutRig
from tests.gateway.sip.rig import ANSWER, OFFER, statuses


def confirmed() -> OutRig:
    rig = OutRig()
    rig.accepted()
    return rig


def test_an_offer_that_nobody_answers_is_refused_before_its_transaction_ends():
    rig = confirmed()
    rig.feed(rig.from_peer("UPDATE", 1, body=OFFER))
    log = rig.advance(60.0)

    assert [(at, message.status) for at, message in log] == [(32.0, 500)]
    rig.ua.answer_reoffer(rig.call, ANSWER, now=61.0)
    assert rig.sent() == []
    assert rig.ua.active_calls == 1


def test_a_second_offer_waits_its_turn():
    rig = confirmed()
    rig.feed(rig.from_peer("INVITE", 1, body=OFFER))
    (refused,) = rig.feed(rig.from_peer("INVITE", 2, body=OFFER))[-1:]

    assert refused.status == 500
    assert 0 <= int(refused["retry-after"]) <= 10


def test_an_offer_that_the_peer_takes_back_is_answered_487():
    rig = confirmed()
    rig.feed(rig.from_peer("INVITE", 1, body=OFFER, branch="re"))
    assert statuses(rig.feed(rig.from_peer("CANCEL", 1, branch="re"))) == [200, 487]
    rig.ua.answer_reoffer(rig.call, ANSWER, now=0.1)

    assert rig.sent() == []
    assert statuses(rig.feed(rig.from_peer("INVITE", 2, body=OFFER))) == [100]


def test_hanging_up_answers_what_still_waits():
    rig = confirmed()
    rig.feed(rig.from_peer("INVITE", 1, body=OFFER))
    rig.events()
    rig.ua.bye(rig.call, now=0.1)

    assert sorted((message.status, message.method) for message in rig.sent()) == [(0, "BYE"), (487, "")]
    assert rig.events() == [sip.CallEnded(rig.call, by_peer=False, reason="local")]
