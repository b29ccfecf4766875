import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.errors import LocalProtocolError
from gateway.sip.invite_server import InviteServerTransaction
from gateway.sip.message import Headers, Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import AckReceived, State, Terminated

INVITE = Request(Headers(), b"", "INVITE")
ACK = Request(Headers(), b"", "ACK")
RINGING = Response(Headers(), b"", 180)
OK = Response(Headers(), b"", 200)
BUSY = Response(Headers(), b"", 486)


@pytest.fixture
def tx():
    return InviteServerTransaction(INVITE, reliable=False, timers=Timers())


def test_a_repeated_invite_gets_the_last_provisional_again(tx):
    tx.receive(INVITE, now=0.0)
    tx.respond(RINGING, now=0.1)
    tx.receive(INVITE, now=0.5)

    assert tx.to_send() == [RINGING, RINGING]
    assert not tx.answered


def test_a_rejection_is_repeated_at_doubling_intervals_until_the_ack(tx):
    tx.respond(BUSY, now=0.0)
    sent = []
    for _ in range(5):
        now = tx.next_timeout()
        tx.handle_timeout(now=now)
        sent.append(now)

    assert sent == [0.5, 1.5, 3.5, 7.5, 11.5]
    assert tx.to_send() == [BUSY] * 6
    tx.receive(ACK, now=12.0)
    assert tx.state is State.CONFIRMED
    assert tx.events() == [AckReceived(ACK)]
    tx.receive(INVITE, now=13.0)
    tx.receive(ACK, now=13.0)
    assert tx.to_send() == []
    assert tx.next_timeout() == 17.0  # timer I
    tx.handle_timeout(now=17.0)
    assert tx.events() == [Terminated(timed_out=False)]


def test_a_repeated_invite_gets_the_rejection_again(tx):
    tx.respond(BUSY, now=0.0)
    tx.receive(INVITE, now=0.1)

    assert tx.to_send() == [BUSY, BUSY]


def test_a_missing_ack_of_a_rejection_ends_it_after_timer_h(tx):
    tx.respond(BUSY, now=0.0)
    tx.handle_timeout(now=31.9)
    assert tx.events() == []
    tx.handle_timeout(now=32.0)

    assert tx.events() == [Terminated(timed_out=True)]
    assert tx.next_timeout() is None


def test_over_tcp_nothing_is_repeated_by_time():
    tx = InviteServerTransaction(INVITE, reliable=True, timers=Timers())
    tx.respond(BUSY, now=0.0)
    assert tx.next_timeout() == 32.0  # timer H
    tx.receive(ACK, now=1.0)
    assert tx.next_timeout() == 1.0  # timer I is zero
    tx.handle_timeout(now=1.0)

    assert tx.state is State.TERMINATED


def test_accepted_takes_the_2xx_again_from_the_dialog(tx):
    tx.respond(OK, now=0.0)
    tx.respond(OK, now=0.5)
    tx.receive(INVITE, now=0.6)

    assert tx.state is State.ACCEPTED
    assert tx.to_send() == [OK, OK, OK]
    assert tx.next_timeout() == 32.0  # timer L


@pytest.mark.parametrize("how", ["in the transaction", "in the dialog"])
def test_after_the_ack_of_a_2xx_a_late_invite_is_absorbed(tx, how):
    tx.respond(OK, now=0.0)
    if how == "in the dialog":
        tx.acknowledge()
    else:
        tx.receive(ACK, now=0.2)
        assert tx.events() == [AckReceived(ACK)]
    tx.to_send()
    tx.receive(INVITE, now=0.6)

    assert tx.to_send() == []


def test_timer_l_ends_accepted(tx):
    tx.respond(OK, now=1.0)
    tx.handle_timeout(now=33.0)

    assert tx.events() == [Terminated(timed_out=False)]


@pytest.mark.parametrize(("first", "second", "state"), [(OK, BUSY, "accepted"), (BUSY, OK, "completed")])
def test_a_second_final_response_is_our_own_mistake(tx, first, second, state):
    tx.respond(first, now=0.0)

    with pytest.raises(LocalProtocolError, match=f"cannot send {second.status} when {state}"):
        tx.respond(second, now=0.1)


def test_a_failed_transport_ends_it_once(tx):
    tx.fail()
    tx.fail()

    assert tx.events() == [Terminated(timed_out=True, undelivered=True)]


@given(st.lists(st.sampled_from(["invite", "ack", "tick", "180", "200", "486", "fail"])), st.booleans())
def test_any_history_ends_in_at_most_one_termination(history, reliable):
    tx = InviteServerTransaction(INVITE, reliable=reliable, timers=Timers())
    now, ended = 0.0, 0
    for step in history:
        now += 0.7
        match step:
            case "invite":
                tx.receive(INVITE, now=now)
            case "ack":
                tx.receive(ACK, now=now)
            case "tick":
                now = max(now, tx.next_timeout() or now)
                tx.handle_timeout(now=now)
            case "fail":
                tx.fail()
            case status if tx.state is State.PROCEEDING:
                tx.respond(Response(Headers(), b"", int(status)), now=now)
            case _:
                continue
        at = tx.next_timeout()
        assert at is None or at >= now or not tx.handle_timeout(now=now)
        ended += sum(isinstance(event, Terminated) for event in tx.events())
        assert ended <= 1
        assert (tx.state is State.TERMINATED) == (ended == 1)
    assert tx.state is not State.TERMINATED or tx.next_timeout() is None
