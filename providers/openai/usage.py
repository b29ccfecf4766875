"""
What OpenAI Realtime bills: read from its usage objects and summed without counting anything twice.

``response.done`` carries the tokens of one response, ``…input_audio_transcription.completed`` those (or the
seconds) of the model that writes the caller down. The service counts cached tokens within the input tokens;
here they stand apart, because they have a price of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from providers.types import Usage

_CALLER_TOKENS_A_SECOND = 10
"""The caller's audio has a token for 100 ms (developers.openai.com/api/docs/guides/realtime-costs)."""
_KEYS = 64
"""Events that are remembered, so that a repeated one is counted once."""


def read(usage: Mapping[str, object], *, speaks: bool = True) -> Usage:
    """
    Read one usage object; whatever it does not say counts as nothing.

    Tokens whose kind is not told are taken for the dearer kind, audio, and cached ones for the kind that
    saves the least, text: a limit on the cost of a call then errs on the safe side. A model that does not
    speak (``speaks=False``: it writes down the caller) makes text; it may be paid by the minute and tell of
    tokens only, so its seconds are made of them.
    """
    heard, said = _mapping(usage, "input_token_details"), _mapping(usage, "output_token_details")
    text_in, text_out = _count(heard, "text_tokens"), _count(said, "text_tokens")
    images = _count(heard, "image_tokens")
    audio_in = max(_count(heard, "audio_tokens"), _count(usage, "input_tokens") - text_in - images)
    rest = max(_count(usage, "output_tokens") - text_out - _count(said, "audio_tokens"), 0)
    cached_text, cached_audio = _cached(heard, text_in, audio_in)
    return Usage(
        text_in=text_in - cached_text,
        audio_in=audio_in - cached_audio,
        cached_text_in=cached_text,
        cached_audio_in=cached_audio,
        text_out=text_out + (0 if speaks else rest),
        audio_out=_count(said, "audio_tokens") + (rest if speaks else 0),
        seconds=_seconds(usage) or (0.0 if speaks else audio_in / _CALLER_TOKENS_A_SECOND),
    )


def _cached(heard: Mapping[str, object], text_in: int, audio_in: int) -> tuple[int, int]:
    """Return how many of the tokens were cached, never more than there are."""
    details = _mapping(heard, "cached_tokens_details")
    if details:
        return min(_count(details, "text_tokens"), text_in), min(_count(details, "audio_tokens"), audio_in)
    cached = _count(heard, "cached_tokens")
    text = min(cached, text_in)
    return text, min(cached - text, audio_in)


def _mapping(value: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _count(value: Mapping[str, object], key: str) -> int:
    found = value.get(key)
    return max(found, 0) if isinstance(found, int) else 0


def _seconds(usage: Mapping[str, object]) -> float:
    """Return the audio's length where that is what is billed."""
    seconds = usage.get("seconds")
    return max(float(seconds), 0.0) if isinstance(seconds, int | float) else 0.0


class UsageMeter:
    """
    Sums what a session has consumed.

    A message that the server repeats is counted once, and a transcript that comes after it was given up is
    counted all the same.
    """

    def __init__(self) -> None:
        self.spoken = Usage()
        """Of the speech model."""
        self.written = Usage()
        """Of the model that writes down the caller."""
        self._counted: dict[str, None] = {}

    def response(self, response_id: str, usage: Usage) -> None:
        """Count a response, however it ended."""
        if self._first(f"response {response_id}", usage):
            self.spoken += usage

    def transcript(self, item_id: str, usage: Usage) -> None:
        """Count the transcription of one turn of the caller."""
        if self._first(f"item {item_id}", usage):
            self.written += usage

    def total(self, transcriber: str | None) -> Usage:
        """Return both; the written part under the name of its model."""
        if transcriber is None or self.written.nothing:
            return self.spoken
        return self.spoken + Usage(others={transcriber: self.written})

    def _first(self, key: str, usage: Usage) -> bool:
        if usage.nothing or key in self._counted:
            return False
        self._counted[key] = None
        if len(self._counted) > _KEYS:
            del self._counted[next(iter(self._counted))]
        return True
