"""When a session moves, how long it tries, and when it is over."""

from __future__ import annotations

import pytest

from providers.gemini.resumption import Plan, Resumption


def with_handle() -> Resumption:
    made = Resumption(3420)
    made.begin(0.0)
    assert made.update("h-1", resumable=True)
    return made


def test_only_a_resumable_handle_is_kept() -> None:
    made = with_handle()
    assert not made.update("h-2", resumable=False)
    assert not made.update("", resumable=True)
    assert made.handle == "h-1"


def test_nothing_moves_without_a_reason_or_without_a_handle() -> None:
    assert not with_handle().due(1000.0, quiet=True)
    made = Resumption(3420)
    made.go_away(50, 0.0)
    assert not made.due(49.0, quiet=True)


def test_it_moves_at_the_first_quiet_moment_and_five_seconds_before_the_end_in_any_case() -> None:
    made = with_handle()
    made.go_away(50, 100.0)
    assert not made.due(101.0, quiet=False)
    assert made.due(101.0, quiet=True)
    assert not made.due(144.9, quiet=False)
    assert made.due(145.0, quiet=False)
    assert made.next_timeout() == 145.0
    made.opened(146.0)
    assert not made.due(200.0, quiet=True)


def test_a_server_that_sends_every_connection_away_does_not_hurry_us() -> None:
    made = with_handle()
    made.go_away(0, 100.0)
    assert made.due(100.0, quiet=False)
    made.opened(100.1)
    made.go_away(0, 100.2)
    stay = Plan().stay
    assert not made.due(100.2, quiet=True)
    assert made.next_timeout() == pytest.approx(100.1 + stay)
    assert made.due(100.1 + stay, quiet=False)


def test_a_going_away_without_a_time_is_taken_for_soon() -> None:
    made = with_handle()
    made.go_away(None, 0.0)
    assert made.due(Plan().warning - 5, quiet=False)


def test_an_end_that_cannot_be_resumed_is_told_once() -> None:
    made = Resumption(3420)
    made.begin(0.0)
    made.go_away(50, 10.0)
    assert made.ending(12.0) == 48.0
    assert made.ending(13.0) is None


def test_the_age_of_a_session_is_told_a_minute_before_its_limit() -> None:
    made = with_handle()
    assert made.next_timeout() == 3360.0
    assert made.ending(3359.9) is None
    assert made.ending(3360.0) == 60.0
    assert made.ending(3361.0) is None


def attempts(made: Resumption, *, cost: float = 0.1, refused: bool = False) -> list[float]:
    """When attempts begin that all fail after ``cost`` seconds."""
    now, began = 0.0, []
    while True:
        began.append(round(now, 2))
        now += cost
        wait = made.failed(now, refused=refused)
        if wait is None:
            return began
        now += wait


def test_the_waits_double_up_to_four_seconds_within_half_a_minute() -> None:
    made = with_handle()
    made.start(0.0, urgent=False)
    assert attempts(made) == [0.0, 0.6, 1.7, 3.8, 7.9, 12.0, 16.1, 20.2, 24.3, 28.4]


def test_a_handle_is_refused_twice_and_no_more() -> None:
    made = with_handle()
    made.start(0.0, urgent=False)
    assert attempts(made, refused=True) == [0.0, 0.6]


def test_who_waits_for_words_waits_for_one_attempt_of_a_second_and_a_half() -> None:
    made = with_handle()
    made.start(10.0, urgent=True)
    assert made.patience(10.0, 5.0) == 1.5
    assert made.patience(11.0, 5.0) == pytest.approx(0.5)
    assert made.patience(11.0, 0.2) == 0.2
    assert made.failed(10.1, refused=False) is None


def test_doubt_is_told_once_for_each_search() -> None:
    made = with_handle()
    made.start(0.0, urgent=False)
    assert made.doubt(1.0) == 29.0
    assert made.doubt(2.0) is None
    made.opened(90.0)
    made.start(100.0, urgent=False)
    assert made.doubt(100.0) == 30.0


def test_a_third_break_within_a_minute_is_the_sessions_own_fault() -> None:
    made = with_handle()
    assert [made.may_resume(now) for now in (0.0, 50.0, 61.0, 70.0)] == [True, True, True, False]
    assert not Resumption(3420).may_resume(0.0)
