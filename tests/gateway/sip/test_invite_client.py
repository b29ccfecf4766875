import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.invite_client import InviteClientTransaction
from gateway.sip.message import Headers, Request, Response
from gateway.sip.timers import Timers
from gateway.sip.transaction import ResponseReceived, State, Terminated
from gateway.sip.uri import Uri

INVITE = Request(
    Headers(
        [
            ("Via", "SIP/2.0/UDP 192.0.2.10;branch=z9hG4bKout"),
            ("Route", "<sip:p1.example;lr>"),
            ("Route", "<sip:p2.example;lr>"),
            ("Max-Forwards", "70"),
            ("From", "<sip:us@h>;tag=l1"),
            ("To", "<sip:them@h>"),
            ("Call-ID", "c1"),
            ("CSeq", "7 INVITE"),
            ("Contact", "<sip:us@192.0.2.10>"),
        ]
    ),
    b"v=0\r\n",
    "INVITE",
    Uri("sip:them@h"),
)


def response(status: int) -> Response:
    return Response(Headers([("To", "<sip:them@h>;tag=r1")]), b"", status)


RINGING, OK, BUSY = response(180), response(200), response(486)


def client(*, reliable: bool = False) -> InviteClientTransaction:
    return InviteClientTransaction(INVITE, reliable=reliable, timers=Timers(), now=0.0)


def ticks(tx, until: float) -> list[float]:
    times = []
    while (at := tx.next_timeout()) is not None and at <= until:
        tx.handle_timeout(now=at)
        times.append(at)
    return times


def test_it_is_repeated_without_upper_limit_and_given_up_at_timer_b():
    tx = client()

    assert ticks(tx, 40.0) == [0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 32.0]
    assert tx.to_send() == [INVITE] * 7
    assert tx.events() == [Terminated(timed_out=True)]


def test_timers_a_and_b_stop_at_a_provisional_response():
    tx = client()
    tx.receive(RINGING, now=0.3)

    assert tx.next_timeout() is None  # a phone may ring for minutes
    assert tx.to_send() == [INVITE]
    assert tx.events() == [ResponseReceived(RINGING)]


def test_a_rejection_is_acknowledged_here_every_time_it_comes():
    tx = client()
    tx.receive(BUSY, now=1.0)
    tx.receive(BUSY, now=1.5)
    _, ack, again = tx.to_send()

    assert tx.events() == [ResponseReceived(BUSY)]
    assert again == ack
    assert (ack.method, ack.uri, ack.body) == ("ACK", "sip:them@h", b"")
    assert list(ack.headers) == [
        ("Via", "SIP/2.0/UDP 192.0.2.10;branch=z9hG4bKout"),
        ("Route", "<sip:p1.example;lr>"),
        ("Route", "<sip:p2.example;lr>"),
        ("Max-Forwards", "70"),
        ("From", "<sip:us@h>;tag=l1"),
        ("To", "<sip:them@h>;tag=r1"),
        ("Call-ID", "c1"),
        ("CSeq", "7 ACK"),
    ]
    assert ticks(tx, 60.0) == [33.0]  # timer D
    assert tx.events() == [Terminated(timed_out=False)]


def test_every_2xx_is_reported_so_that_the_dialog_can_acknowledge_it():
    tx = client()
    tx.receive(OK, now=1.0)
    tx.receive(RINGING, now=1.1)
    tx.receive(OK, now=1.5)
    tx.receive(BUSY, now=1.6)

    assert tx.events() == [ResponseReceived(OK), ResponseReceived(OK)]
    assert tx.to_send() == [INVITE]
    assert ticks(tx, 60.0) == [33.0]  # timer M


def test_over_tcp_timer_d_is_zero():
    tx = client(reliable=True)
    assert tx.next_timeout() == 32.0
    tx.receive(BUSY, now=1.0)

    assert ticks(tx, 60.0) == [1.0]


def test_a_failed_transport_counts_as_no_answer():
    tx = client()
    tx.fail()
    tx.fail()

    assert tx.events() == [Terminated(timed_out=True, undelivered=True)]


@given(st.lists(st.sampled_from([RINGING, OK, BUSY, "tick", "fail"])), st.booleans())
def test_any_history_reports_at_most_one_rejection_and_none_after_a_success(history, reliable):
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

    finals = [
        event.response.status
        for event in events
        if isinstance(event, ResponseReceived) and not event.response.is_provisional
    ]
    assert 486 not in finals[1:]
    assert sum(isinstance(event, Terminated) for event in events) == (tx.state is State.TERMINATED)


def test_a_success_after_a_rejection_is_told_so_that_its_callee_gets_ack_and_bye():
    tx = client()
    tx.receive(BUSY, now=1.0)
    tx.events()
    tx.to_send()
    tx.receive(OK, now=1.1)

    assert tx.events() == [ResponseReceived(OK)]
    assert (tx.to_send(), tx.state) == ([], State.COMPLETED)


def test_a_shorter_patience_is_timer_b():
    tx = InviteClientTransaction(INVITE, reliable=True, timers=Timers(), patience=6.0, now=1.0)

    assert ticks(tx, 60.0) == [7.0]


@pytest.mark.parametrize("late", [RINGING, OK, BUSY])
def test_what_comes_after_the_end_is_ignored(late):
    tx = client()
    ticks(tx, 32.0)
    tx.events()
    tx.to_send()
    tx.receive(late, now=33.0)

    assert (tx.events(), tx.to_send()) == ([], [])
