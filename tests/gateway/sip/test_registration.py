import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sip.message import Headers
from gateway.sip.registration import (
    MAX_S,
    REFUSED_S,
    RefreshFailed,
    Register,
    Registered,
    Registration,
    RegistrationFailed,
    RegistrationState,
    SeenFrom,
    Unregistered,
    granted_to,
    refresh_after,
)

USER = "t0k3n"
NOTHING = Headers()


def make(*, expires=600, spread=1.0):
    return Registration(user=USER, expires=expires, spread=lambda: spread)


def contact(expires, user=USER):
    return Headers([("Contact", f"<sip:{user}@192.0.2.1:5060>;expires={expires}")])


def registered(*, granted=600, now=0.0, **options):
    registration = make(**options)
    registration.start(now=now)
    registration.to_send()
    registration.answered(200, "OK", contact(granted), now=now)
    registration.events()
    return registration


def fail(registration, status, *, now, headers=NOTHING):
    registration.answered(status, "x", headers, now=now)
    return registration.events()


def test_a_registration_is_refreshed_at_half_of_what_was_granted_to_our_own_contact():
    registration = make()
    registration.start(now=0.0)
    assert registration.to_send() == [Register(600)]
    assert registration.state is RegistrationState.REGISTERING
    answer = Headers(
        [
            ("Contact", "<sip:somebody@198.51.100.9>;expires=30, <sip:t0k3n@192.0.2.1:5060>;expires=120"),
            ("Expires", "900"),
        ]
    )
    registration.answered(200, "OK", answer, now=0.1)

    assert registration.events() == [Registered(120)]
    assert registration.next_timeout() == pytest.approx(60.1)
    registration.handle_timeout(now=60.0)
    assert registration.to_send() == []
    registration.handle_timeout(now=60.1)
    assert registration.to_send() == [Register(600)]
    registration.answered(200, "OK", answer, now=60.2)
    assert registration.events() == []
    assert registration.next_timeout() == pytest.approx(120.2)


@pytest.mark.parametrize(
    ("headers", "granted"),
    [
        ([("Contact", "<sip:t0k3n@192.0.2.1>;expires=120")], 120),
        ([("Contact", "<sip:t0k3n@192.0.2.1>"), ("Expires", "300")], 300),
        ([("Contact", "<sip:other@192.0.2.1>;expires=20"), ("Expires", "300")], 300),
        ([("m", '"x" <sip:t0k3n@203.0.113.5:1024;ob>;q=0.5;EXPIRES=77')], 77),
        ([("Contact", "<sip:t0k3n@192.0.2.1>;expires=soon"), ("Expires", "300 (about)")], 300),
        ([("Contact", "*broken")], None),
        ([], None),
    ],
)
def test_what_was_granted_stands_at_our_contact_or_in_expires(headers, granted):
    assert granted_to(USER, Headers(headers)) == granted


def test_a_registrar_that_says_nothing_of_the_time_granted_what_was_asked():
    registration = make(expires=300)
    registration.start(now=0.0)
    registration.answered(200, "OK", NOTHING, now=0.0)
    assert registration.events() == [Registered(300)]


@pytest.mark.parametrize(("granted", "after"), [(1, 1), (60, 30), (1200, 600), (1201, 601), (3600, 3000)])
def test_long_registrations_are_refreshed_ten_minutes_before_their_end(granted, after):
    assert refresh_after(granted) == after


def test_no_time_at_all_is_a_refusal():
    registration = make()
    registration.start(now=0.0)
    assert isinstance(fail(registration, 200, now=0.0, headers=contact(0))[0], RegistrationFailed)


def test_423_is_asked_again_at_once_with_the_least_time_and_remembered():
    registration = make(expires=600)
    registration.start(now=0.0)
    registration.to_send()
    registration.answered(423, "Interval Too Brief", Headers([("Min-Expires", "1800")]), now=0.1)
    assert registration.to_send() == [Register(1800)]
    registration.answered(200, "OK", contact(1800), now=0.2)
    registration.handle_timeout(now=1200.2)
    assert registration.to_send() == [Register(1800)]


@pytest.mark.parametrize("least", ["60", "600", "9999999", "nonsense", None])
def test_a_423_that_asks_for_no_more_than_we_did_is_a_failure_and_no_loop(least):
    registration = make(expires=600)
    registration.start(now=0.0)
    registration.to_send()
    headers = Headers([("Min-Expires", least)] if least else [])
    [failed] = fail(registration, 423, now=0.0, headers=headers)
    assert failed.status == 423
    assert registration.to_send() == []


def test_silence_is_tried_again_after_a_time_that_doubles_to_half_an_hour():
    registration = make(spread=1.0)
    now, waits = 0.0, []
    registration.start(now=now)
    for _ in range(8):
        [failed] = fail(registration, 408, now=now)
        waits.append(failed.retry_after)
        now = registration.next_timeout()
        registration.handle_timeout(now=now)
        assert registration.to_send()[-1] == Register(600)
    assert waits == [60, 120, 240, 480, 960, MAX_S, MAX_S, MAX_S]


def test_the_back_off_is_spread_over_its_lower_half_and_begins_anew_after_a_success():
    registration = make(spread=0.0)
    registration.start(now=0.0)
    assert fail(registration, 500, now=0.0)[0].retry_after == 30
    registration.handle_timeout(now=30.0)
    assert fail(registration, 500, now=30.0)[0].retry_after == 60
    registration.handle_timeout(now=90.0)
    registration.answered(200, "OK", contact(600), now=90.0)
    registration.events()
    registration.handle_timeout(now=390.0)
    registration.answered(408, "", NOTHING, now=690.0)  # the registration ran out meanwhile
    assert [event.retry_after for event in registration.events()] == [30]


@pytest.mark.parametrize("status", [301, 401, 403, 404, 407, 420, 603])
def test_what_only_a_person_can_mend_is_tried_rarely(status):
    registration = make(spread=0.0)
    registration.start(now=0.0)
    assert fail(registration, status, now=0.0)[0].retry_after == REFUSED_S


def test_retry_after_is_waited_for_but_not_for_ever():
    registration = make(spread=0.0)
    registration.start(now=0.0)
    assert (
        fail(registration, 503, now=0.0, headers=Headers([("Retry-After", "300 (maintenance);duration=9")]))[
            0
        ].retry_after
        == 300
    )
    registration.handle_timeout(now=300.0)
    far = Headers([("Retry-After", "9999999")])
    assert fail(registration, 503, now=300.0, headers=far)[0].retry_after == 86_400


def test_a_refresh_that_fails_leaves_the_registration_until_it_runs_out():
    registration = registered(granted=600, spread=0.0)
    registration.handle_timeout(now=300.0)
    [event] = fail(registration, 503, now=310.0)
    assert event == RefreshFailed(503, "x", 290)
    assert registration.is_valid

    tries = []
    while registration.is_valid:
        now = registration.next_timeout()
        registration.handle_timeout(now=now)
        if registration.to_send():
            tries.append(now)
            registration.answered(503, "x", NOTHING, now=now)
    assert now == 600.0
    assert [type(event) for event in registration.events()][-1] is RegistrationFailed
    assert 3 <= len(tries) <= 12


def test_a_refresh_without_an_answer_in_time_ends_the_registration():
    registration = registered(granted=60)
    registration.handle_timeout(now=30.0)
    assert registration.next_timeout() == 60.0
    registration.handle_timeout(now=60.0)
    [failed] = registration.events()
    assert (failed.status, failed.reason) == (408, "it ran out before it was refreshed")
    registration.answered(200, "OK", contact(60), now=61.0)
    assert registration.events() == [Registered(60)]


def test_a_refresh_that_is_forbidden_ends_the_registration_at_once():
    registration = registered()
    registration.handle_timeout(now=300.0)
    [failed] = fail(registration, 403, now=300.1)
    assert isinstance(failed, RegistrationFailed)
    assert not registration.is_valid


def test_a_lost_connection_is_registered_anew():
    registration = registered()
    registration.renew(now=100.0, at_once=False)
    registration.handle_timeout(now=100.0)
    assert registration.to_send() == [Register(600)]

    registration.renew(
        now=100.5, at_once=False
    )  # before the answer: it may have gone down with the connection
    registration.answered(200, "OK", contact(600), now=101.0)
    assert registration.next_timeout() == 131.0


def test_a_registrar_that_closes_each_connection_is_not_asked_without_a_pause():
    registration = registered()
    registration.renew(now=0.5, at_once=False)
    assert registration.next_timeout() == 30.0


def test_a_registrar_that_is_back_is_asked_at_once_unless_it_had_refused():
    registration = make()
    registration.start(now=0.0)
    fail(registration, 408, now=0.0)
    registration.renew(now=5.0, at_once=False)
    assert registration.next_timeout() == 5.0

    registration.handle_timeout(now=5.0)
    [refused] = fail(registration, 403, now=5.0)
    registration.renew(now=6.0, at_once=False)
    assert registration.next_timeout() == 5.0 + refused.retry_after


def test_stopping_takes_the_contact_away():
    registration = registered()
    registration.stop()
    assert registration.to_send() == [Register(0)]
    assert registration.state is RegistrationState.UNREGISTERING
    registration.answered(200, "OK", NOTHING, now=1.0)
    assert registration.events() == [Unregistered(200)]
    assert (registration.state, registration.next_timeout()) == (RegistrationState.IDLE, None)


def test_stopping_while_it_registers_waits_for_the_answer_first():
    registration = make()
    registration.start(now=0.0)
    registration.to_send()
    registration.stop()
    assert registration.to_send() == []
    registration.answered(200, "OK", contact(600), now=1.0)
    assert registration.to_send() == [Register(0)]
    registration.answered(408, "timeout", NOTHING, now=2.0)
    assert registration.events() == [Unregistered(408)]


def test_stopping_while_a_late_answer_is_awaited_takes_away_what_it_may_bring():
    registration = registered(granted=60)
    registration.handle_timeout(now=30.0)
    registration.to_send()
    registration.handle_timeout(now=60.0)
    registration.events()
    registration.stop()
    assert registration.state is RegistrationState.UNREGISTERING
    registration.answered(200, "OK", contact(60), now=61.0)
    assert registration.to_send() == [Register(0)]


def test_after_an_outage_nobody_waits():
    registration = registered()
    registration.renew(now=0.5, at_once=True)
    assert registration.next_timeout() == 0.5


def test_a_renewal_is_never_later_than_the_refresh():
    registration = registered(granted=20)
    registration.renew(now=1.0, at_once=False)
    assert registration.next_timeout() == 10.0


def test_stopping_what_is_not_registered_is_done_at_once():
    registration = make()
    registration.start(now=0.0)
    registration.to_send()
    registration.answered(403, "x", NOTHING, now=0.0)
    registration.events()
    registration.stop()
    assert registration.to_send() == []
    assert registration.events() == [Unregistered(200)]


def test_the_address_that_the_registrar_sees_is_told_once():
    registration = make()
    registration.start(now=0.0)
    via = "SIP/2.0/UDP 10.0.0.2:5060;branch=z9hG4bK1;rport=1024;received=203.0.113.9"
    headers = Headers([("Via", via), ("Contact", "<sip:t0k3n@10.0.0.2>;expires=60")])
    registration.answered(200, "OK", headers, now=0.0)
    assert registration.events() == [SeenFrom("203.0.113.9", 1024, ("10.0.0.2", 5060)), Registered(60)]
    registration.handle_timeout(now=30.0)
    registration.answered(200, "OK", headers, now=30.0)
    assert registration.events() == []
    registration.handle_timeout(now=60.0)
    registration.answered(200, "OK", Headers([("Via", via.replace("1024", "1025"))]), now=60.0)
    assert registration.events() == [SeenFrom("203.0.113.9", 1025, ("10.0.0.2", 5060))]


STEPS = st.one_of(
    st.tuples(
        st.just("answer"),
        st.sampled_from([200, 301, 401, 403, 408, 423, 500, 503, 600]),
        st.integers(0, 4000),
    ),
    st.tuples(st.just("time"), st.just(0), st.integers(0, 4000)),
    st.tuples(st.just("lost"), st.just(0), st.just(0)),
    st.tuples(st.just("stop"), st.just(0), st.just(0)),
)


@given(st.lists(STEPS, max_size=40))
@settings(max_examples=100, deadline=None)
def test_there_is_never_more_than_one_register_under_way_nor_a_registration_without_a_next_step(steps):
    registration = make(spread=0.5)
    registration.start(now=0.0)
    under_way, now, stopped = len(registration.to_send()), 0.0, False
    for step, status, amount in steps:
        match step:
            case "answer" if under_way:
                headers = Headers(
                    [*contact(amount), ("Min-Expires", str(amount)), ("Retry-After", str(amount))]
                )
                registration.answered(status, "x", headers, now=now)
                under_way = 0
            case "time":
                now += amount
                registration.handle_timeout(now=now)
            case "lost":
                registration.renew(now=now, at_once=False)
            case "stop" if not stopped:
                stopped = True
                registration.stop()
        under_way += len(registration.to_send())
        assert under_way <= 1
        assert under_way or stopped or registration.next_timeout() is not None
        assert not (stopped and registration.is_valid)
