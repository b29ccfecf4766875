import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.message import Headers, Request, Response
from gateway.sip.session_timer import (
    LARGEST,
    Refresher,
    SessionDue,
    SessionTimer,
    judge,
    min_se,
    session_expires,
)
from gateway.sip.settings import SessionTerms

TERMS = SessionTerms(interval=1800, min_se=90)
SUPPORTS = ("Supported", "timer")


def asks(*headers):
    return Request(Headers(headers), b"", "INVITE")


def says(*headers, status=200):
    return Response(Headers(headers), b"", status)


def value(headers, name="Session-Expires"):
    return dict(headers).get(name)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1800", (1800, "")),
        ("120;refresher=uac", (120, "uac")),
        (' 90 ; Refresher = "UAS" ;x=y', (90, "uas")),
        ("90;refresher=both", (90, "")),
        ("99999999999", (LARGEST, "")),
        ("", None),
        ("x", None),
        ("-1", None),
    ],
)
def test_reading_session_expires(text, read):
    assert session_expires(Headers([("x", text)])) == read


def test_min_se_is_90_or_more():
    assert (
        min_se(Headers()) == min_se(Headers([("Min-SE", "10")])) == min_se(Headers([("Min-SE", "?")])) == 90
    )
    assert min_se(Headers([("Min-SE", "300;x")])) == 300


@pytest.mark.report("BR-035")
def test_too_small_an_interval_is_422_with_min_se():
    refusal = judge(asks(SUPPORTS, ("Session-Expires", "30")), TERMS)

    assert (refusal.status, refusal.headers) == (422, (("Min-SE", "90"),))
    assert judge(asks(SUPPORTS, ("Session-Expires", "90")), TERMS) is None
    assert judge(asks(SUPPORTS), TERMS) is None


def test_who_does_not_know_timers_is_not_refused_for_a_proxys_interval():
    assert judge(asks(("Session-Expires", "30")), TERMS) is None
    assert judge(asks(SUPPORTS, ("Session-Expires", "30")), SessionTerms(interval=0)) is None


@pytest.mark.parametrize(
    ("headers", "expires", "refresher"),
    [
        ([SUPPORTS, ("Session-Expires", "600;refresher=uac")], "600;refresher=uac", Refresher.PEER),
        ([SUPPORTS, ("Session-Expires", "600;refresher=uas")], "600;refresher=uas", Refresher.US),
        ([SUPPORTS, ("Session-Expires", "600")], "600;refresher=uas", Refresher.US),
        ([SUPPORTS, ("Session-Expires", "7200")], "1800;refresher=uas", Refresher.US),
        ([SUPPORTS, ("Session-Expires", "7200"), ("Min-SE", "3600")], "3600;refresher=uas", Refresher.US),
        ([SUPPORTS], "1800;refresher=uas", Refresher.US),
    ],
)
def test_the_terms_of_our_2xx(headers, expires, refresher):
    timer = SessionTimer(TERMS)
    answer = timer.answer(asks(*headers), now=0.0)

    assert value(answer) == expires
    assert value(answer, "Require") == "timer"
    assert timer.refresher is refresher


def test_a_peer_without_timers_is_refreshed_by_us_and_nothing_is_required():
    timer = SessionTimer(TERMS)
    # A proxy put the interval in; only we can keep to it.
    answer = timer.answer(asks(("Session-Expires", "600;refresher=uac")), now=0.0)

    assert answer == (("Session-Expires", "600;refresher=uas"),)
    assert timer.next_timeout() == 300.0


@pytest.mark.parametrize("headers", [[], [("Session-Expires", "30")]])
def test_without_support_or_a_usable_interval_no_timer_runs(headers):
    timer = SessionTimer(TERMS)

    assert timer.answer(asks(*headers), now=0.0) == ()
    assert timer.next_timeout() is None


def test_with_timers_switched_off_nothing_is_ever_said():
    timer = SessionTimer(SessionTerms(interval=0))
    timer.accepted(says(("Session-Expires", "120;refresher=uac")), now=0.0)

    assert timer.answer(asks(SUPPORTS, ("Session-Expires", "600")), now=0.0) == ()
    assert timer.opening() == timer.refresh() == ()
    assert timer.next_timeout() is None
    assert not timer.raise_to(says(("Min-SE", "300"), status=422))


def test_the_refresher_refreshes_at_half_the_interval():
    timer = SessionTimer(TERMS)
    timer.answer(asks(SUPPORTS, ("Session-Expires", "600")), now=10.0)

    assert timer.due(309.9) is SessionDue.NOTHING
    assert timer.next_timeout() == 310.0
    assert timer.due(310.0) is SessionDue.REFRESH
    assert timer.due(310.0) is SessionDue.NOTHING  # asked for once
    assert timer.next_timeout() == 578.0  # 600 - 32 after the beginning
    assert timer.due(578.0) is SessionDue.EXPIRED
    assert timer.next_timeout() is None


@pytest.mark.parametrize(("interval", "bye_at"), [(1800, 1768.0), (96, 64.0), (90, 60.0)])
def test_where_the_peer_refreshes_the_bye_comes_before_the_end(interval, bye_at):
    timer = SessionTimer(TERMS)
    timer.answer(asks(SUPPORTS, ("Session-Expires", f"{interval};refresher=uac")), now=0.0)

    assert timer.next_timeout() == bye_at
    assert timer.due(bye_at) is SessionDue.EXPIRED


@pytest.mark.report("BR-009")
def test_a_refresh_without_any_terms_starts_the_same_timer_again():
    timer = SessionTimer(TERMS)
    timer.answer(asks(SUPPORTS, ("Session-Expires", "600;refresher=uac")), now=0.0)
    answer = timer.answer(asks(), now=100.0)

    assert value(answer) == "600;refresher=uac"
    assert timer.next_timeout() == 668.0


@pytest.mark.report("BR-027")
def test_a_2xx_may_make_us_the_refresher_though_we_asked_for_nothing():
    timer = SessionTimer(TERMS)
    timer.accepted(says(SUPPORTS, ("Session-Expires", "120;refresher=uac"), ("Require", "timer")), now=5.0)

    assert timer.next_timeout() == 65.0
    assert timer.due(65.0) is SessionDue.REFRESH
    assert value(timer.refresh()) == "120;refresher=uac"


def test_the_roles_of_a_2xx_to_ours():
    timer = SessionTimer(TERMS)
    timer.accepted(says(("Session-Expires", "120;refresher=uas")), now=0.0)
    assert (timer.refresher, timer.next_timeout()) == (Refresher.PEER, 88.0)
    assert value(timer.refresh()) == "120;refresher=uas"
    timer.accepted(says(("Session-Expires", "120")), now=0.0)
    assert (timer.refresher, timer.next_timeout()) == (Refresher.US, 60.0)
    timer.accepted(says(("Session-Expires", "4;refresher=uac")), now=0.0)
    assert timer.interval == 30


def test_a_2xx_without_terms_ends_the_peers_duty_and_not_ours():
    timer = SessionTimer(TERMS)
    timer.accepted(says(("Session-Expires", "120;refresher=uac")), now=0.0)
    timer.accepted(says(), now=60.0)
    assert timer.next_timeout() == 120.0
    timer.accepted(says(("Session-Expires", "120;refresher=uas")), now=60.0)
    timer.accepted(says(), now=70.0)
    assert timer.next_timeout() is None


def test_our_invite_leaves_the_refresher_open():
    assert SessionTimer(TERMS).opening() == (("Session-Expires", "1800"), ("Min-SE", "90"))
    assert SessionTimer(TERMS).refresh() == (("Session-Expires", "1800"), ("Min-SE", "90"))


def test_a_422_raises_what_we_ask_for_until_it_makes_no_sense():
    timer = SessionTimer(SessionTerms(interval=100, min_se=90))

    assert timer.raise_to(says(("Min-SE", "3600"), status=422))
    assert timer.opening() == (("Session-Expires", "3600"), ("Min-SE", "3600"))
    assert not timer.raise_to(says(("Min-SE", "3600"), status=422))
    assert not timer.raise_to(says(status=422))
    assert not timer.raise_to(says(("Min-SE", "9999"), status=500))


def test_a_refresh_is_tried_again_only_before_the_end():
    timer = SessionTimer(TERMS)
    timer.answer(asks(SUPPORTS, ("Session-Expires", "90")), now=0.0)
    assert timer.due(45.0) is SessionDue.REFRESH
    timer.retry(55.0)
    assert timer.next_timeout() == 55.0
    assert timer.due(55.0) is SessionDue.REFRESH
    timer.retry(65.0)
    assert timer.next_timeout() == 60.0
    assert timer.due(61.0) is SessionDue.EXPIRED
    timer.retry(70.0)
    assert timer.next_timeout() is None


def test_senseless_terms_are_a_mistake():
    for terms in ({"interval": 60}, {"interval": 100, "min_se": 101}, {"min_se": 30}):
        with pytest.raises(ValueError, match="Min-SE"):
            SessionTerms(**terms)


EXPIRES = st.builds(
    lambda seconds, role: ("Session-Expires", f"{seconds}{role}"),
    st.integers(0, 5000),
    st.sampled_from(["", ";refresher=uac", ";refresher=uas", ";refresher=x"]),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "accepted", "time"]),
        st.lists(st.one_of(EXPIRES, st.just(SUPPORTS), st.just(("Min-SE", "200"))), max_size=3),
        st.floats(0.0, 900.0),
    ),
    max_size=20,
)


@given(STEPS)
def test_the_timer_always_ends_or_is_refreshed_in_time(steps):
    timer, now = SessionTimer(TERMS), 0.0
    for step, headers, after in steps:
        now += after
        match step:
            case "answer":
                said = timer.answer(asks(*headers), now=now)
                assert bool(said) == bool(timer.interval)
                if said:
                    assert timer.interval >= 90
                    assert value(said).endswith("uas" if timer.refresher is Refresher.US else "uac")
            case "accepted":
                timer.accepted(says(*headers), now=now)
            case _:
                timer.due(now)
        at = timer.next_timeout()
        assert (at is None) == (timer.interval == 0)
        if at is not None and step != "time":
            share = 2 if timer.refresher is Refresher.US else 1
            assert now < at <= now + timer.interval / share
