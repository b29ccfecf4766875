import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.recovery import BreakerSettings
from providers.failover import (
    MAX_CHARACTERS,
    MAX_ITEMS,
    PROBE_S,
    BreakerChanged,
    BreakerState,
    Failover,
    History,
)
from providers.types import Said, ToolUsed
from tools.types import ToolCall

SETTINGS = BreakerSettings(failures=3, within_s=60, pause_s=10, longest_pause_s=35)
BOTH = ("openai", "gemini")


@pytest.fixture
def failover():
    return Failover(SETTINGS)


def fail(failover, name, *moments):
    for now in moments:
        failover.begin(name, now)
        failover.failed(name, now, code="1011")


def test_providers_are_tried_in_the_agents_order(failover):
    assert failover.order(BOTH, 0.0) == ["openai", "gemini"]


def test_a_provider_that_failed_three_times_in_a_row_is_left_alone(failover):
    fail(failover, "openai", 1.0, 2.0)
    assert failover.order(BOTH, 2.0) == ["openai", "gemini"]
    assert failover.changes() == []

    fail(failover, "openai", 3.0)
    assert failover.order(BOTH, 3.0) == ["gemini"]
    assert failover.changes() == [BreakerChanged("openai", BreakerState.OPEN, "1011", 10.0)]
    assert failover.states(3.0) == {"openai": BreakerState.OPEN, "gemini": BreakerState.CLOSED}
    assert failover.failures() == {"openai": 3, "gemini": 0}


def test_a_success_between_failures_starts_the_count_anew(failover):
    fail(failover, "openai", 1.0, 2.0)
    failover.succeeded("openai")
    fail(failover, "openai", 3.0, 4.0)

    assert failover.order(BOTH, 4.0) == ["openai", "gemini"]


def test_failures_that_lie_far_apart_are_no_outage(failover):
    fail(failover, "openai", 0.0, 50.0, 61.0)

    assert failover.order(BOTH, 61.0) == ["openai", "gemini"]


def test_after_the_pause_one_call_tries_it_and_the_others_do_not(failover):
    fail(failover, "openai", 0.0, 0.0, 0.0)
    assert failover.order(BOTH, 9.9) == ["gemini"]

    assert failover.order(BOTH, 10.0) == ["openai", "gemini"]
    failover.begin("openai", 10.0)
    assert failover.order(BOTH, 10.1) == ["gemini"]


def test_the_try_of_a_caller_who_hung_up_is_free_for_the_next(failover):
    fail(failover, "openai", 0.0, 0.0, 0.0)
    failover.begin("openai", 10.0)
    failover.abandoned("openai")

    assert failover.order(BOTH, 10.1) == ["openai", "gemini"]


def test_a_try_of_which_nobody_speaks_again_is_forgotten(failover):
    fail(failover, "openai", 0.0, 0.0, 0.0)
    failover.begin("openai", 10.0)

    assert failover.order(BOTH, 10.0 + PROBE_S) == ["openai", "gemini"]


def test_a_try_that_succeeds_closes_the_breaker(failover):
    fail(failover, "openai", 0.0, 0.0, 0.0)
    failover.changes()
    failover.begin("openai", 10.0)
    failover.succeeded("openai")

    assert failover.order(BOTH, 10.0) == ["openai", "gemini"]
    assert failover.changes() == [BreakerChanged("openai", BreakerState.CLOSED)]


def test_each_try_that_fails_doubles_the_pause_up_to_the_longest(failover):
    fail(failover, "openai", 0.0, 0.0, 0.0)
    fail(failover, "openai", 10.0)
    assert failover.order(BOTH, 29.9) == ["gemini"]
    fail(failover, "openai", 30.0)

    assert [change.pause_s for change in failover.changes()] == [10.0, 20.0, 35.0]
    assert failover.order(BOTH, 64.9) == ["gemini"]
    assert failover.order(BOTH, 65.0) == ["openai", "gemini"]


def test_calls_that_were_lost_together_open_the_breaker_once(failover):
    fail(failover, "openai", *[0.0] * 100)

    assert len(failover.changes()) == 1
    assert failover.order(BOTH, 10.0) == ["openai", "gemini"]


@pytest.mark.report("BR-116")
def test_when_all_are_left_alone_all_are_tried(failover):
    for name in BOTH:
        fail(failover, name, 0.0, 0.0, 0.0)

    assert failover.order(BOTH, 1.0) == ["openai", "gemini"]


def test_a_caller_in_mid_call_is_nobody_to_try_things_out_with(failover):
    fail(failover, "openai", 0.0, 0.0, 0.0)

    assert failover.order(BOTH, 10.0, urgent=True) == ["gemini", "openai"]
    assert failover.order(("gemini", "openai"), 10.0, urgent=True) == ["gemini", "openai"]


def test_a_provider_with_new_settings_begins_anew(failover):
    for name in BOTH:
        fail(failover, name, 0.0, 0.0, 0.0)
    failover.keep(["gemini"])

    assert failover.order(BOTH, 1.0) == ["openai"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "succeeded", "failed", "abandoned"]),
            st.sampled_from(BOTH),
            st.floats(0, 30),
        ),
        max_size=60,
    )
)
@settings(max_examples=100, deadline=None)
def test_whatever_happens_somebody_is_tried_and_an_open_breaker_lets_go_in_time(steps):
    failover, now = Failover(SETTINGS), 0.0
    for what, name, after in steps:
        now += after
        match what:
            case "begin":
                failover.begin(name, now)
            case "succeeded":
                failover.succeeded(name)
                assert failover.states(now)[name] is BreakerState.CLOSED
            case "failed":
                failover.failed(name, now, code="x")
            case "abandoned":
                failover.abandoned(name)
        for urgent in (False, True):
            order = failover.order(BOTH, now, urgent=urgent)
            assert order
            assert set(order) <= set(BOTH)
    assert set(failover.order(BOTH, now + SETTINGS.longest_pause_s + PROBE_S)) == set(BOTH)


# What a session that takes over is told.


def call(number, arguments="{}"):
    return ToolCall(f"c{number}", "lookup", arguments)


def test_a_history_stands_in_the_order_in_which_things_began():
    history = History()
    history.agent("a1", "")
    history.caller("u1", "")
    history.asked(call(1))
    history.agent("a2", "You are")
    history.caller("u1", "Who am I?")
    history.answered("c1", "Ada")
    history.agent("a1", "Hello.")

    assert history.items() == (
        Said("agent", "Hello."),
        Said("caller", "Who am I?"),
        ToolUsed(call(1), "Ada"),
        Said("agent", "You are"),
    )


def test_what_has_no_words_and_no_answer_yet_is_left_out():
    history = History()
    history.caller("u1", "")
    history.asked(call(1))

    assert history.items() == ()


def test_a_tool_is_answered_once_and_unknown_ones_never():
    history = History()
    history.asked(call(1))
    history.answered("c1", "first")
    history.answered("c1", "second")
    history.answered("c2", "nobody asked")

    assert history.items() == (ToolUsed(call(1), "first"),)


def test_what_was_really_heard_replaces_what_was_to_be_heard():
    history = History()
    history.agent("a1", "A long story that goes on")
    history.agent("a1", "A long")

    assert history.items() == (Said("agent", "A long"),)


def test_what_came_after_a_version_can_be_told_apart():
    history = History()
    history.caller("u1", "My number is 4711.")
    history.asked(call(1))
    told = history.version
    assert history.items(after=told) == ()

    history.answered("c1", "found")
    history.caller("u1", "My number is 4711.")
    assert history.items(after=told) == (ToolUsed(call(1), "found"),)


def test_the_oldest_goes_first_when_a_history_is_too_long():
    history = History()
    for number in range(MAX_ITEMS + 10):
        history.text(Said("system", str(number)))

    texts = [item.text for item in history.items()]
    assert texts == [str(number) for number in range(10, MAX_ITEMS + 10)]


def test_no_more_is_carried_over_than_a_context_window_has_room_for():
    history = History()
    for number in range(10):
        history.caller(f"u{number}", str(number) * (MAX_CHARACTERS // 4))

    assert [item.text[0] for item in history.items()] == ["6", "7", "8", "9"]
    history.caller("huge", "h" * (MAX_CHARACTERS * 2))
    assert len(history.items()) == 1
