"""Tokens of a Gemini Live session: each turn reports its own, again and again until it is over."""

from __future__ import annotations

from providers.gemini.messages import ModalityCount, UsageMetadata
from providers.types import Usage


class Meter:
    """Adds up turns; what is reported within one turn replaces what it reported before."""

    def __init__(self) -> None:
        self._before = Usage()
        self._turn = Usage()

    @property
    def total(self) -> Usage:
        return self._before + self._turn

    def report(self, usage: UsageMetadata) -> None:
        """Take what the running turn has consumed so far."""
        self._turn = _usage(usage)

    def begin_turn(self) -> None:
        """Note that what comes now belongs to another turn."""
        self._before += self._turn
        self._turn = Usage()


def _usage(usage: UsageMetadata) -> Usage:
    """Split the counts by kind; what has no modality counts as text going in and as audio coming out."""
    text_in, audio_in = _split(usage.prompt_tokens_details, usage.prompt_token_count, rest_is_audio=False)
    cached_text, cached_audio = _split(
        usage.cache_tokens_details, usage.cached_content_token_count, rest_is_audio=False
    )
    text_out, audio_out = _split(
        usage.response_tokens_details, usage.response_token_count, rest_is_audio=True
    )
    return Usage(
        text_in=max(0, text_in - cached_text) + (usage.tool_use_prompt_token_count or 0),
        audio_in=max(0, audio_in - cached_audio),
        cached_text_in=cached_text,
        cached_audio_in=cached_audio,
        text_out=text_out + (usage.thoughts_token_count or 0),
        audio_out=audio_out,
    )


def _split(details: list[ModalityCount] | None, whole: int | None, *, rest_is_audio: bool) -> tuple[int, int]:
    """Return text and audio tokens."""
    counts = details or []
    audio = sum(each.token_count or 0 for each in counts if each.modality == "AUDIO")
    text = sum(each.token_count or 0 for each in counts if each.modality != "AUDIO")
    rest = max(0, (whole or 0) - audio - text)
    return (text, audio + rest) if rest_is_audio else (text + rest, audio)
