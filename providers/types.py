"""
What every speech model has in common, as data: formats, capabilities, events.

A call asks capabilities by flag and never by a vendor's name, and matches on the closed union
:data:`ProviderEvent`. This module imports no SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, StrEnum
from typing import Literal, NamedTuple, TypeAlias

from config.turns import TurnDetection
from tools.types import AgentToolDefinition, ToolCall


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """Mono audio on a wire. G.711 has 8 bits a sample, ``pcm16`` is little-endian."""

    encoding: Literal["pcmu", "pcma", "pcm16"]
    rate: int

    @property
    def bytes_per_ms(self) -> int:
        return self.rate // 1000 * (2 if self.encoding == "pcm16" else 1)


PCMU = AudioFormat("pcmu", 8000)
PCMA = AudioFormat("pcma", 8000)
PCM16_16K = AudioFormat("pcm16", 16000)
PCM16_24K = AudioFormat("pcm16", 24000)


class TurnModel(StrEnum):
    """How turns and tools interleave."""

    TURN_BASED = "turn_based"
    """The client creates, cancels and truncates responses (OpenAI Realtime)."""
    ASYNC_TOOLS = "async_tools"
    """The server takes turns itself and may talk while tools run (Gemini Live)."""
    DUPLEX = "duplex"
    """The model listens while it talks; there are no turn events (GPT-Live)."""


class Part(StrEnum):
    """A part of a session that a ``CallUpdate`` can name."""

    PROMPT = "prompt"
    LANGUAGE = "language"
    VOICE = "voice"
    TOOLS = "tools"


class Updatable(StrEnum):
    LIVE = "live"
    NEXT_SESSION = "next_session"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a session can do; fixed for its life."""

    inputs: tuple[AudioFormat, ...]
    """Formats that ``send_audio`` can take, the best first."""
    outputs: tuple[AudioFormat, ...]
    turn_model: TurnModel
    truncates: bool
    """Whether the model can be told how much of an item was heard."""
    cancels: bool
    resumes: bool
    updates: Mapping[Part, Updatable] = field(default_factory=dict)
    native_tools: frozenset[str] = frozenset()

    def input_for(self, line: AudioFormat) -> AudioFormat:
        """Choose the input format for a line: its own if possible, so that nothing is converted."""
        return line if line in self.inputs else self.inputs[0]

    def output_for(self, line: AudioFormat) -> AudioFormat:
        return line if line in self.outputs else self.outputs[0]


@dataclass(frozen=True, slots=True)
class Said:
    """Something that was said before a session began; of the agent only what the caller heard."""

    party: Literal["caller", "agent", "system"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolUsed:
    """A tool call that was answered before a session began."""

    call: ToolCall
    output: str
    """As the model got it."""


HistoryItem: TypeAlias = Said | ToolUsed


@dataclass(frozen=True, slots=True)
class Usage:
    """
    What a session has consumed since it began: tokens by kind, or seconds where those are billed.

    All zero, as :attr:`nothing` says, is what a provider has that told of nothing yet: unknown, not free.
    """

    text_in: int = 0
    """Without :attr:`cached_text_in`."""
    audio_in: int = 0
    """Without :attr:`cached_audio_in`."""
    cached_text_in: int = 0
    cached_audio_in: int = 0
    text_out: int = 0
    audio_out: int = 0
    seconds: float = 0.0
    others: Mapping[str, Usage] = field(default_factory=dict, hash=False)
    """What further models did for this session at their own prices, by model: the one that writes down the
    caller, say. Not contained in the figures above."""

    def __add__(self, other: Usage) -> Usage:
        others = dict(self.others)
        for model, usage in other.others.items():
            others[model] = others.get(model, Usage()) + usage
        amounts = {name: getattr(self, name) + getattr(other, name) for name in AMOUNTS}
        return Usage(**amounts, others=others)

    @property
    def nothing(self) -> bool:
        """Whether not one figure was told yet."""
        return all(not getattr(self, name) for name in AMOUNTS) and all(
            usage.nothing for usage in self.others.values()
        )


AMOUNTS = tuple(each.name for each in fields(Usage) if each.name != "others")
"""The names of the figures of :class:`Usage`: what has a price."""


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """Everything a session is configured with before the call is answered."""

    prompt: str
    addendum: str
    """The tools' prompt sections, appended to the prompt by every provider alike (L-29)."""
    tools: tuple[AgentToolDefinition, ...]
    line: AudioFormat
    """The telephone line's format; the provider picks its own by ``Capabilities``."""
    voice: str | None = None
    language: str | None = None
    vendor_tools: tuple[str, ...] = ()
    turn_detection: TurnDetection | None = None
    """The agent's own; its keys go before those of the provider's settings."""
    history: tuple[HistoryItem, ...] = ()
    """The call so far, the oldest first, where this session goes on with what another began."""

    @property
    def instructions(self) -> str:
        """The prompt and, where there is one, the addendum joined by a blank line."""
        return f"{self.prompt}\n\n{self.addendum}" if self.addendum else self.prompt


# Events, at most twelve. Frozen, slotted; ``AudioDelta`` is a tuple because it is on the audio path.


class AudioDelta(NamedTuple):
    """A piece of the model's voice in ``ProviderSession.output``, usually ahead of real time."""

    item_id: str
    audio: bytes


@dataclass(frozen=True, slots=True)
class AudioDone:
    """No more audio will come for this item."""

    item_id: str


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The provider hears the caller speak."""


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The provider hears the caller pause."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What is playing must stop now: the caller barged in."""


@dataclass(frozen=True, slots=True)
class CallerTranscript:
    """
    What the caller said in one turn; ``final`` text replaces the deltas before it.

    The first of an item may be empty: the turn has its place in the conversation, and its words come later,
    in any order. ``partial`` text is final, too, but not all that was said: its transcription failed.
    """

    item_id: str
    text: str
    final: bool
    partial: bool = False


@dataclass(frozen=True, slots=True)
class AgentTranscript:
    """What the model says (not yet: what was heard)."""

    item_id: str
    text: str
    final: bool


@dataclass(frozen=True, slots=True)
class ToolCallsRequested:
    """
    All tool calls of one finished response; each must be answered exactly once.

    Calls of an interrupted response never arrive here: the session answers them itself.
    """

    response_id: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class ToolCallsCancelled:
    """The model no longer wants these answers; what has begun may finish, unsent."""

    call_ids: tuple[str, ...]


class ResponseStatus(Enum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """A response was generated in full (not: heard)."""

    response_id: str
    status: ResponseStatus
    reason: str = ""


NO_ANSWER = "no_answer"
"""The code of the warning that no answer will come, where no response says so (:class:`ResponseDone`)."""


CONNECTION_LOST = "connection_lost"
"""The code of the warning that a session lost its connection and looks for another one by itself."""


@dataclass(frozen=True, slots=True)
class ProviderWarning:
    """
    Something went wrong that does not end the session.

    With the code :data:`NO_ANSWER` the caller hears nothing unless the call does something.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SessionEnding:
    """The provider will close the session in ``after`` seconds."""

    after: float


ProviderEvent: TypeAlias = (
    AudioDelta
    | AudioDone
    | SpeechStarted
    | SpeechStopped
    | Interrupted
    | CallerTranscript
    | AgentTranscript
    | ToolCallsRequested
    | ToolCallsCancelled
    | ResponseDone
    | ProviderWarning
    | SessionEnding
)
