"""One call from INVITE to BYE: two sides by hand, time by force."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sip import events as sip
from gateway.sip.call import CallState
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from tests.gateway.sip.rig import ANSWER, OFFER, TCP, UDP, US, Rig, invite, request
from tests.kit import sip_text


@pytest.fixture
def rig():
    return Rig()


def in_dialog(method, made, cseq=2, **more):
    return request(method, branch=f"{method}{cseq}", to_tag=made.to_tag, cseq=cseq, **more)


# Transport.


def test_a_ringing_call_whose_transport_fails_ends(rig):
    call = rig.offered(invite(via="SIP/2.0/TCP 198.51.100.7"), TCP)
    rig.ua.transport_failed(TCP, now=0.1)

    assert rig.events() == [sip.CallEnded(call, by_peer=False, reason="transport")]
    assert (rig.ua.active_calls, rig.ua.dialogs) == (0, 0)


@pytest.mark.parametrize("which", ["the first INVITE", "a re-INVITE", "after our BYE"])
def test_an_answer_that_cannot_be_delivered_ends_the_call_with_a_bye(rig, which):
    made = rig.answered()
    expected = [sip.CallEnded(made.call, by_peer=False, reason="transport")]
    if which == "a re-INVITE":
        rig.feed(in_dialog("INVITE", made, body=OFFER))
        rig.ua.answer_reoffer(made.call, ANSWER, now=0.1)
    elif which == "after our BYE":
        rig.ua.bye(made.call, now=0.1)
        expected = []
    rig.sent()
    rig.events()
    rig.ua.transport_failed(UDP, now=0.1)

    assert [message.method for message in rig.sent()] == ["BYE"]
    assert rig.events() == expected
    rig.advance(60.0)
    assert (rig.ua.dialogs, rig.ua.transactions) == (0, 0)


def test_a_confirmed_call_survives_a_lost_connection(rig):
    made = rig.confirmed(invite(via="SIP/2.0/TCP 198.51.100.7"), TCP)
    rig.ua.transport_failed(TCP, now=0.1)
    assert rig.events() == []
    rig.ua.bye(made.call, now=0.2)
    (bye,) = rig.sent()

    assert bye["via"].startswith("SIP/2.0/TCP ")
    assert rig.outgoing[-1].flow == TCP
    assert rig.outgoing[-1].fallback == Flow("tcp", ("198.51.100.7", 5060), US)


def test_requests_follow_the_peer_to_its_new_connection(rig):
    made = rig.confirmed(invite(via="SIP/2.0/TCP 198.51.100.7"), TCP)
    new = Flow("tcp", ("198.51.100.7", 40001), US, 2)
    rig.feed(in_dialog("OPTIONS", made, via="SIP/2.0/TCP 198.51.100.7"), new)
    rig.ua.bye(made.call, now=0.2)
    rig.sent()

    assert rig.outgoing[-1].flow == new


# Any history.


def _commands(rig, call):
    now = rig.now
    return {
        "ring": lambda: rig.ua.ring(call, now=now),
        "answer": lambda: rig.ua.answer(call, ANSWER, now=now),
        "reject": lambda: rig.ua.reject(call, 486, now=now),
        "bye": lambda: rig.ua.bye(call, now=now),
        "refer": lambda: rig.ua.refer(call, "sip:x@h", now=now),
        "reoffer": lambda: rig.ua.answer_reoffer(call, ANSWER, now=now),
        "refuse": lambda: rig.ua.answer_reoffer(call, None, now=now),
        "lost": lambda: rig.ua.transport_failed(UDP, now=now),
    }


_PEER = ["INVITE", "again", "ACK", "CANCEL", "BYE", "UPDATE", "NOTIFY", "200", "486", "tick", "wait"]


@given(
    st.lists(
        st.sampled_from([*_PEER, "ring", "answer", "reject", "bye", "refer", "reoffer", "refuse", "lost"]),
        max_size=25,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_history_ends_each_call_exactly_once_and_leaves_nothing(history):
    rig = Rig()
    call = rig.offered()
    tag = next(iter(rig.ua._calls)).dialog.local_tag
    cseq, ours, events = 1, [], []
    for step in history:
        rig.now += 0.3
        match step:
            case "again":
                rig.feed(invite())
            case "ACK" | "CANCEL":
                rig.feed(request(step, to_tag=tag if step == "ACK" else "", cseq=1))
                rig.feed(request(step, branch=f"INVITE{cseq}", to_tag=tag, cseq=cseq))
            case "INVITE" | "BYE" | "UPDATE" | "NOTIFY":
                cseq += 1
                extra = (("Event", "refer"), ("Subscription-State", "active"))
                rig.feed(
                    request(step, branch=f"{step}{cseq}", to_tag=tag, cseq=cseq, body=OFFER, extra=extra)
                )
            case "200" | "486":
                for message in ours:
                    rig.response(message, int(step))
            case "tick":
                rig.advance(max(rig.now, rig.ua.next_timeout() or rig.now))
            case "wait":
                rig.advance(rig.now + 20.0)
            case _:
                try:
                    _commands(rig, call)[step]()
                except LocalProtocolError:
                    pass
        rig.sent()
        ours = [
            sip_text.read(each.data) for each in rig.outgoing if each.data.split()[0] in {b"BYE", b"REFER"}
        ]
        events += rig.events()
    for it in rig.ua._calls:
        if it.state is CallState.OFFERED:
            rig.ua.reject(it.handle, 480, now=rig.now)
        else:
            rig.ua.bye(it.handle, now=rig.now)
    rig.advance(rig.now + 400.0)
    events += rig.events()
    # A copy of the INVITE that comes after everything was lost is a call of its own.
    offered = [call, *(event.call for event in events if isinstance(event, sip.CallOffered))]
    ended = [event.call for event in events if isinstance(event, sip.CallEnded)]

    assert sorted(ended) == sorted(offered)
    assert (rig.ua.active_calls, rig.ua.dialogs, rig.ua.transactions) == (0, 0, 0)
    assert rig.ua.next_timeout() is None
