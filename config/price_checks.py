"""What the price list says about the rest of the file: prices of nobody, models without a price."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from pydantic import JsonValue

from config.errors import Marks, Problem
from config.fields import did_you_mean
from config.models import Settings
from config.prices import PriceList
from config.providers import PROVIDER_KINDS, FakeSettings, models_of


def price_problems(data: JsonValue, marks: Marks) -> list[Problem]:
    """Check that each entry of ``prices`` is a provider of the file or a kind of provider."""
    if not isinstance(data, dict) or not isinstance(data.get("prices"), dict):
        return []
    prices, providers = data["prices"], data.get("providers")
    known = list(dict.fromkeys([*(providers if isinstance(providers, dict) else ()), *PROVIDER_KINDS]))
    return [
        marks.problem(
            ("prices", owner),
            "is neither a provider nor a kind of provider",
            did_you_mean(owner, known) or f"choose from {', '.join(known)}",
        )
        for owner in (prices if isinstance(prices, dict) else ())
        if owner not in known
    ]


def price_warnings(settings: Settings, marks: Marks, day: date) -> Iterator[Problem]:
    """
    Name the models whose calls have no known cost on ``day``, and the limits that rest on them.

    Nobody pays for a fake; it is named only where a limit counts on its price.
    """
    tariff = PriceList(settings.prices).on(day)
    unpriced: set[str] = set()
    for name, provider in settings.providers.items():
        for key, model in models_of(provider).items():
            if tariff.find(name, provider.kind, model) is not None:
                continue
            unpriced.add(name)
            if not isinstance(provider, FakeSettings):
                yield marks.problem(
                    ("providers", name, key),
                    "{value} has no known price: nor has a call with it",
                    f"add its prices under prices.{provider.kind}",
                )
    for agent, entry in settings.agents.items():
        silent = [name for name in entry.providers if name in unpriced]
        if entry.limits.max_cost_usd is not None and silent:
            yield marks.problem(
                ("agents", agent, "limits", "max_cost_usd"),
                f"does not count what models of {', '.join(silent)} consume: they have no known price",
                "add their prices under prices",
            )
