"""The E-model, against values of ITU-T G.107, G.113 and of hand computation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.media.quality import judge, mean_opinion, rating
from gateway.rtp.rtcp import VoipMetrics
from gateway.rtp.session import RemoteStatistics, SessionStatistics

CLEAN = SessionStatistics(
    sent=500,
    received=500,
    expected=500,
    lost=0,
    missing=0,
    gaps=0,
    late=0,
    duplicates=0,
    jitter_ms=1.0,
    buffer_ms=2.0,
    target_ms=40.0,
    audio_ms=10_000,
    concealed_ms=0,
    refused=0,
    source_moves=0,
    wrong_type=0,
    garbage=0,
    stream_changes=0,
    remote=RemoteStatistics(500, 0, 1.0, None),
    rtt_ms=40.0,
)


@pytest.mark.parametrize(
    ("r", "mos"),
    [(93.2, 4.41), (90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58), (-5, 1.0), (120, 4.5)],
)
def test_ratings_become_the_opinions_of_g107_table_b1(r, mos) -> None:
    assert mean_opinion(r) == pytest.approx(mos, abs=0.01)


def test_a_perfect_call_has_the_default_rating() -> None:
    assert rating(delay_ms=0, loss=0) == 93.2


def test_delay_costs_little_up_to_177_ms_and_much_beyond() -> None:
    assert 93.2 - rating(delay_ms=150, loss=0) == pytest.approx(3.6)
    assert 93.2 - rating(delay_ms=400, loss=0) == pytest.approx(9.6 + 24.497)


def test_loss_costs_what_g113_says_with_and_without_concealment() -> None:
    assert 93.2 - rating(delay_ms=0, loss=0.03) == pytest.approx(95 * 3 / 28.1)
    assert 93.2 - rating(delay_ms=0, loss=0.03, conceals=False) == pytest.approx(95 * 3 / 7.3)


def test_losses_in_bursts_cost_more_than_the_same_at_random() -> None:
    assert rating(delay_ms=0, loss=0.05, burst=2.0) < rating(delay_ms=0, loss=0.05, burst=1.0)


def test_a_clean_call_is_good_in_both_directions() -> None:
    quality = judge(CLEAN)
    assert quality.caller is not None
    assert quality.agent is not None
    assert quality.caller.delay_ms == 42
    assert quality.agent.delay_ms == 80
    assert quality.caller.mos > 4.35
    assert quality.agent.mos > 4.3


def test_the_callers_voice_is_judged_by_what_was_not_there_in_time() -> None:
    quality = judge(replace(CLEAN, lost=15, late=10, missing=25, gaps=10, concealed_ms=500))
    hearing = quality.caller
    assert hearing is not None
    assert (hearing.loss, hearing.discard) == (0.03, 0.02)
    assert hearing.burst == pytest.approx(2.5 * 0.95)
    assert hearing.r == rating(delay_ms=42, loss=0.05, burst=2.5 * 0.95)


def test_the_agents_voice_is_judged_by_the_peers_reports() -> None:
    metrics = VoipMetrics(1, 0.02, 0.02, 40, 150, None, None, None, 60)
    remote = RemoteStatistics(1000, 20, 30.0, metrics)
    hearing = judge(replace(CLEAN, remote=remote)).agent
    assert hearing is not None
    assert hearing.loss == 0.02
    assert hearing.delay_ms == 20 + 20 + 150
    assert hearing.r == rating(delay_ms=190, loss=0.04)


def test_where_nothing_was_heard_or_told_there_is_no_figure() -> None:
    quality = judge(replace(CLEAN, expected=0, received=0, remote=RemoteStatistics(0, 0, 0.0, None)))
    assert quality.figures()["caller"] is None
    assert quality.figures()["agent"] is None


@settings(max_examples=100, deadline=None)
@given(st.floats(0, 2000), st.floats(0, 1), st.floats(0, 50))
def test_figures_stay_on_their_scales_and_more_loss_is_never_better(delay_ms, loss, burst) -> None:
    r = rating(delay_ms=delay_ms, loss=loss, burst=burst)
    assert 0 <= r <= 93.2
    assert 1 <= mean_opinion(r) <= 4.5
    assert rating(delay_ms=delay_ms, loss=min(loss + 0.05, 1), burst=burst) <= r
