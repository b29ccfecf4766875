"""
What can keep a caller waiting in silence, and what is done about it: the words of the watchdog (no I/O).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TypeAlias

from providers.types import ResponseStatus

_REJECTED = "rejected"
_RATE_LIMIT = "rate_limit"
"""Words in the reasons of providers."""


class Fault(StrEnum):
    """Why a caller hears nothing."""

    NO_AUDIO = "no_audio"
    """Nothing came: a stalled socket, a request that was ignored, a model that froze."""
    EMPTY_RESPONSE = "empty_response"
    """A response ended without audio, and without calling a tool."""
    FAILED = "response_failed"
    INCOMPLETE = "response_incomplete"
    REJECTED = "response_rejected"
    INAUDIBLE = "inaudible_audio"
    """Audio leaves in which there is nothing to hear."""
    BROKEN_OFF = "speech_broken_off"
    """An utterance stops half way."""
    STUCK = "playout_stuck"
    """Audio is queued, and nothing leaves."""


class Rung(IntEnum):
    """What is done about it: each step when the one before brought no speech."""

    NUDGE = 0
    """Ask the model to speak, beside whatever it is doing."""
    RECREATE = 1
    """Stop what it is doing and ask again."""
    FAIL_OVER = 2
    """Go on with another session."""
    GIVE_UP = 3
    """Say the recorded apology; then the fallback number, or the end."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds."""

    reply: float = 6.0
    """From the moment when a reply is due to its first sound."""
    turn: float = 4.0
    """More, while the provider has not said that the caller's turn is over."""
    again: float = 3.0
    """From one step to the next."""
    inaudible: float = 1.0
    """Of audio at the beginning of a reply in which nothing can be heard."""
    hush: float = 3.0
    """The same inside a reply."""
    gap: float = 1.2
    """In the middle of an utterance, when everything that came was heard."""
    stuck: float = 1.2
    """Of queued audio of which nothing leaves."""
    retry: float = 0.25
    """Before a response that failed is asked for again."""
    rate_limit_retry: float = 1.5
    settled: float = 20.0
    """A fault that comes later after a repair begins with the first step again."""


@dataclass(frozen=True, slots=True)
class Detected:
    """A fault; ``waited`` is for how long a reply had been due."""

    fault: Fault
    waited: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """Take the next step now, and none below ``at_least``."""

    fault: Fault
    at_least: Rung


@dataclass(frozen=True, slots=True)
class Repaired:
    """The agent is heard again, ``after`` seconds after the fault was detected."""

    fault: Fault
    after: float


@dataclass(frozen=True, slots=True)
class Settled:
    """The agent was heard for long enough: the next fault begins with the first step."""


Step: TypeAlias = Detected | Ask | Repaired | Settled


def judge(status: ResponseStatus, reason: str, *, spoke: bool, called: bool, due: bool) -> Fault | None:
    """
    Say what is wrong with a response that ended so.

    Args:
        status: How it ended.
        reason: The provider's word for it.
        spoke: Whether it had audio.
        called: Whether it called tools.
        due: Whether a reply was due.
    """
    match status:
        case ResponseStatus.CANCELLED:
            return None
        case ResponseStatus.COMPLETED:
            return Fault.EMPTY_RESPONSE if due and not spoke and not called else None
        case _ if _REJECTED in reason.lower():
            return Fault.REJECTED
        case ResponseStatus.FAILED:
            return Fault.FAILED
        case ResponseStatus.INCOMPLETE:
            return Fault.INCOMPLETE


def pause(fault: Fault, detail: str, patience: Patience) -> float:
    """Return for how long a model is left in peace before it is asked again."""
    if fault not in {Fault.FAILED, Fault.EMPTY_RESPONSE, Fault.INCOMPLETE, Fault.REJECTED}:
        return 0.0
    return patience.rate_limit_retry if _RATE_LIMIT in detail else patience.retry
