"""Whose packets are trusted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.source import SourceLock, is_inside, is_unspecified

SIGNALLED = ("203.0.113.20", 25540)
INSIDE = ("192.168.1.50", 7078)
REAL = ("203.0.113.60", 41822)
STRAY = ("198.51.100.200", 9999)


def lock_of(address=SIGNALLED, **options) -> SourceLock:
    lock = SourceLock(**options)
    assert lock.signal(address, 0.0)
    return lock


def send(
    lock: SourceLock, source, count: int = 1, *, first: int = 100, ssrc: int = 7, now: float = 0.0
) -> int:
    """Send packets in a row; return how many are heard."""
    return sum(
        lock.admits(source, now + number * 0.02, ssrc=ssrc, sequence=first + number & 0xFFFF, follows=False)
        for number in range(count)
    )


def test_before_the_first_packet_we_send_where_we_were_told_to() -> None:
    assert lock_of().destination == SIGNALLED
    assert SourceLock().destination is None


def test_the_signalled_address_is_right_with_its_first_packet() -> None:
    lock = lock_of()
    assert send(lock, SIGNALLED) == 1
    assert lock.sure == SIGNALLED
    assert send(lock, STRAY, 50) == 0


@pytest.mark.report("BR-061")
def test_behind_nat_the_first_source_is_answered_at_once_and_a_stray_packet_does_not_move_it() -> None:
    lock = lock_of(INSIDE)
    assert send(lock, REAL) == 1
    assert lock.destination == REAL
    assert send(lock, STRAY, ssrc=99) == 0
    assert send(lock, REAL, 3, first=101) == 3
    assert lock.sure == REAL
    assert send(lock, STRAY, 50, ssrc=99) == 0
    assert lock.destination == REAL


def test_another_port_of_the_same_host_is_believed_at_once() -> None:
    lock = lock_of()
    assert send(lock, (SIGNALLED[0], 30_000)) == 1


def test_another_host_needs_three_packets_in_a_row_where_the_signalled_one_can_be_reached() -> None:
    lock = lock_of()
    assert send(lock, REAL, 5) == 3
    assert lock.destination == REAL


@pytest.mark.parametrize("sequences", [[1, 2, 900, 901, 5, 6], [1, 1, 1, 1], [9, 8, 7, 6]])
def test_packets_that_do_not_follow_each_other_lock_nothing(sequences) -> None:
    lock = lock_of()
    heard = [lock.admits(REAL, 0.0, ssrc=7, sequence=each, follows=False) for each in sequences]
    assert not any(heard)
    assert not lock.locked


def test_packets_in_a_row_come_in_a_second() -> None:
    lock = lock_of()
    assert not any(
        lock.admits(REAL, number * 0.6, ssrc=7, sequence=number, follows=False) for number in range(9)
    )


@pytest.mark.report("BR-161")
def test_a_flood_of_random_streams_never_takes_the_call_even_if_its_first_packet_was_first() -> None:
    lock = lock_of(INSIDE)
    attacker = ("198.51.100.66", 40_000)
    assert send(lock, attacker, ssrc=1) == 1  # it came before the caller's first packet
    for number in range(200):
        send(lock, attacker, ssrc=2 + number, first=number * 7919)
        send(lock, REAL, 3, first=100 + 3 * number, now=number * 0.06)
    assert lock.sure == REAL


def test_strict_means_the_signalled_host_and_no_other() -> None:
    lock = lock_of(strict=True)
    assert send(lock, REAL, 10) == 0
    assert send(lock, (SIGNALLED[0], 30_000)) == 1
    assert not lock.admits(REAL, 1.0, ssrc=7, sequence=101, follows=True)
    assert lock.destination == SIGNALLED  # a peer that sends from one port and receives on another


@pytest.mark.report("BR-170")
@pytest.mark.parametrize("signalled", [INSIDE, SIGNALLED, STRAY])
def test_the_stream_of_the_call_before_on_this_port_is_never_heard(signalled) -> None:
    lock = lock_of(signalled, barred=99)
    assert send(lock, STRAY, 50, ssrc=99) == 0
    assert lock.locked is None
    assert send(lock, signalled, 3) == 3  # the same telephone in its next call


def test_a_telephone_whose_ssrc_never_changes_is_heard_again_after_a_second() -> None:
    lock = lock_of(SIGNALLED, barred=99)
    assert send(lock, SIGNALLED, 3, ssrc=99, now=0.5) == 0
    assert send(lock, STRAY, 3, ssrc=99, now=1.5) == 0
    assert send(lock, SIGNALLED, 3, first=150, ssrc=99, now=1.5) == 3


def test_a_stream_that_moves_takes_the_lock_with_it() -> None:
    lock = lock_of()
    assert send(lock, SIGNALLED, 3) == 3
    assert lock.admits(STRAY, 1.0, ssrc=7, sequence=103, follows=True)
    assert lock.destination == STRAY
    assert lock.moves == 1


def test_the_signalled_address_wins_over_whoever_was_first() -> None:
    lock = lock_of()
    assert send(lock, STRAY, 5) == 3
    assert send(lock, SIGNALLED, now=0.1) == 1
    assert lock.destination == SIGNALLED
    assert send(lock, STRAY, 5, first=105, now=0.2) == 0


def test_a_new_address_opens_the_lock_but_not_for_the_old_sources_last_packets() -> None:
    lock = lock_of()
    send(lock, REAL, 3)
    new = ("203.0.113.21", 25446)
    assert lock.signal(new, 10.0)
    assert lock.destination == new
    assert send(lock, REAL, 30, first=103, now=10.1) == 0
    assert send(lock, new, now=10.7) == 1


def test_a_peer_that_only_pretends_to_move_is_heard_again_after_a_second() -> None:
    lock = lock_of(INSIDE)
    send(lock, REAL, 3)
    lock.signal(("192.168.1.51", 25446), 10.0)
    assert send(lock, REAL, now=11.1) == 1


def test_the_same_address_or_that_of_a_hold_keeps_the_lock() -> None:
    lock = lock_of()
    send(lock, REAL, 3)
    assert not lock.signal(SIGNALLED, 5.0)
    assert not lock.signal(("0.0.0.0", 25540), 5.0)
    assert lock.destination == REAL
    assert is_unspecified(("::", 1))


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("10.1.2.3", True),
        ("100.64.0.1", True),
        ("fd00::1", True),
        ("203.0.113.20", False),
        ("2001:db8::1", False),
    ],
)
def test_which_addresses_mean_nothing_outside(host, inside) -> None:
    assert is_inside(host) is inside


def test_a_call_that_begins_on_hold_has_told_no_address() -> None:
    """c=0.0.0.0 in the first offer: whoever sends all the same needs three packets in a row."""
    lock = SourceLock()
    assert not lock.signal(("0.0.0.0", 25540), 0.0)
    assert send(lock, REAL, 5) == 3
    assert lock.signal(SIGNALLED, 1.0)
    assert send(lock, SIGNALLED, now=1.0) == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([REAL, STRAY, SIGNALLED]), st.integers(0, 300)), max_size=80))
def test_a_sure_source_is_only_ever_left_for_the_signalled_one(packets) -> None:
    lock = lock_of()
    for number, (source, sequence) in enumerate(packets):
        before = lock.sure
        lock.admits(source, number * 0.02, ssrc=7, sequence=sequence, follows=False)
        assert before is None or lock.sure in (before, SIGNALLED)
