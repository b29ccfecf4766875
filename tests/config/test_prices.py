"""Prices: the shipped ones, those of the file, and the day from which on one holds."""

from datetime import date
from decimal import Decimal

import pytest

from config.prices import SHIPPED, Price, PriceList

TODAY = date(2026, 12, 1)


def test_the_default_models_have_a_price():
    tariff = PriceList({}).on(TODAY)
    realtime = tariff.find("openai", "openai", "gpt-realtime-2.1")
    assert (realtime.audio_in, realtime.cached_audio_in, realtime.audio_out) == (32, Decimal("0.40"), 64)
    assert (realtime.text_in, realtime.cached_text_in, realtime.text_out) == (4, Decimal("0.40"), 24)
    assert tariff.find("openai", "openai", "gpt-live-transcribe").minute == Decimal("0.017")
    assert tariff.find("live", "openai-live", "gpt-live-1").minute == Decimal("0.05")
    assert tariff.find("gemini", "gemini", "gemini-3.8-live").audio_in == 3


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("gpt-realtime-2025-08-28", True),
        ("gpt-realtime-mini-2025-10-06", True),
        ("models/gpt-realtime-2.1", True),
        ("gpt-realtime-3", False),
        ("gpt-realtime-2.1-turbo", False),
        ("", False),
    ],
)
def test_a_snapshot_costs_what_its_family_costs_and_nothing_else_is_guessed(model, known):
    assert (PriceList({}).on(TODAY).find("openai", "openai", model) is not None) == known


def test_a_model_of_another_kind_of_provider_has_no_price():
    assert PriceList({}).on(TODAY).find("gemini", "gemini", "gpt-realtime-2.1") is None


def test_the_price_that_is_in_force_on_the_day_counts(folder, good):
    settings = folder.load(good + """\
prices:
  openai:
    gpt-realtime-2.1:
      - {since: 2027-03-01, audio_out: 50}
      - {audio_out: 64.5, audio_in: 0.017}
      - {since: 2027-01-01, audio_out: 60}
""").settings  # fmt: skip
    prices = PriceList(settings.prices)

    def on(*day):
        return prices.on(date(*day)).find("openai", "openai", "gpt-realtime-2.1").audio_out

    assert on(2026, 12, 31) == Decimal("64.5")
    assert on(2027, 1, 1) == on(2027, 2, 28) == 60
    assert on(2027, 3, 1) == 50
    assert settings.prices["openai"]["gpt-realtime-2.1"][0].audio_in == Decimal("0.017")


def test_prices_of_the_file_stand_alone_for_their_model(folder, good):
    prices = "prices: {openai: {gpt-realtime-2.1: [{since: 2999-01-01, audio_out: 1}]}}\n"
    loaded = folder.load(good + prices)
    tariff = PriceList(loaded.settings.prices).on(TODAY)
    assert tariff.find("openai", "openai", "gpt-realtime-2.1") is None
    assert tariff.find("openai", "openai", "gpt-realtime-2.1-mini") is not None
    (warning,) = loaded.warnings
    assert "providers.openai.model: this value has no known price" in str(warning)


def test_a_model_without_a_price_is_told_and_so_is_the_limit_that_rests_on_it(folder, good):
    text = good.replace('API_KEY}"}', 'API_KEY}", model: gpt-next, transcription_model: null}').replace(
        "prompt: You answer the phone.", "prompt: You answer the phone., limits: {max_cost_usd: 2}"
    )
    lines = [str(warning).partition("gateway.yaml:")[2] for warning in folder.load(text).warnings]
    assert lines[0].startswith("4: providers.openai.model: 'gpt-next' has no known price:")
    assert lines[1].startswith("6: agents.reception.limits.max_cost_usd: does not count what")
    priced = text + "prices: {openai: {gpt-next: [{audio_in: 1, audio_out: 2}]}}\n"
    assert folder.load(priced).warnings == ()


def test_nobody_is_warned_that_the_fake_costs_nothing_unless_a_limit_counts_on_it(folder, good):
    fake = good.replace('openai: {api_key: "${env:OPENAI_API_KEY}"}', "fake: {}").replace(
        "[openai]", "[fake]"
    )
    assert folder.load(fake).warnings == ()
    limited = fake.replace("the phone.}", "the phone., limits: {max_cost_usd: 2}}")
    assert len(folder.load(limited).warnings) == 1
    assert folder.load(limited + "prices: {fake: {fake: [{audio_out: 2}]}}\n").warnings == ()


BEHIND_A_VOICE = {"gpt-6-sol", "gpt-6-luna", "gpt-5.6-terra", "gpt-5.6-luna"}
"""Models that hear and say nothing themselves."""


def used_by(model: str) -> set[str]:
    """What a model is known to consume, where it is not paid by the minute."""
    if model in BEHIND_A_VOICE:
        return {"text_in", "cached_text_in", "text_out"}
    if model.endswith("transcribe"):
        return {"text_in", "audio_in", "text_out"}
    return {"text_in", "audio_in", "text_out", "audio_out"}


def test_every_shipped_price_prices_what_a_conversation_uses():
    for kind, models in SHIPPED.items():
        for model, (price,) in models.items():
            assert isinstance(price, Price)
            assert price.since is None
            priced = {name for name in Price.model_fields if getattr(price, name) is not None}
            assert priced == {"minute"} or used_by(model) <= priced, (kind, model)
