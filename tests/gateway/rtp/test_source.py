"""Whose packets are trusted."""

from __future__ import annotations

from gateway.rtp.source import SourceLock, is_unspecified

SIGNALLED = ("203.0.113.20", 25540)
REAL = ("203.0.113.60", 41822)
STRAY = ("198.51.100.200", 9999)


def lock_of(address=SIGNALLED) -> SourceLock:
    lock = SourceLock()
    assert lock.signal(address, 0.0)
    return lock


def test_before_the_first_packet_we_send_where_we_were_told_to() -> None:
    assert lock_of().destination == SIGNALLED
    assert SourceLock().destination is None


def test_the_first_source_is_locked_and_a_stray_one_is_not_heard() -> None:
    lock = lock_of()
    assert lock.admits(REAL, 0.0, follows=False)
    assert lock.destination == REAL
    assert not lock.admits(STRAY, 1.0, follows=False)
    assert lock.admits(REAL, 1.0, follows=False)


def test_a_stream_that_moves_takes_the_lock_with_it() -> None:
    lock = lock_of()
    assert lock.admits(SIGNALLED, 0.0, follows=False)
    assert lock.admits(STRAY, 1.0, follows=True)
    assert lock.destination == STRAY


def test_the_signalled_address_wins_over_whoever_was_first() -> None:
    lock = lock_of()
    assert lock.admits(STRAY, 0.0, follows=False)
    assert lock.admits(SIGNALLED, 0.1, follows=False)
    assert lock.destination == SIGNALLED
    assert not lock.admits(STRAY, 0.2, follows=False)


def test_a_new_address_opens_the_lock_but_not_for_the_old_sources_last_packets() -> None:
    lock = lock_of()
    lock.admits(REAL, 0.0, follows=False)
    new = ("203.0.113.21", 25446)
    assert lock.signal(new, 10.0)
    assert lock.destination == new
    assert not lock.admits(REAL, 10.1, follows=False)
    assert lock.admits(STRAY, 10.2, follows=False)


def test_a_peer_that_only_pretends_to_move_is_heard_again_after_a_second() -> None:
    lock = lock_of()
    lock.admits(REAL, 0.0, follows=False)
    lock.signal(("203.0.113.21", 25446), 10.0)
    assert lock.admits(REAL, 11.1, follows=False)


def test_the_same_address_or_that_of_a_hold_keeps_the_lock() -> None:
    lock = lock_of()
    lock.admits(REAL, 0.0, follows=False)
    assert not lock.signal(SIGNALLED, 5.0)
    assert not lock.signal(("0.0.0.0", 25540), 5.0)
    assert lock.destination == REAL
    assert is_unspecified(("::", 1))
