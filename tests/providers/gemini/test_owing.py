"""Dates of answers, and what is done when they pass."""

from __future__ import annotations

from providers.gemini.owing import Owing, Rejections, Remedy, Request


def test_a_date_that_passes_three_times_is_asked_moved_and_given_up() -> None:
    owing = Owing()
    owing.begin(0.0, 3.0, "Greet.")
    assert owing.handle_timeout(2.9) is None
    assert [owing.handle_timeout(now) for now in (3.0, 6.0, 9.0, 12.0)] == [
        Remedy.ASK,
        Remedy.MOVE,
        Remedy.GIVE_UP,
        None,
    ]
    assert not owing.open


def test_an_answer_forgives_what_passed_and_a_pause_does_not() -> None:
    owing = Owing()
    owing.begin(0.0, 3.0)
    owing.handle_timeout(3.0)
    owing.suspend()
    owing.begin(10.0, 3.0)
    assert owing.handle_timeout(13.0) is Remedy.MOVE
    owing.met()
    owing.begin(20.0, 3.0)
    assert owing.handle_timeout(23.0) is Remedy.ASK


def test_a_wait_that_begins_anew_is_as_long_as_before() -> None:
    owing = Owing()
    owing.again(5.0)
    assert owing.next_timeout() is None
    owing.begin(0.0, 3.0)
    owing.again(2.0)
    assert owing.next_timeout() == 5.0


def test_two_requests_become_one_with_all_their_words_and_the_tools_of_both() -> None:
    joined = Request("A.").joined(Request(None, tools=False)).joined(Request("B."))
    assert joined == Request("A.\nB.", tools=False)


def test_three_rejections_in_a_row_want_another_session_and_other_failures_do_not() -> None:
    rejections = Rejections()
    assert [rejections.failed(reason) for reason in ("stalled", "response_rejected", "stalled")] == [
        False
    ] * 3
    rejections.over()
    assert [rejections.failed("response_rejected") for _ in range(3)] == [False, False, True]
