from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.silence import Act, CallerSilence, SilenceLimits

LIMITS = SilenceLimits(nudge_after=10.0, nudges=2, hang_up_after=30.0)


def test_the_caller_is_asked_twice_and_then_taken_leave_of():
    silence = CallerSilence(LIMITS, now=100.0)
    assert silence.next_timeout() == 110.0
    assert silence.handle_timeout(now=109.9) is None
    assert silence.handle_timeout(now=110.0) is Act.NUDGE

    silence.active(now=113.0)  # the question was heard until then
    assert silence.next_timeout() == 123.0
    assert silence.handle_timeout(now=123.0) is Act.NUDGE
    silence.active(now=126.0)
    assert silence.handle_timeout(now=136.0) is Act.HANG_UP
    assert silence.next_timeout() is None


def test_a_caller_who_does_something_begins_it_anew():
    silence = CallerSilence(LIMITS, now=0.0)
    assert silence.handle_timeout(now=10.0) is Act.NUDGE
    silence.caller_active(now=15.0)
    assert silence.handle_timeout(now=24.9) is None
    assert silence.handle_timeout(now=25.0) is Act.NUDGE
    assert silence.handle_timeout(now=35.0) is Act.NUDGE
    assert silence.handle_timeout(now=45.0) is Act.HANG_UP


def test_what_is_told_late_does_not_turn_the_clock_back():
    silence = CallerSilence(LIMITS, now=50.0)
    silence.active(now=20.0)
    silence.caller_active(now=20.0)
    assert silence.next_timeout() == 60.0


def test_without_questions_only_the_end_comes():
    silence = CallerSilence(SilenceLimits(None, 2, 30.0), now=0.0)
    assert silence.handle_timeout(now=29.9) is None
    assert silence.handle_timeout(now=30.0) is Act.HANG_UP


def test_without_an_end_the_caller_is_only_asked():
    silence = CallerSilence(SilenceLimits(5.0, 1, None), now=0.0)
    assert silence.handle_timeout(now=5.0) is Act.NUDGE
    assert silence.next_timeout() is None


def test_an_end_that_comes_before_a_question_leaves_the_question_out():
    assert SilenceLimits(10.0, 3, 15.0).stages() == [(10.0, Act.NUDGE), (5.0, Act.HANG_UP)]
    assert SilenceLimits(10.0, 1, 10.0).stages() == [(10.0, Act.HANG_UP)]


def test_nothing_is_counted_after_the_end_of_it():
    silence = CallerSilence(LIMITS, now=0.0)
    silence.stop()
    assert silence.handle_timeout(now=1000.0) is None


@settings(max_examples=100, deadline=None)
@given(
    limits=st.builds(
        SilenceLimits,
        nudge_after=st.none() | st.floats(1, 60),
        nudges=st.integers(1, 5),
        hang_up_after=st.none() | st.floats(1, 120),
    ),
    steps=st.lists(st.tuples(st.sampled_from(["caller", "agent", "look"]), st.floats(0.05, 20)), max_size=60),
)
def test_nobody_is_hung_up_on_before_that_much_silence(limits, steps):
    now, silence = 0.0, CallerSilence(limits, now=0.0)
    caller_at, questions = 0.0, 0
    for what, after in steps:
        now += after
        match what:
            case "caller":
                silence.caller_active(now=now)
                caller_at, questions = now, 0
            case "agent":
                silence.active(now=now)
            case "look":
                act = silence.handle_timeout(now=now)
                if act is Act.NUDGE:
                    questions += 1
                    assert questions <= limits.nudges
                elif act is Act.HANG_UP:
                    assert now - caller_at >= limits.hang_up_after - 1e-6
                    break
