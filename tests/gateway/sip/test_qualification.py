import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sip.qualification import DOUBT_S, Lost, Qualification, Reach, Reached


def make(every=60.0):
    return Qualification(every=every, now=0.0)


def ask(qualification, status, *, after=0.05):
    now = qualification.next_timeout()
    assert qualification.handle_timeout(now=now)
    qualification.answered(status, "x", now=now + after)
    return qualification.events()


def test_the_first_answer_decides_at_once_and_tells_its_latency():
    qualification = make()
    assert qualification.state is Reach.UNKNOWN
    [reached] = ask(qualification, 200, after=0.05)
    assert reached.latency_ms == pytest.approx(50)
    assert qualification.state is Reach.UP
    assert qualification.next_timeout() == pytest.approx(60.05)

    other = make()
    assert ask(other, 408) == [Lost(408, "x")]
    assert other.state is Reach.DOWN


@pytest.mark.parametrize("status", [200, 403, 404, 405, 481, 486, 501, 600])
def test_whoever_answers_is_alive(status):
    qualification = make()
    ask(qualification, status)
    assert qualification.state is Reach.UP


@pytest.mark.parametrize("status", [408, 503])
def test_one_lost_answer_is_no_outage_and_is_asked_about_soon(status):
    qualification = make()
    ask(qualification, 200)
    assert ask(qualification, status, after=32) == []
    assert qualification.state is Reach.UP
    assert qualification.latency_ms is None
    asked = qualification.next_timeout()
    assert ask(qualification, status) == [Lost(status, "x")]
    assert asked == pytest.approx(60.05 + 32 + DOUBT_S)
    assert qualification.state is Reach.DOWN


def test_one_answer_after_an_outage_is_not_yet_a_peer_that_is_back():
    qualification = make()
    ask(qualification, 408)
    assert ask(qualification, 200) == []
    assert ask(qualification, 408) == []
    assert ask(qualification, 200) == []
    [back] = ask(qualification, 200)
    assert isinstance(back, Reached)


def test_a_short_interval_is_not_made_longer_by_doubt():
    qualification = make(every=2.0)
    ask(qualification, 200, after=0.0)
    ask(qualification, 408, after=0.0)
    assert qualification.next_timeout() == pytest.approx(4.0)


def test_nothing_is_asked_twice_at_once_and_nobody_answers_what_was_not_asked():
    qualification = make()
    assert qualification.handle_timeout(now=0.0)
    assert not qualification.handle_timeout(now=100.0)
    assert qualification.next_timeout() is None
    qualification.answered(200, "OK", now=100.0)
    qualification.answered(408, "", now=100.0)
    assert len(qualification.events()) == 1


@given(st.lists(st.sampled_from([200, 404, 408, 503]), max_size=60))
@settings(max_examples=100, deadline=None)
def test_changes_alternate_and_a_change_needs_two_that_agree(statuses):
    qualification = make()
    changes = [event for status in statuses for event in ask(qualification, status)]
    kinds = [type(event) for event in changes]
    assert all(one is not other for one, other in itertools.pairwise(kinds))
    for status, other in zip(statuses[-2:], statuses[-1:], strict=False):
        if (status in {408, 503}) == (other in {408, 503}):
            assert qualification.state is (Reach.DOWN if other in {408, 503} else Reach.UP)
