import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.client import ClientTransaction
from gateway.sip.message import Headers, Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import ResponseReceived, State, Terminated

BYE = Request(Headers(), b"", "BYE")
TRYING = Response(Headers(), b"", 100)
OK = Response(Headers(), b"", 200)


def client(*, reliable: bool = False) -> ClientTransaction:
    return ClientTransaction(BYE, reliable=reliable, timers=Timers(), now=0.0)


def ticks(tx, until: float) -> list[float]:
    times = []
    while (at := tx.next_timeout()) is not None and at <= until:
        tx.handle_timeout(now=at)
        times.append(at)
    return times


def test_it_is_repeated_at_doubling_intervals_up_to_t2_and_given_up_at_timer_f():
    tx = client()

    assert ticks(tx, 40.0) == [0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5, 32.0]
    assert len(tx.to_send()) == 11
    assert tx.events() == [Terminated(timed_out=True)]


def test_after_a_provisional_response_it_is_repeated_every_t2():
    tx = client()
    tx.receive(TRYING, now=0.1)

    assert ticks(tx, 13.0) == [0.5, 4.5, 8.5, 12.5]
    assert tx.events() == [ResponseReceived(TRYING)]
    assert ticks(tx, 40.0)[-1] == 32.0  # timer F does not care about it


def test_the_final_response_is_reported_once_and_repeats_are_absorbed():
    tx = client()
    tx.receive(OK, now=0.1)
    tx.receive(OK, now=0.2)

    assert tx.events() == [ResponseReceived(OK)]
    assert ticks(tx, 40.0) == [5.1]  # timer K
    assert tx.events() == [Terminated(timed_out=False)]


def test_over_tcp_nothing_is_repeated():
    tx = client(reliable=True)

    assert tx.next_timeout() == 32.0
    tx.receive(OK, now=1.0)
    assert ticks(tx, 40.0) == [1.0]
    assert tx.to_send() == [BYE]


def test_a_failed_transport_counts_as_no_answer():
    tx = client()
    tx.fail()
    tx.fail()

    assert tx.events() == [Terminated(timed_out=True, undelivered=True)]


@given(st.lists(st.sampled_from([TRYING, OK, "tick", "fail"])), st.booleans())
def test_any_history_reports_one_final_response_and_one_end_at_most(history, reliable):
    tx = client(reliable=reliable)
    now, events = 0.0, []
    for step in history:
        now += 0.7
        if step == "tick":
            now = max(now, tx.next_timeout() or now)
            tx.handle_timeout(now=now)
        elif step == "fail":
            tx.fail()
        else:
            tx.receive(step, now=now)
        events += tx.events()

    assert events.count(ResponseReceived(OK)) <= 1
    assert sum(isinstance(event, Terminated) for event in events) == (tx.state is State.TERMINATED)


@pytest.mark.parametrize("late", [TRYING, OK])
def test_what_comes_after_the_end_is_ignored(late):
    tx = client()
    ticks(tx, 32.0)
    tx.events()
    tx.receive(late, now=33.0)

    assert tx.events() == []
