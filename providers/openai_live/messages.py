"""
What a GPT-Live server and we say to each other, as data.

``wire`` turns JSON into these and back; ``state`` reads and makes nothing else. Only what a call needs is
here: an event that has no class is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from providers.openai.messages import FunctionCall
from providers.types import AudioFormat, ResponseStatus, Usage
from tools.types import JsonObject

# What the server says. Times in ms are positions on the session's timeline.


class AudioReceived(NamedTuple):
    """A piece of the model's voice, silence included; a tuple because it is on the audio path."""

    audio: bytes


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The parts of a session object that we rely on; ``None`` where the server does not say."""

    format: AudioFormat | None = None
    tools: frozenset[str] | None = None
    expires_at: float | None = None
    """Unix time."""


@dataclass(frozen=True, slots=True)
class SessionStarted:
    session: SessionFacts


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The server did what our event ``event_id`` asked for."""

    event_id: str


@dataclass(frozen=True, slots=True)
class CallerTextReceived:
    """A piece of what the caller said; there is no last one."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class AgentTextReceived:
    """A piece of what the model says."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class TaskDelegated:
    """The model wants something done; ``to_client`` says that nobody but us can do it."""

    delegation_id: str
    to_client: bool


@dataclass(frozen=True, slots=True)
class ResponseBegan:
    """The backend works on a delegation."""

    delegation_id: str
    response_id: str


@dataclass(frozen=True, slots=True)
class FunctionCallReceived:
    """A tool call of the backend began or ended; its response is still running."""

    delegation_id: str
    call: FunctionCall


@dataclass(frozen=True, slots=True)
class ResponseFinished:
    """The backend is done with a response; ``error`` is its code where it failed."""

    delegation_id: str
    response_id: str
    status: ResponseStatus
    error: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Seconds of the session so far."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """The session is over; ``reason`` is the service's word."""

    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ErrorReported:
    kind: str
    code: str
    message: str
    event_id: str
    """The client event that it answers, or empty."""


ServerMessage: TypeAlias = (
    AudioReceived
    | SessionStarted
    | Acknowledged
    | CallerTextReceived
    | AgentTextReceived
    | TaskDelegated
    | ResponseBegan
    | FunctionCallReceived
    | ResponseFinished
    | UsageReported
    | SessionClosed
    | ErrorReported
)


# What we say. Every one but silence carries an ``event_id``, which comes back in its answer.


class Context(StrEnum):
    """How a text is put into the conversation."""

    INSTRUCTIONS = "instructions"
    """For good, and for the backend too."""
    THINKING = "thinking"
    """To be known, not to be said."""
    COMMENTARY = "commentary"
    """To be said."""


@dataclass(frozen=True, slots=True)
class StartSession:
    event_id: str
    session: JsonObject


@dataclass(frozen=True, slots=True)
class UpdateSession:
    event_id: str
    session: JsonObject


@dataclass(frozen=True, slots=True)
class AppendContext:
    event_id: str
    context: Context
    text: str
    delegation_id: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerCall:
    event_id: str
    call_id: str
    output: str


@dataclass(frozen=True, slots=True)
class ContinueResponse:
    """The backend may go on with the answers that it has."""

    event_id: str


@dataclass(frozen=True, slots=True)
class CloseSession:
    event_id: str


class SendSilence(NamedTuple):
    """Nothing came from the caller, and the model's clock must not stand still."""

    ms: int


ClientMessage: TypeAlias = (
    StartSession | UpdateSession | AppendContext | AnswerCall | ContinueResponse | CloseSession | SendSilence
)
