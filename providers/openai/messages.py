"""
What an OpenAI Realtime server and we say to each other, as data.

``wire`` turns JSON into these and back; ``state`` reads and makes nothing else. Only what a
call needs is here: an event that has no class is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from providers.types import AudioFormat, ResponseStatus, Usage
from tools.types import JsonObject

# What the server says.


class AudioReceived(NamedTuple):
    """A piece of the model's voice; a tuple because it is on the audio path."""

    response_id: str
    item_id: str
    audio: bytes


@dataclass(frozen=True, slots=True)
class AudioFinished:
    item_id: str


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The parts of a session object that we rely on; ``None`` where the server does not say."""

    input: AudioFormat | None = None
    output: AudioFormat | None = None
    tools: frozenset[str] | None = None
    expires_at: float | None = None
    """Unix time."""


@dataclass(frozen=True, slots=True)
class SessionCreated:
    session: SessionFacts


@dataclass(frozen=True, slots=True)
class SessionUpdated:
    session: SessionFacts


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    response_id: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    call_id: str
    name: str
    arguments: str
    completed: bool
    """Whether the model wrote the arguments to their end."""


@dataclass(frozen=True, slots=True)
class FunctionCallReceived:
    """A function call item began or ended; the response is still running."""

    response_id: str
    call: FunctionCall


@dataclass(frozen=True, slots=True)
class ResponseFinished:
    response_id: str
    status: ResponseStatus
    reason: str = ""
    error: str = ""
    """The provider's code when the response failed."""
    retry_after: float | None = None
    """When to try again, in seconds, where the error says it."""
    calls: tuple[FunctionCall, ...] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class AgentTextReceived:
    """Transcript of the model's voice; ``final`` text is the whole."""

    item_id: str
    text: str
    final: bool


@dataclass(frozen=True, slots=True)
class CallerTextReceived:
    """Transcript of the caller; ``final`` text is the whole and says what it took to write it."""

    item_id: str
    text: str
    final: bool
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class TranscriptionFailed:
    item_id: str
    code: str


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    pass


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    pass


@dataclass(frozen=True, slots=True)
class TurnCommitted:
    """The caller's speech became an item of the conversation."""

    item_id: str


@dataclass(frozen=True, slots=True)
class CallerIdle:
    """Nobody spoke for as long as we allowed: silence becomes an item, and the server answers it."""

    item_id: str


@dataclass(frozen=True, slots=True)
class RateLimited:
    """A limit of the account that is used up; a response before it is reset would fail."""

    reset_after: float


@dataclass(frozen=True, slots=True)
class ItemAdded:
    """An item is in the conversation; ``call_id`` is set for a function call's output."""

    item_id: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class ErrorReported:
    kind: str
    code: str
    message: str
    event_id: str
    """The client event that it answers, or empty."""
    param: str = ""


ServerMessage: TypeAlias = (
    AudioReceived
    | AudioFinished
    | SessionCreated
    | SessionUpdated
    | ResponseCreated
    | FunctionCallReceived
    | ResponseFinished
    | AgentTextReceived
    | CallerTextReceived
    | TranscriptionFailed
    | SpeechBegan
    | SpeechEnded
    | TurnCommitted
    | CallerIdle
    | RateLimited
    | ItemAdded
    | ErrorReported
)


# What we say. Every one carries an ``event_id``, which comes back in an error about it.


@dataclass(frozen=True, slots=True)
class UpdateSession:
    event_id: str
    session: JsonObject


@dataclass(frozen=True, slots=True)
class CreateResponse:
    event_id: str
    instructions: str | None = None
    tools: bool = True
    audio_only: bool = False
    """Name the modality again, because the last response came without a voice."""


@dataclass(frozen=True, slots=True)
class CancelResponse:
    event_id: str
    response_id: str


@dataclass(frozen=True, slots=True)
class TruncateItem:
    event_id: str
    item_id: str
    heard_ms: int


@dataclass(frozen=True, slots=True)
class AddText:
    event_id: str
    item_id: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class RepeatCall:
    """A call that another session made and that was answered there; its answer follows."""

    event_id: str
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AnswerCall:
    event_id: str
    call_id: str
    output: str


@dataclass(frozen=True, slots=True)
class AskWhetherAlive:
    """A request that changes nothing; the server answers it with an error that names ``event_id``."""

    event_id: str


ClientMessage: TypeAlias = (
    UpdateSession
    | CreateResponse
    | CancelResponse
    | TruncateItem
    | AddText
    | RepeatCall
    | AnswerCall
    | AskWhetherAlive
)
