"""What a behaviour needs, asked of capabilities and of what the far side can do; never of a name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from providers.types import Part, TurnModel, Updatable
from tests.providers.contract.far import Kind, Trouble

Need = Callable[[Kind], bool]


def needs(*wanted: Need | Trouble) -> pytest.MarkDecorator:
    """Ask the behaviour only of a provider that has all of these."""
    return pytest.mark.needs.with_args(*wanted)  # a call with one function would decorate it


def lacking(kind: Kind, wanted: tuple[Need | Trouble, ...]) -> str:
    """Name what ``kind`` lacks, or return an empty string."""
    for each in wanted:
        if isinstance(each, Trouble):
            if each not in kind.troubles:
                return f"its far side never {each.value}"
        elif not each(kind):
            return each.__name__.replace("_", " ")
    return ""


def turns(kind: Kind) -> bool:
    """Whether answers begin and end, and can be asked for and interrupted."""
    return kind.capabilities.turn_model is not TurnModel.DUPLEX


def client_turns(kind: Kind) -> bool:
    """Whether we decide when the model answers."""
    return kind.capabilities.turn_model is TurnModel.TURN_BASED


def truncation(kind: Kind) -> bool:
    return kind.capabilities.truncates


def cancelling(kind: Kind) -> bool:
    return kind.capabilities.cancels


def a_live(part: Part) -> Need:
    """Whether ``part`` can be changed in a running session."""

    def need(kind: Kind) -> bool:
        return kind.capabilities.updates.get(part) is Updatable.LIVE

    need.__name__ = f"a live {part.value}"
    return need


def a_fixed(part: Part) -> Need:
    """Whether ``part`` can not be changed once the model has spoken."""

    def need(kind: Kind) -> bool:
        return kind.capabilities.updates.get(part) is not Updatable.LIVE

    need.__name__ = f"a fixed {part.value}"
    return need
