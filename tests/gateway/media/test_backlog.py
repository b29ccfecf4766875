"""What waits between two lines stays little."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.media.backlog import LIMIT_MS, TARGET_MS, WINDOW, Backlog


def relayed(seconds, *, clock=1.0, pauses=()):
    """Relay frames into a line whose clock differs or stops; return what waited and what was lost."""
    backlog, waiting, log = Backlog(), 40.0, []
    for frame in range(int(seconds * 50)):
        if backlog.admits(waiting):
            waiting += 20
        if not any(start <= frame / 50 < end for start, end in pauses):
            waiting = max(0.0, waiting - 20 * clock)
        log.append(waiting)
    return log, backlog.dropped


def test_two_lines_of_one_clock_lose_nothing():
    log, dropped = relayed(600)

    assert dropped == 0
    assert max(log) == 40


def test_a_slower_listener_never_hears_ever_later():
    log, dropped = relayed(3600, clock=0.999)

    assert max(log) <= TARGET_MS + 60
    assert 170 <= dropped <= 190  # 3.6 s of one hour


def test_a_hold_leaves_no_delay_behind():
    log, _ = relayed(20, pauses=((2, 12),))

    assert max(log) <= LIMIT_MS + 20
    assert log[12 * 50 + 2 * WINDOW] <= TARGET_MS + 20


@settings(max_examples=100, deadline=None)
@given(
    clock=st.floats(0.98, 1.02),
    pauses=st.lists(
        st.tuples(st.floats(0, 20), st.floats(0, 2)).map(lambda p: (p[0], p[0] + p[1])), max_size=5
    ),
)
def test_whatever_stops_the_listener_the_delay_is_bounded_and_recovers(clock, pauses):
    log, _ = relayed(30, clock=clock, pauses=pauses)

    assert max(log) <= LIMIT_MS + 40
    assert min(log[-WINDOW:]) <= TARGET_MS + 40
