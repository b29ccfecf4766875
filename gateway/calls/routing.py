"""
From a dialled number to an agent (no I/O).

Carriers write one number in several ways: with and without ``+``, with ``00`` in front, with
separators, as a ``tel:`` URI, with URI parameters behind the user part. All of them find the
configured number; nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, TypeVar

R = TypeVar("R")

_SEPARATORS = str.maketrans("", "", " -.()")


@dataclass(frozen=True, slots=True)
class Routed(Generic[R]):
    number: str
    """The key of the configuration's ``numbers``."""
    target: R


@dataclass(frozen=True, slots=True)
class NotRouted:
    number: str
    """What was dialled, cleaned; empty when the request named nobody."""
    nearest: str
    """The configured number that looks most like it, or empty."""


def clean(user: str) -> str:
    """Drop URI parameters and, in numbers, separators: ``+1 (212) 555-0100;npdi`` is ``+12125550100``."""
    user = user.split(";", 1)[0].strip()
    digits = user.translate(_SEPARATORS)
    return digits if digits.lstrip("+").isdigit() and digits.isascii() else user


def spellings(user: str) -> Iterable[str]:
    """Yield the keys under which a dialled user part may be configured, the most literal first."""
    number = clean(user)
    yield number
    if number.isdigit():
        if number.startswith("00"):
            yield "+" + number[2:]
        yield "+" + number
    elif number.startswith("+"):
        yield number[1:]


class Router(Generic[R]):
    """Numbers of the configuration and what answers them."""

    def __init__(self, numbers: Mapping[str, R]) -> None:
        self._numbers = numbers

    def route(self, *users: str) -> Routed[R] | NotRouted:
        """Find the first of ``users`` (Request-URI, then To) that is configured."""
        for user in users:
            for number in spellings(user):
                if number in self._numbers:
                    return Routed(number, self._numbers[number])
        dialled = next((clean(user) for user in users if user), "")
        near = get_close_matches(dialled, self._numbers, n=1, cutoff=0.6)
        return NotRouted(dialled, near[0] if near else "")
