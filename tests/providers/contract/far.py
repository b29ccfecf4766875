"""
What the contract asks of the far side of a provider, in no vendor's words.

A provider joins the suite with one :class:`Kind` in ``kinds.py``: how its far side is opened, and what can
go wrong there. The tests ask nothing but :class:`Far` and the capabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from providers.base import Provider
from providers.fakes.script import Script
from providers.types import Capabilities
from tools.types import AgentToolDefinition, JsonObject

KEY = "sk-test-0123456789"
"""The key of every provider that has one; it must never be seen in a message."""


class Trouble(StrEnum):
    """What a far side can be told to do wrong."""

    HANG = "takes the connection and says nothing"
    BAD_KEY = "answers the connection with 401"
    NO_MODEL = "answers the connection with 404"
    TOO_MANY = "answers the connection with 429"
    OVERLOADED = "answers the connection with 503"
    BAD_CONFIG = "refuses the configuration"
    CLOSED_EARLY = "closes before the session is configured"
    NOBODY = "is not there"
    CLOSED = "closes the session after a moment, as for an internal error"
    CUT = "cuts the connection after a moment"
    EXPIRES = "will end the session within minutes"
    UNKNOWN_EVENT = "says something newer than our code"
    GARBAGE = "sends a frame that is no message"
    HUGE_AUDIO = "sends a whole utterance of more than 1 MiB as one frame"
    STRAY_AUDIO = "still sends audio of an answer that was interrupted"
    CUT_CALL = "ends the first answer in the middle of a tool call"
    CANCELLED_CALL = "takes a tool call back when the caller speaks"
    SILENT_ANSWER = "gives a first answer without audio"
    FAILED_ANSWER = "fails the first answer"
    SLOW_READER = "reads slowly"
    NO_TRANSCRIPT = "cannot write down what the caller said"


class Far(Protocol):
    """
    One open far side; all but :attr:`provider` is about the newest session, as it came over the wire.

    The words of a tool in the history may be written in any way; its name and output must be in them.
    """

    @property
    def provider(self) -> Provider: ...

    def instructions(self) -> str: ...

    def tools(self) -> list[AgentToolDefinition]: ...

    def voice(self) -> str | None: ...

    def heard(self) -> bytes:
        """All audio of the caller."""
        ...

    def texts(self) -> list[str]:
        """The texts that were put in after the set-up, without those of the history."""
        ...

    def history(self) -> list[tuple[str, str]]:
        """``(caller | agent | system | tool, words)`` for each item of the history."""
        ...

    def answers(self) -> list[tuple[str, JsonObject]]:
        """``(call_id, result)`` for each result that was taken."""
        ...

    def unanswered(self) -> int:
        """How many calls of the model have no answer."""
        ...

    def cuts(self) -> list[int]:
        """How many milliseconds the model was told that the caller had heard, for each item that was cut."""
        ...

    def complaints(self) -> list[str]:
        """What the far side refused of what it was sent."""
        ...

    def sessions(self) -> int:
        """How many sessions there were."""
        ...

    def connections(self) -> int:
        """How many are still there."""
        ...

    def recover(self) -> None:
        """End the troubles of set-ups: the next connection is a good one."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """
    A provider with its far side.

    Args:
        name: For reading test ids only.
        capabilities: What it says that it can do.
        troubles: What its far side can do wrong.
        voices: Two that it has.
        open: Opens a far side that plays the script, with these troubles.
    """

    name: str
    capabilities: Capabilities
    troubles: frozenset[Trouble]
    voices: tuple[str, str]
    open: Callable[[Script, tuple[Trouble, ...]], AbstractAsyncContextManager[Far]]
