"""Fault 26 and its relatives: what each model takes, on each back-end."""

from __future__ import annotations

import pytest

from providers.gemini.models import History, profile_of

NATIVE = "gemini-2.5-flash-native-audio-preview-12-2025"


@pytest.mark.parametrize(
    ("model", "vertex", "history"),
    [
        ("gemini-3.8-live", False, History.OPENING),
        ("gemini-3.8-live", True, History.TURNS),
        ("gemini-3.8-live-extended-thinking", False, History.OPENING),
        ("gemini-3.1-flash-live-preview", False, History.OPENING),
        ("gemini-3.1-flash-live-preview", True, History.INSTRUCTIONS),
        (NATIVE, False, History.TURNS),
        ("publishers/google/models/gemini-live-2.5-flash-native-audio", True, History.TURNS),
    ],
)
def test_fault_26_history_comes_the_way_that_the_model_takes(model, vertex, history) -> None:
    assert profile_of(model, vertex=vertex).history is history


def test_who_takes_turns_in_mid_session_and_who_only_text() -> None:
    assert profile_of("gemini-3.8-live", vertex=False).notes
    assert not profile_of(NATIVE, vertex=False).notes
    assert profile_of(NATIVE, vertex=False).content
    assert not profile_of("gemini-3.1-flash-live-preview", vertex=False).content


def test_tools_do_not_block_where_that_is_possible() -> None:
    assert profile_of("gemini-3.8-live", vertex=False).async_tools
    assert not profile_of("gemini-3.8-live", vertex=False).declares_async
    assert profile_of(NATIVE, vertex=False).declares_async
    assert not profile_of("gemini-3.1-flash-live-preview", vertex=False).async_tools


def test_fault_25_only_the_old_models_must_not_hear_during_a_call() -> None:
    assert profile_of(NATIVE, vertex=False).pauses_audio
    assert not profile_of("gemini-3.8-live", vertex=False).pauses_audio


def test_a_model_that_is_not_known_is_taken_for_the_newest() -> None:
    newest = profile_of("gemini-3.8-live", vertex=False)
    assert profile_of("gemini-5-live-preview", vertex=False) == newest
