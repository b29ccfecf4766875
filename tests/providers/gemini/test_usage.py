"""Tokens: the last report of a turn counts, and turns add up."""

from __future__ import annotations

from providers.gemini.messages import ModalityCount, UsageMetadata
from providers.gemini.usage import Meter
from providers.types import Usage


def counts(**modalities: int) -> list[ModalityCount]:
    return [ModalityCount(name, count) for name, count in modalities.items()]


def test_reports_of_one_turn_replace_each_other_and_turns_add_up() -> None:
    meter = Meter()
    for audio in (10, 25):
        meter.report(UsageMetadata(prompt_tokens_details=counts(TEXT=100, AUDIO=audio)))
    assert meter.total == Usage(text_in=100, audio_in=25)
    meter.begin_turn()
    meter.report(UsageMetadata(prompt_tokens_details=counts(TEXT=100, AUDIO=30)))
    assert meter.total == Usage(text_in=200, audio_in=55)


def test_what_was_cached_is_not_counted_twice() -> None:
    meter = Meter()
    meter.report(
        UsageMetadata(
            prompt_tokens_details=counts(TEXT=100, AUDIO=50), cache_tokens_details=counts(TEXT=80, AUDIO=20)
        )
    )
    assert meter.total == Usage(text_in=20, audio_in=30, cached_text_in=80, cached_audio_in=20)


def test_thoughts_are_text_and_so_is_what_tools_bring_in() -> None:
    meter = Meter()
    meter.report(
        UsageMetadata(
            response_tokens_details=counts(AUDIO=40, TEXT=2),
            thoughts_token_count=7,
            tool_use_prompt_token_count=11,
        )
    )
    assert meter.total == Usage(text_in=11, text_out=9, audio_out=40)


def test_totals_without_details_are_text_going_in_and_audio_coming_out() -> None:
    meter = Meter()
    meter.report(UsageMetadata(prompt_token_count=30, response_token_count=12, cached_content_token_count=5))
    assert meter.total == Usage(text_in=25, cached_text_in=5, audio_out=12)


def test_who_reports_nothing_has_used_nothing_that_is_known() -> None:
    assert Meter().total.nothing
