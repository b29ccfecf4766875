import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.errors import LocalProtocolError
from gateway.sip.message import Headers, Request, Response
from gateway.sip.server import ServerTransaction
from gateway.sip.timers import Timers
from gateway.sip.transaction import State, Terminated

BYE = Request(Headers(), b"", "BYE")
TRYING = Response(Headers(), b"", 100)
OK = Response(Headers(), b"", 200)


@pytest.fixture
def tx():
    return ServerTransaction(BYE, reliable=False, timers=Timers())


def test_a_repeated_request_gets_the_last_response_again(tx):
    tx.receive(BYE, now=0.0)
    assert tx.to_send() == []
    tx.respond(TRYING, now=0.1)
    tx.receive(BYE, now=0.5)
    tx.respond(OK, now=0.6)
    tx.receive(BYE, now=1.5)

    assert tx.to_send() == [TRYING, TRYING, OK, OK]


def test_timer_j_ends_it(tx):
    tx.respond(OK, now=1.0)
    assert tx.next_timeout() == 33.0
    tx.handle_timeout(now=32.9)
    assert tx.state is State.COMPLETED
    tx.handle_timeout(now=33.0)

    assert tx.events() == [Terminated(timed_out=False)]


def test_over_tcp_timer_j_is_zero():
    tx = ServerTransaction(BYE, reliable=True, timers=Timers())
    tx.respond(OK, now=1.0)
    tx.handle_timeout(now=1.0)

    assert tx.state is State.TERMINATED


def test_a_second_final_response_is_our_own_mistake(tx):
    tx.respond(OK, now=0.0)

    with pytest.raises(LocalProtocolError, match="cannot send 200 when completed"):
        tx.respond(OK, now=0.1)


@given(st.lists(st.sampled_from(["again", "tick", "100", "200", "fail"])))
def test_any_history_ends_in_at_most_one_termination(history):
    tx = ServerTransaction(BYE, reliable=False, timers=Timers())
    now, ended = 0.0, 0
    for step in history:
        now += 0.7
        match step:
            case "again":
                tx.receive(BYE, now=now)
            case "tick":
                now = max(now, tx.next_timeout() or now)
                tx.handle_timeout(now=now)
            case "fail":
                tx.fail()
            case status if not tx.answered:
                tx.respond(Response(Headers(), b"", int(status)), now=now)
        ended += sum(isinstance(event, Terminated) for event in tx.events())

    assert ended <= 1
    assert (tx.state is State.TERMINATED) == (ended == 1)
