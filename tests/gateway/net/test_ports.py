"""Leases of RTP port pairs, with real sockets on loopback."""

from __future__ import annotations

import os
import socket

import pytest

from gateway.net.ports import PortPool, PortsExhausted


@pytest.fixture
def first_port():
    """An even port at the start of eight that are free now."""
    for start in range(21000 + os.getpid() % 500 * 8, 32000, 8):
        socks = []
        try:
            for port in range(start, start + 8):
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                socks.append(sock)
                sock.bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for sock in socks:
                sock.close()
        return start
    raise AssertionError("no eight free ports")


def pool_of(first: int, *, last: int | None = None, quarantine_s: float = 5.0) -> PortPool:
    return PortPool(first, last or first + 7, quarantine_s=quarantine_s, host="127.0.0.1")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_lease_is_an_even_port_and_the_odd_one_above_bound(first_port) -> None:
    pool = pool_of(first_port + 1)
    lease = pool.lease(0.0)
    assert lease.port == first_port + 2
    assert pool.capacity == 3
    rtp, rtcp = lease.take_sockets()
    assert rtp.getsockname() == ("127.0.0.1", lease.port)
    assert rtcp.getsockname() == ("127.0.0.1", lease.port + 1)
    with pytest.raises(ValueError, match="gone"):
        lease.take_sockets()
    rtp.close()
    rtcp.close()
    lease.release(0.0)


@pytest.mark.report("BR-172")
def test_a_pair_whose_second_port_is_taken_is_skipped_without_a_leak(first_port) -> None:
    before = open_files()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", first_port + 3))
        pool = pool_of(first_port)
        leases = [pool.lease(0.0) for _ in range(3)]
        assert [lease.port - first_port for lease in leases] == [0, 4, 6]
        assert pool.leased == 3
        for _ in range(6):
            with pytest.raises(PortsExhausted, match="3 pairs leased, 0 resting, 1 taken"):
                pool.lease(0.0)
        assert open_files() == before + 1 + 6
    for lease in leases:
        lease.release(1.0)
    assert pool.leased == 0
    assert open_files() == before
    again = [pool.lease(6.0) for _ in range(4)]
    assert sorted(lease.port - first_port for lease in again) == [0, 2, 4, 6]
    for lease in again:
        lease.release(6.0)


@pytest.mark.report("BR-170")
def test_a_released_pair_rests_before_it_is_leased_again(first_port) -> None:
    pool = pool_of(first_port, last=first_port + 1)
    lease = pool.lease(0.0)
    lease.release(10.0)
    with pytest.raises(PortsExhausted, match="1 resting"):
        pool.lease(14.9)
    again = pool.lease(15.0)
    assert again.port == lease.port
    again.release(15.0)


def test_a_second_release_is_harmless(first_port) -> None:
    pool = pool_of(first_port, last=first_port + 1, quarantine_s=0)
    lease = pool.lease(0.0)
    lease.release(0.0)
    second = pool.lease(0.0)
    lease.release(0.0)
    assert pool.leased == 1
    second.release(0.0)
    assert pool.leased == 0


def test_the_pair_that_rested_longest_is_taken_first(first_port) -> None:
    pool = pool_of(first_port, quarantine_s=0)
    ports = []
    for _ in range(5):
        lease = pool.lease(0.0)
        ports.append(lease.port - first_port)
        lease.release(0.0)
    assert ports == [0, 2, 4, 6, 0]


def test_ipv6_pairs_can_be_leased(first_port) -> None:
    pool = PortPool(first_port, first_port + 7, host="::1")
    lease = pool.lease(0.0)
    rtp, rtcp = lease.take_sockets()
    assert rtp.family == rtcp.family == socket.AF_INET6
    rtp.close()
    rtcp.close()
    lease.release(0.0)


def test_a_pool_of_ipv4_leases_a_pair_for_a_call_over_ipv6(first_port) -> None:
    pool = pool_of(first_port)
    lease = pool.lease(0.0, "::")
    rtp, rtcp = lease.take_sockets()
    assert rtp.family == rtcp.family == socket.AF_INET6
    assert (rtp.getsockname()[:2], rtcp.getsockname()[:2]) == (("::", lease.port), ("::", lease.port + 1))
    rtp.close()
    rtcp.close()
    lease.release(0.0)
