"""
What happened in a call, for everybody who only listens: recording, metrics, later the console and webhooks.

Every event names its call and when it happened: ``at`` is seconds since the call arrived, on one
monotonic clock, for audio as for everything else. Audio events are tuples because there are fifty
a second for each direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gateway.calls.cost import Bill, Line
from gateway.media.quality import MediaQuality
from providers.types import AudioFormat
from tools.types import JsonObject


class CallerAudioFrame(NamedTuple):
    """Caller audio in the line's format, as it was heard (after reordering and concealment)."""

    call_id: str
    at: float
    audio: bytes


class AgentAudioFrame(NamedTuple):
    """Agent audio in the line's format, at the moment it was really sent."""

    call_id: str
    at: float
    audio: bytes


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call arrived and is ringing. ``wall_time`` is Unix time; ``at`` is 0."""

    call_id: str
    at: float
    wall_time: float
    caller: str
    called: str
    trunk: str
    agent: str
    format: AudioFormat
    organization: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What the network says of the call, by name."""


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """The call was answered; the session is configured."""

    call_id: str
    at: float
    provider: str


@dataclass(frozen=True, slots=True)
class CallerSpeech:
    """The caller began (``started``) or stopped speaking, as the provider hears it."""

    call_id: str
    at: float
    started: bool


@dataclass(frozen=True, slots=True)
class CallerTurn:
    """A turn of the caller is over and has its place in the conversation; its transcript comes later."""

    call_id: str
    at: float
    item_id: str


@dataclass(frozen=True, slots=True)
class CallerSaid:
    """
    The final transcript of one turn of the caller, or of a ``colleague`` who is asked (``party``).

    ``partial`` says that its transcription failed and this is only what came before.
    """

    call_id: str
    at: float
    item_id: str
    text: str
    party: str = "caller"
    partial: bool = False


@dataclass(frozen=True, slots=True)
class AgentSaid:
    """
    One item of the agent, when it was heard to its end or cut off.

    ``text`` is what the model said; ``heard_ms`` how much of its ``total_ms`` the caller heard, and
    ``began`` when the first of it was heard, in seconds like ``at``; ``None`` when nothing was. ``party``
    is who heard it: the ``caller``, or a ``colleague`` who is asked to take the call.
    """

    call_id: str
    at: float
    item_id: str
    text: str
    heard_ms: int
    total_ms: int = 0
    began: float | None = None
    party: str = "caller"


@dataclass(frozen=True, slots=True)
class BargedIn:
    """The caller interrupted the agent."""

    call_id: str
    at: float
    item_id: str
    heard_ms: int
    dropped_ms: int


@dataclass(frozen=True, slots=True)
class RecoveryStepTaken:
    """
    Something was done for a call whose model fails; ``step`` is a word of ``gateway.calls.recovery.Step``.

    ``provider`` is who speaks for the agent then; ``after_ms``, with ``spoke_again``, how long nothing of the
    model came.
    """

    call_id: str
    at: float
    step: str
    reason: str
    provider: str
    after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReplyMissed:
    """
    The caller hears nothing where an answer is due, and something is done about it.

    ``fault`` is a word of ``gateway.calls.repair.Fault``, ``waited_ms`` how long the answer had been due, and
    ``detail`` the provider's word for what went wrong.
    """

    call_id: str
    at: float
    fault: str
    waited_ms: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ReplyHeard:
    """The caller hears the agent again, ``after_ms`` after :class:`ReplyMissed`."""

    call_id: str
    at: float
    fault: str
    after_ms: int


@dataclass(frozen=True, slots=True)
class CallerWasSilent:
    """Nobody said anything for long; ``act`` is ``nudge`` (the caller is asked) or ``hang_up``."""

    call_id: str
    at: float
    act: str


@dataclass(frozen=True, slots=True)
class DtmfHeard:
    call_id: str
    at: float
    digit: str


@dataclass(frozen=True, slots=True)
class FirstAudio:
    """The first agent audio of a response was sent, ``latency_ms`` after the caller stopped speaking."""

    call_id: str
    at: float
    latency_ms: int


@dataclass(frozen=True, slots=True)
class ToolCalled:
    call_id: str
    at: float
    tool_call_id: str
    tool: str
    arguments: str
    """JSON text as the model sent it."""


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    call_id: str
    at: float
    tool_call_id: str
    tool: str
    status: str
    """A value of ``ToolStatus``."""
    reason_code: str = ""
    data: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransferChanged:
    """
    A step of the ladder requested, announced, redirecting, confirmed or failed (C-6).

    ``method`` is ``refer`` (the trunk does it), ``bridge`` (we call, and join the two) or ``warm`` (as
    ``bridge``, after the colleague agreed); empty where it is not chosen yet.
    """

    call_id: str
    at: float
    state: str
    destination: str
    status: int = 0
    reason: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True)
class CostChanged:
    """The call has consumed more: its whole bill, and what came since the event before."""

    call_id: str
    at: float
    bill: Bill
    added: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class LimitTold:
    """
    A limit of the call is near, or ``reached``: then the agent was asked to say goodbye.

    ``limit`` is ``duration_limit`` (seconds) or ``cost_limit`` (US dollars).
    """

    call_id: str
    at: float
    limit: str
    reached: bool
    used: float
    allowed: float


@dataclass(frozen=True, slots=True)
class MediaMeasured:
    """How the media of a call went, once it is over; published before :class:`CallEnded`."""

    call_id: str
    at: float
    quality: MediaQuality


@dataclass(frozen=True, slots=True)
class SipMessage:
    """
    A SIP message of the call, without its secrets; only where ``storage.sip_trace`` is on.

    The first ones come before :class:`CallStarted`, the last ones after :class:`CallEnded`.
    """

    call_id: str
    at: float
    sent: bool
    transport: str
    local: str
    """Our host and port, as the peer reaches us."""
    remote: str
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """
    The last event of a call itself. ``by`` is ``caller``, ``agent`` or ``gateway``, and ``callee`` for
    somebody whom the call was transferred to.
    """

    call_id: str
    at: float
    reason: str
    by: str = ""


AudioEvent: TypeAlias = CallerAudioFrame | AgentAudioFrame
CallEvent: TypeAlias = (
    AudioEvent
    | CallStarted
    | CallAnswered
    | CallerSpeech
    | CallerTurn
    | CallerSaid
    | AgentSaid
    | BargedIn
    | RecoveryStepTaken
    | ReplyMissed
    | ReplyHeard
    | CallerWasSilent
    | DtmfHeard
    | FirstAudio
    | ToolCalled
    | ToolAnswered
    | TransferChanged
    | CostChanged
    | LimitTold
    | MediaMeasured
    | SipMessage
    | CallEnded
)
