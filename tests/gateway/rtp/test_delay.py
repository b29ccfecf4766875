"""How late packets are, and how long a missing one is waited for."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.delay import DelayTracker, JitterLimits


def run(tracker: DelayTracker, delays_ms, *, first: int = 0) -> list[float]:
    """Send a packet every 20 ms, each delayed; return the targets in ms."""
    targets = []
    for number, delay_ms in enumerate(delays_ms, first):
        tracker.note(number * 160, 1000 + number * 0.02 + delay_ms / 1000)
        targets.append(tracker.target * 1000)
    return targets


def test_a_clean_network_keeps_the_shortest_target() -> None:
    tracker = DelayTracker(JitterLimits(40, 200))
    assert set(run(tracker, [5] * 1000)) == {40.0}
    assert tracker.mean_s == pytest.approx(0)


def test_the_target_grows_with_the_packet_that_shows_the_need() -> None:
    tracker = DelayTracker(JitterLimits(40, 200))
    targets = run(tracker, [0, 0, 90, 0, 0])
    assert targets[1] == 40
    assert targets[2] == pytest.approx(100)


def test_it_shrinks_slowly_when_the_network_is_calm_again() -> None:
    tracker = DelayTracker(JitterLimits(40, 200))
    run(tracker, [0] * 10 + [150])
    targets = run(tracker, [0] * 3000, first=11)
    assert targets[400] == pytest.approx(160)  # ten seconds are remembered
    assert targets[1000] == pytest.approx(110, abs=15)
    assert targets[-1] == 40


def test_what_nothing_could_wait_for_does_not_count() -> None:
    tracker = DelayTracker(JitterLimits(40, 200))
    assert max(run(tracker, [0] * 50 + [700] + [0] * 50)) == 40


def test_a_longer_way_becomes_the_base_in_four_seconds() -> None:
    tracker = DelayTracker(JitterLimits(40, 200))
    run(tracker, [10] * 200 + [160] * 250)
    assert tracker.note(450 * 160, 1000 + 9.0 + 0.16) == pytest.approx(0, abs=0.001)


def test_a_clock_that_drifts_is_no_delay() -> None:
    tracker = DelayTracker(JitterLimits(40, 200))
    run(tracker, [number * 0.02 * 0.3 for number in range(30_000)])  # 300 ppm for ten minutes
    assert tracker.mean_s < 0.002
    assert tracker.target == 0.04


def test_jitter_is_that_of_the_rfc() -> None:
    """RFC 3550 appendix A.8, computed here the long way."""
    rng = random.Random(1)
    delays = [rng.uniform(0, 60) for _ in range(500)]
    tracker = DelayTracker(JitterLimits(40, 200))
    run(tracker, delays)
    jitter = 0.0
    for before, after in itertools.pairwise(delays):
        jitter += (abs(after - before) * 8 - jitter) / 16
    assert tracker.jitter == pytest.approx(jitter)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 3000), min_size=1, max_size=200), st.integers(0, 100), st.integers(0, 300))
def test_the_target_stays_within_its_limits_and_delays_are_not_negative(delays, lowest, more) -> None:
    tracker = DelayTracker(JitterLimits(lowest, lowest + more))
    for number, delay_ms in enumerate(delays):
        assert tracker.note(number * 160, 1000 + number * 0.02 + delay_ms / 1000) >= 0
        assert lowest / 1000 <= tracker.target <= (lowest + more) / 1000
