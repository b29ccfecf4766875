"""
What a call has consumed, and what that costs (no I/O).

Sums go over all sessions of a call: after a fail-over both providers are paid. The prices are those of the
day on which the call began. Money is :class:`~decimal.Decimal`, US dollars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from config.prices import Price, Tariff
from providers.types import AMOUNTS, Usage

_MILLION = Decimal(1_000_000)
_MINUTE = Decimal(60)
TOKENS = tuple(name for name in AMOUNTS if name != "seconds")
"""The kinds of tokens; each has a price of the same name."""
NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True)
class ModelName:
    """A provider's speech model, as prices know it."""

    kind: str
    model: str


@dataclass(frozen=True, slots=True)
class Line:
    """
    What one model consumed in one call.

    ``known`` is what the priced part of it costs; ``cost`` is the whole, ``None`` where a part has no price.
    """

    provider: str
    model: str
    usage: Usage
    known: Decimal
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class Bill:
    """What a call has cost so far."""

    lines: tuple[Line, ...] = ()

    @property
    def known(self) -> Decimal:
        """What it costs at least."""
        return sum((line.known for line in self.lines), NOTHING)

    @property
    def total(self) -> Decimal | None:
        """
        The whole cost.

        ``None`` where it is unknown: no provider has told of any usage yet, or a part has no price.
        """
        costs = [line.cost for line in self.lines]
        known = [cost for cost in costs if cost is not None]
        return sum(known, NOTHING) if costs and len(known) == len(costs) else None

    def since(self, before: Bill) -> tuple[Line, ...]:
        """Return what was added to an earlier bill of the same call."""
        old = {(line.provider, line.model): line for line in before.lines}
        added = (_added(line, old.get((line.provider, line.model))) for line in self.lines)
        return tuple(line for line in added if not line.usage.nothing)


def dollars(amount: Decimal | None) -> float | None:
    """Return an amount for a record or a log, to the millionth; ``None`` where it is unknown."""
    return None if amount is None else round(float(amount), 6)


class Account:
    """
    One call's sessions and what they consumed.

    Args:
        tariff: The prices of the day on which the call began.
        models: The speech model of each provider by the provider's name.
    """

    def __init__(self, tariff: Tariff, models: Mapping[str, ModelName]) -> None:
        self._tariff = tariff
        self._models = models
        self._sessions: list[tuple[str, Callable[[], Usage]]] = []

    def follow(self, provider: str, read: Callable[[], Usage]) -> None:
        """Count a session from now on, also when it is closed; ``read`` returns what it has consumed."""
        self._sessions.append((provider, read))

    def bill(self) -> Bill:
        """Return the bill as it stands."""
        consumed: dict[tuple[str, str], Usage] = {}
        for provider, read in self._sessions:
            for model, usage in _by_model(self._models[provider].model, read()):
                if not usage.nothing:
                    consumed[provider, model] = consumed.get((provider, model), Usage()) + usage
        return Bill(tuple(self._line(*key, usage) for key, usage in consumed.items()))

    def _line(self, provider: str, model: str, usage: Usage) -> Line:
        price = self._tariff.find(provider, self._models[provider].kind, model)
        known, whole = price_of(usage, price)
        return Line(provider, model, usage, known, known if whole else None)


def price_of(usage: Usage, price: Price | None) -> tuple[Decimal, bool]:
    """
    Return what the priced part of ``usage`` costs, and whether that is all of it.

    Seconds have a price only where a model is paid by the minute; beside tokens that are paid they are only
    told. Tokens beside a price by the minute are only told, too.
    """
    if price is None:
        return NOTHING, usage.nothing
    known = NOTHING
    by_time = price.minute is not None and usage.seconds > 0
    if price.minute is not None:
        known += Decimal(str(usage.seconds)) / _MINUTE * price.minute
    used = [name for name in TOKENS if getattr(usage, name)]
    rates = {name: getattr(price, name) for name in used}
    for name, rate in rates.items():
        known += getattr(usage, name) * (rate or NOTHING) / _MILLION
    return known, by_time or (None not in rates.values() and (bool(used) or not usage.seconds))


def _by_model(main: str, usage: Usage) -> list[tuple[str, Usage]]:
    return [(main, replace(usage, others={})), *usage.others.items()]


def _added(line: Line, before: Line | None) -> Line:
    if before is None:
        return line
    amounts = {name: max(getattr(line.usage, name) - getattr(before.usage, name), 0) for name in AMOUNTS}
    cost = None if line.cost is None or before.cost is None else max(line.cost - before.cost, NOTHING)
    return Line(line.provider, line.model, Usage(**amounts), max(line.known - before.known, NOTHING), cost)
