"""When a call has lasted or cost enough."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.limits import (
    GOODBYE_S,
    MOMENT_S,
    NEAR_S,
    Allowed,
    GoodbyeMissing,
    Limit,
    LimitNear,
    LimitReached,
    LimitWatch,
)


def watch(duration=None, cost=None, now=1000.0):
    return LimitWatch(Allowed(duration, None if cost is None else Decimal(cost)), now=now)


def test_without_limits_nothing_is_ever_due():
    limits = watch()
    limits.spend(Decimal(10**6), now=1e9)
    limits.handle_timeout(now=1e9)
    assert (limits.next_timeout(), limits.events(), limits.reached) == (None, [], None)


@pytest.mark.parametrize(("duration", "near"), [(3600.0, 3600.0 - NEAR_S), (100.0, 80.0)])
def test_a_duration_is_near_a_minute_before_or_in_the_last_fifth_and_then_reached(duration, near):
    limits = watch(duration)
    assert limits.next_timeout() == 1000 + near
    limits.handle_timeout(now=1000 + near - 0.001)
    assert limits.events() == []
    limits.handle_timeout(now=1000 + near)
    assert limits.events() == [LimitNear(Limit.DURATION, near, duration)]
    assert limits.next_timeout() == 1000 + duration
    limits.handle_timeout(now=1000 + duration)
    assert limits.events() == [LimitReached(Limit.DURATION, duration, duration)]
    assert limits.next_timeout() == 1000 + duration + GOODBYE_S
    limits.handle_timeout(now=1000 + duration + GOODBYE_S)
    assert limits.events() == [GoodbyeMissing(Limit.DURATION)]
    assert limits.next_timeout() is None


def test_a_cost_is_near_at_four_fifths_and_reached_with_its_last_cent():
    limits = watch(cost="2.00")
    for spent in ("1.5999", "1.60", "1.99", "2.00", "2.50"):
        limits.spend(Decimal(spent), now=1005.0)
    assert limits.events() == [LimitNear(Limit.COST, 1.6, 2.0), LimitReached(Limit.COST, 2.0, 2.0)]
    assert limits.next_timeout() == 1005 + GOODBYE_S


def test_a_goodbye_that_may_have_been_said_is_waited_for_a_moment():
    limits = watch(60.0)
    limits.expect_goodbye(now=1010.0)  # nobody has asked for one yet
    limits.handle_timeout(now=1060.0)
    limits.expect_goodbye(now=1062.0)
    assert limits.next_timeout() == 1062 + MOMENT_S
    limits.expect_goodbye(now=1065.0)
    limits.handle_timeout(now=1062 + MOMENT_S)
    assert limits.events()[-1] == GoodbyeMissing(Limit.DURATION)


def test_the_limit_that_is_reached_first_is_the_reason():
    limits = watch(60.0, "1.00")
    limits.spend(Decimal(1), now=1059.0)
    limits.handle_timeout(now=1060.0)
    assert limits.reached is Limit.COST
    limits.handle_timeout(now=1059.0 + GOODBYE_S)
    assert limits.events() == [LimitReached(Limit.COST, 1.0, 1.0), GoodbyeMissing(Limit.COST)]


@settings(deadline=None, max_examples=100)
@given(st.floats(0.001, 86_400), st.floats(0, 1e7), st.lists(st.floats(0, 90_000), max_size=20))
def test_going_from_timeout_to_timeout_ends_every_call_once(duration, now, early):
    limits = watch(duration, now=now)
    for after in sorted(early):  # being woken at other times changes nothing
        if now + after < now + duration:
            limits.handle_timeout(now=now + after)
    told = limits.events()
    for _ in range(4):
        due = limits.next_timeout()
        if due is None:
            break
        limits.handle_timeout(now=due)
        told += limits.events()
    assert limits.next_timeout() is None
    assert [type(event) for event in told][-2:] == [LimitReached, GoodbyeMissing]
    assert len(told) <= 3
