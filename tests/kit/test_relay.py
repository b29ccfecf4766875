"""The bad network does what it is told, and counts it."""

from __future__ import annotations

import time

import pytest

from tests.kit.ports import Ports
from tests.kit.relay import CLEAR, Counts, Relay, Weather, _Direction
from tests.kit.udp import drain, udp

BAD = Weather(loss=0.1, jitter_ms=20.0, held_back=0.05, twice=0.05, delay_ms=1.0)


def received(sock, count: int, seconds: float = 5.0) -> list[tuple[bytes, tuple[str, int]]]:
    found, end = [], time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        found += [(data, source) for _, data, source in drain(sock)]
        time.sleep(0.002)
    return found


@pytest.fixture
def ports():
    with Ports() as ports:
        yield ports


def test_in_clear_weather_everything_passes_both_ways_in_order(ports) -> None:
    with Relay(1, ports) as relay, udp(ports.take(2)) as phone, udp(ports.take(2)) as gateway:
        link = relay.link("a", gateway.getsockname(), inward=CLEAR, outward=CLEAR)
        for number in range(20):
            phone.sendto(bytes([number]), link.near)
        came = received(gateway, 20)
        assert [data[0] for data, _ in came] == list(range(20))
        assert {source for _, source in came} == {link.far}
        gateway.sendto(b"back", link.far)
        assert received(phone, 1) == [(b"back", link.near)]
        assert link.inward == Counts(came=20, sent=20)


def test_in_bad_weather_datagrams_are_lost_doubled_and_overtaken_as_counted(ports) -> None:
    with Relay(2, ports) as relay, udp(ports.take(2)) as phone, udp(ports.take(2)) as gateway:
        link = relay.link("a", gateway.getsockname(), inward=BAD, outward=CLEAR)
        got = []
        for number in range(400):
            phone.sendto(number.to_bytes(2, "big"), link.near)
            time.sleep(0.001)
            got += drain(gateway)  # its buffer takes some 270
        counts = link.inward
        expected = len(fates(2, "a", 400))
        came = [int.from_bytes(data, "big") for _, data, _ in got]
        came += [int.from_bytes(data, "big") for data, _ in received(gateway, expected - len(came))]
        assert len(came) == expected == counts.sent == counts.came - counts.lost + counts.twice
        assert sorted(came) == sorted(fates(2, "a", 400))
        assert counts.overtaken > 0
        assert came != sorted(came)
        assert 20 < counts.longest_ms <= 62


def fates(seed: int, name: str, count: int) -> list[int]:
    """Which datagrams arrive, as the seed says."""
    direction = _Direction(BAD, f"{seed}/{name}/in")
    return [number for number in range(count) for _ in direction.delays()]


def test_a_seed_says_what_happens_and_links_differ() -> None:
    assert fates(3, "a", 300) == fates(3, "a", 300)
    assert fates(3, "a", 300) != fates(3, "b", 300)
    assert fates(3, "a", 300) != fates(4, "a", 300)


def test_counts_add_up() -> None:
    assert Counts(1, 2, 3, 4, 5, 60.0) + Counts(10, 20, 30, 40, 50, 6.0) == Counts(11, 22, 33, 44, 55, 60.0)
    assert str(Counts(came=7, lost=1)) == "7 came, 1 lost, 0 doubled, 0 overtaken, 0 sent, 0 ms at most"
