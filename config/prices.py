"""
What models cost, in US dollars: the shipped price list, and what a file says instead.

A price has a day from which on it holds, so that a change can be written down before it comes; the one in
force when a call begins counts for the whole call. What nobody has priced is unknown, never free.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema, model_validator

from config.fields import Section, Table, invalid

SHIPPED_ON = date(2026, 11, 30)
"""When the shipped prices were read."""
_DATED = re.compile(r"-20\d\d-\d\d-\d\d$")


def _amount(value: object) -> Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1_000_000:
        return Decimal(str(value))
    if isinstance(value, Decimal):
        return value
    raise invalid("{value} is not an amount of money", "write US dollars as a number, such as 0.40")


Amount = Annotated[
    Decimal, BeforeValidator(_amount), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1_000_000})
]


def _day(value: object) -> date:
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise invalid("{value} is not a day", "write YYYY-MM-DD, such as 2027-01-20") from None


Day = Annotated[date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]


class Price(Section):
    """
    What one model costs in US dollars, from a day on; keys: the provider's name or kind, then the model.

    A kind of token that is used and has no price here makes the cost of a call unknown.
    """

    since: Day | None = None
    """First day (UTC) on which it holds; null for all days before the other prices of the model."""
    text_in: Amount | None = None
    """A million tokens of text that the model reads."""
    cached_text_in: Amount | None = None
    """A million tokens of text that it has read before."""
    audio_in: Amount | None = None
    """A million tokens of audio that it hears."""
    cached_audio_in: Amount | None = None
    """A million tokens of audio that it has heard before."""
    text_out: Amount | None = None
    """A million tokens of text that it writes: tool calls, transcripts, thoughts."""
    audio_out: Amount | None = None
    """A million tokens of audio that it says."""
    minute: Amount | None = None
    """A minute of the session, or of the audio that is written down; billed by the second."""

    @model_validator(mode="after")
    def _prices_something(self) -> Price:
        if all(getattr(self, name) is None for name in Price.model_fields if name != "since"):
            raise invalid("has no price in it", "add text_in, audio_in, text_out, audio_out or minute")
        return self


def _one_a_day(prices: tuple[Price, ...]) -> tuple[Price, ...]:
    if not prices:
        raise invalid("has no price", "write [{text_in: ..., audio_in: ...}], or remove it")
    days = [price.since for price in prices]
    if len(set(days)) < len(days):
        raise invalid("has two prices that begin on the same day", "write since: YYYY-MM-DD in all but one")
    return tuple(sorted(prices, key=_first_day))


def _first_day(price: Price) -> date:
    return price.since or date.min


ModelPrices = Annotated[tuple[Price, ...], AfterValidator(_one_a_day)]
PriceTable: TypeAlias = Table[Table[ModelPrices]]


def _price(**dollars: str) -> tuple[Price, ...]:
    return (Price.model_validate({name: Decimal(amount) for name, amount in dollars.items()}),)


def _by_minute(dollars: str) -> tuple[Price, ...]:
    return _price(minute=dollars)


_OPENAI_AUDIO = {"audio_in": "32.00", "cached_audio_in": "0.40", "audio_out": "64.00"}
_REALTIME_2 = _price(text_in="4.00", cached_text_in="0.40", text_out="24.00", **_OPENAI_AUDIO)
_REALTIME_1 = _price(text_in="4.00", cached_text_in="0.40", text_out="16.00", **_OPENAI_AUDIO)
_REALTIME_MINI = _price(
    text_in="0.60",
    cached_text_in="0.06",
    text_out="2.40",
    audio_in="10.00",
    cached_audio_in="0.30",
    audio_out="20.00",
)
_PREVIEW = _price(
    text_in="5.00",
    cached_text_in="2.50",
    text_out="20.00",
    audio_in="40.00",
    cached_audio_in="2.50",
    audio_out="80.00",
)
_PREVIEW_MINI = _price(
    text_in="0.60",
    cached_text_in="0.30",
    text_out="2.40",
    audio_in="10.00",
    cached_audio_in="0.30",
    audio_out="20.00",
)
# Gemini's live models have no cache: a cached token of theirs would be news, and has no price.
_GEMINI_3 = _price(text_in="0.75", text_out="4.50", audio_in="3.00", audio_out="12.00")
_GEMINI_2 = _price(text_in="0.50", text_out="2.00", audio_in="3.00", audio_out="12.00")
_TRANSCRIBERS = {
    "gpt-live-transcribe": _by_minute("0.017"),
    "gpt-realtime-whisper": _by_minute("0.017"),
    "gpt-transcribe": _by_minute("0.0045"),
    "whisper-1": _by_minute("0.006"),
    "gpt-4o-transcribe": _price(text_in="2.50", audio_in="6.00", text_out="10.00"),
    "gpt-4o-mini-transcribe": _price(text_in="1.25", audio_in="3.00", text_out="5.00"),
}

SHIPPED: Mapping[str, Mapping[str, tuple[Price, ...]]] = MappingProxyType(
    {
        # developers.openai.com/api/docs/models/MODEL
        "openai": {
            "gpt-realtime-2.1": _REALTIME_2,
            "gpt-realtime-2.1-mini": _REALTIME_MINI,
            "gpt-realtime-2": _REALTIME_2,
            "gpt-realtime-1.5": _REALTIME_1,
            "gpt-realtime": _REALTIME_1,
            "gpt-realtime-mini": _REALTIME_MINI,
            "gpt-4o-realtime-preview": _PREVIEW,
            "gpt-4o-mini-realtime-preview": _PREVIEW_MINI,
            **_TRANSCRIBERS,
        },
        # The same pages. The model behind it that works on delegated tasks is billed as that model.
        "openai-live": {
            "gpt-live-1": _by_minute("0.05"),
            "gpt-live-1.1": _by_minute("0.05"),
            "gpt-6-sol": _price(text_in="2.00", cached_text_in="0.20", text_out="10.00"),
            "gpt-6-luna": _price(text_in="0.10", cached_text_in="0.01", text_out="0.50"),
            "gpt-5.6-terra": _price(text_in="2.00", cached_text_in="0.20", text_out="12.00"),
            "gpt-5.6-luna": _price(text_in="0.20", cached_text_in="0.02", text_out="1.20"),
        },
        # ai.google.dev/gemini-api/docs/pricing, paid tier, as several price lists quote it.
        "gemini": {
            "gemini-3.8-live": _GEMINI_3,
            "gemini-3.8-live-extended-thinking": _GEMINI_3,
            "gemini-3.1-flash-live-preview": _GEMINI_3,
            "gemini-2.5-flash-native-audio-preview-12-2025": _GEMINI_2,
            "gemini-live-2.5-flash-native-audio": _GEMINI_2,  # Vertex AI
        },
    }
)
"""By kind of provider and model; read on :data:`SHIPPED_ON`. What is missing here has no known price."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """The prices of one day, by (the provider's name or kind, model)."""

    prices: Mapping[tuple[str, str], Price]

    def find(self, provider: str, kind: str, model: str) -> Price | None:
        """
        Return the price of a model; a dated snapshot costs what its family costs.

        Args:
            provider: The provider's name in the file; its prices go before those of its kind.
            kind: The provider's kind.
            model: As the vendor names it, also with ``models/`` in front.
        """
        model = model.rpartition("/")[2]
        for name in (model, _DATED.sub("", model)):
            for owner in (provider, kind):
                if (price := self.prices.get((owner, name))) is not None:
                    return price
        return None


@dataclass(frozen=True, slots=True)
class PriceList:
    """
    All prices: those of the file, and the shipped ones for models that it does not name.

    Args:
        own: The file's, by provider or kind and model.
    """

    own: Mapping[str, Mapping[str, tuple[Price, ...]]]

    def on(self, day: date) -> Tariff:
        """Return the prices that are in force on a day (UTC)."""
        found: dict[tuple[str, str], Price] = {}
        for source in (SHIPPED, self.own):
            for owner, models in source.items():
                for model, prices in models.items():
                    found.pop((owner, model), None)  # the file's stand alone, also before their first day
                    current = [price for price in prices if _first_day(price) <= day]
                    if current:
                        found[owner, model] = max(current, key=_first_day)
        return Tariff(found)
