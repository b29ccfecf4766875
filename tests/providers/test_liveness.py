"""A server that fell silent is asked; one that used to answer and does not is given up."""

from providers.liveness import Liveness


def asked(liveness: Liveness, *moments: float) -> list[float]:
    return [now for now in moments if liveness.handle_timeout(now)]


def proven() -> Liveness:
    liveness = Liveness(first=1, quiet=10, wait=8)
    liveness.begin(0.0)
    assert asked(liveness, 0.9, 1.0, 1.1) == [1.0]
    liveness.answered(1.2)
    return liveness


def test_a_server_that_stops_answering_is_given_up():
    liveness = proven()
    assert asked(liveness, 5.0, 11.1, 11.2, 15.0) == [11.2]
    assert not liveness.dead
    assert asked(liveness, 19.2) == []
    assert liveness.dead
    assert liveness.next_timeout() is None


def test_a_server_that_speaks_is_not_asked():
    liveness = proven()
    liveness.heard(9.0)
    assert asked(liveness, 11.2) == []
    assert liveness.next_timeout() == 19.0


def test_a_server_that_answers_is_asked_again_after_the_next_silence():
    liveness = proven()
    assert asked(liveness, 11.2) == [11.2]
    liveness.answered(11.3)
    assert asked(liveness, 19.2, 21.2, 21.3) == [21.3]
    assert not liveness.dead


def test_a_server_that_says_something_else_instead_is_alive():
    liveness = proven()
    assert asked(liveness, 11.2) == [11.2]
    liveness.heard(12.0)
    assert asked(liveness, 19.2, 22.0) == [22.0]
    assert not liveness.dead


def test_a_server_that_never_knew_the_question_is_not_judged():
    liveness = Liveness(first=1, quiet=10, wait=8)
    liveness.begin(0.0)
    assert asked(liveness, 1.0, 9.0, 30.0) == [1.0]
    assert not liveness.dead
