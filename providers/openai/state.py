"""
One OpenAI Realtime conversation, without its socket and without a clock.

The owner makes one call that changes it (``receive``, ``receive_audio``, a command or
``handle_timeout``), then sends ``to_send()``, reports ``events()`` and comes back at
``next_timeout()``. When :attr:`Conversation.lost` is set, the session is of no more use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from providers.liveness import Liveness
from providers.openai.calls import CallBook
from providers.openai.gate import Request, ResponseGate, Timing
from providers.openai.ledger import ItemLedger
from providers.openai.messages import (
    AddText,
    AgentTextReceived,
    AnswerCall,
    AskWhetherAlive,
    AudioFinished,
    AudioReceived,
    CallerIdle,
    CallerTextReceived,
    ClientMessage,
    ErrorReported,
    FunctionCall,
    FunctionCallReceived,
    ItemAdded,
    RateLimited,
    RepeatCall,
    ResponseCreated,
    ResponseFinished,
    ServerMessage,
    SpeechBegan,
    SpeechEnded,
    TranscriptionFailed,
    TruncateItem,
    TurnCommitted,
)
from providers.openai.usage import UsageMeter
from providers.types import (
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    HistoryItem,
    Interrupted,
    ProviderEvent,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    Said,
    SessionEnding,
    SpeechStarted,
    SpeechStopped,
    ToolCallsRequested,
    ToolUsed,
)
from tools.types import ToolResult, ToolStatus

FATAL = frozenset(
    {
        "account_deactivated",
        "beta_api_shape_disabled",
        "billing_hard_limit_reached",
        "insufficient_quota",
        "invalid_api_key",
        "session_expired",
    }
)
"""Error codes that end the session."""
FINAL = FATAL - {"session_expired"}
"""Those with which a new session would end the same way."""
_HARMLESS = frozenset({"input_audio_buffer_commit_empty"})
_RATE_LIMITS = frozenset({"rate_limit_exceeded", "inference_rate_limit_exceeded"})
_ROLES = {"caller": "user", "agent": "assistant", "system": "system"}
_TRANSCRIPTS_KEPT = 16
_ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds for what the conversation itself waits for; the gate has its own."""

    rate_limit_retry: float = 1.5
    """After a rate limit whose end is not known, before another response is asked for."""
    longest_retry: float = 5.0
    """The same after one whose end is known: nobody waits longer for an answer on the telephone."""
    transcript_wait: float = 10.0
    """From the end of a turn to its transcript; then what came so far is taken as final."""
    ending_margin: float = 300.0
    """How long before the end of the session ``SessionEnding`` is reported."""


class Loss(Enum):
    """Losses that we find ourselves."""

    STALLED = "stalled"


class Conversation:
    """
    Turns, tool calls, interruptions and failures of one session.

    Args:
        bytes_per_ms: Of the output format that the server confirmed.
        transcribes: Whether the server writes down what the caller says.
        timing: Limits of the response gate.
        patience: Limits of the rest.
    """

    def __init__(
        self,
        bytes_per_ms: int,
        *,
        transcribes: bool = True,
        timing: Timing | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.gate = ResponseGate(timing)
        self.ledger = ItemLedger(bytes_per_ms)
        self.spoke = False
        """Whether any audio was generated: from then on the voice is fixed."""
        self.lost: tuple[str, str] | None = None
        """``(code, message)`` when the session is gone."""
        self.liveness = Liveness()
        self.meter = UsageMeter()
        self._calls = CallBook()
        self._patience = patience or Patience()
        self._text_only = False
        """Whether the last response had no audio: the next one is told to speak."""
        self._retry_at = 0.0
        """When the next response may be asked for, after a rate limit."""
        self._transcribes = transcribes
        self._transcripts: dict[str, str] = {}
        self._settled: dict[str, None] = {}
        self._due: dict[str, float] = {}
        self._ending_at: float | None = None
        self._expires_at = 0.0
        self._limited_until = 0.0
        self._count = 0
        self._out: list[ClientMessage] = []
        self._events: list[ProviderEvent] = []

    # Commands of the call.

    def replay(self, history: Iterable[HistoryItem]) -> None:
        """Put in what was said and done before this session, as text; nothing is asked for."""
        for number, past in enumerate(history):
            match past:
                case Said(party, text):
                    self.add_text(text, _ROLES[party])
                case ToolUsed(call, output):
                    # An id of our own: that of another provider may be longer than this one takes.
                    call_id = f"call_before_{number}"
                    self._out.append(
                        RepeatCall(self._id("before"), call_id, call.name, call.arguments or "{}")
                    )
                    self._out.append(AnswerCall(self._id("before"), call_id, output))

    def respond(self, *, instructions: str | None = None, tools: bool = True, now: float) -> None:
        """Ask the model to speak as soon as it may."""
        request = Request(instructions, tools, self._text_only, not_before=self._retry_at)
        self.gate.request(request, now=now)

    def add_text(self, text: str, role: str) -> None:
        """Put a text item into the conversation."""
        item_id = self._id("item_text")
        self.gate.expect_item(item_id)
        self._out.append(AddText(self._id("text"), item_id, role, text))

    def answer(self, result: ToolResult) -> None:
        """Answer a tool call; a second answer and an unknown call are ignored."""
        if self._calls.answer(result.call_id):
            self._answer(result)

    def interrupt(self, item_id: str, heard_ms: int, *, now: float) -> None:
        """
        Stop the model: mute and cancel what runs, cut what was not heard.

        ``item_id`` is the item that was being played; empty when nothing was.
        """
        for response_id in self.gate.response_ids:
            self.ledger.mute(response_id)
        self._truncate(self.ledger.cut(item_id, heard_ms))
        self.gate.cancel(now=now)

    def expire_after(self, after: float, *, now: float) -> None:
        """Note that the server ends the session in ``after`` seconds."""
        self._expires_at = now + after
        self._ending_at = max(now, self._expires_at - self._patience.ending_margin)

    # What the server says.

    def receive_audio(self, message: AudioReceived, *, now: float) -> bool:
        """Count a piece of audio; returns whether the caller may hear it."""
        self.gate.receive_audio(now)
        self.liveness.heard(now)
        self.spoke, self._text_only = True, False
        return self.ledger.receive(message.response_id, message.item_id, len(message.audio))

    def receive(self, message: ServerMessage, *, now: float) -> None:
        """Take any other message; a late, repeated or unexpected one is harmless."""
        if isinstance(message, ErrorReported) and message.event_id.startswith(_ALIVE):
            self.liveness.answered(now)  # no progress of a response that runs
            return
        self.gate.progress(now)
        self.liveness.heard(now)
        match message:
            case AudioReceived():
                if self.receive_audio(message, now=now):
                    self._events.append(AudioDelta(message.item_id, message.audio))
            case AudioFinished(item_id):
                if self.ledger.finish(item_id):
                    self._events.append(AudioDone(item_id))
            case AgentTextReceived(item_id, text, final):
                self._events.append(AgentTranscript(item_id, text, final))
            case ResponseCreated(response_id):
                if self.gate.receive_created(response_id, now=now):
                    self.ledger.mute(response_id)
            case FunctionCallReceived(response_id, call):
                self._calls.announce(response_id, call)
            case ResponseFinished():
                self._finish(message, now)
            case ItemAdded(item_id, call_id):
                self.gate.receive_item(call_id or item_id)
            case ErrorReported():
                self._receive_error(message, now)
            case _:
                self._receive_caller(message, now)

    def _receive_caller(self, message: ServerMessage, now: float) -> None:
        match message:
            case SpeechBegan():
                self.gate.receive_speech_started(now=now)
                self._events += SpeechStarted(), Interrupted()
            case SpeechEnded():
                self.gate.receive_speech_stopped(now=now)
                self._events.append(SpeechStopped())
            case CallerIdle(item_id):
                self._settle(item_id)  # nothing was said, so nothing is written down
            case RateLimited(reset_after):
                self._limited_until = now + reset_after
            case TurnCommitted(item_id):
                self._open_transcript(item_id, now)
            case CallerTextReceived(item_id, text, final=False):
                self._add_transcript(item_id, text, now)
            case CallerTextReceived(item_id, text, final=True):
                self.meter.transcript(item_id, message.usage)
                self._settle_transcript(item_id, text)
            case TranscriptionFailed(item_id, code):
                self._settle_transcript(item_id, None)
                self._warn("transcription_failed", code or "the caller's words could not be written down")
            case _:
                pass  # session.created and session.updated belong to the shell

    def handle_timeout(self, *, now: float) -> None:
        """Fire every timer that is due. Calling early is harmless."""
        self.gate.handle_timeout(now=now)
        if self.gate.take_ignored():
            self._fail("response_not_created")
        if self.liveness.handle_timeout(now):
            self._out.append(AskWhetherAlive(self._id(_ALIVE)))
        if (self.gate.stalled or self.liveness.dead) and self.lost is None:
            self.lost = (Loss.STALLED.value, "the provider stopped answering")
        for item_id in [item_id for item_id, at in self._due.items() if at <= now]:
            self._settle_transcript(item_id, None)
        if self._ending_at is not None and self._ending_at <= now:
            self._ending_at = None
            self._events.append(SessionEnding(after=max(0.0, self._expires_at - now)))

    # Outputs.

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        others = (self.gate.next_timeout(), self.liveness.next_timeout(), self._ending_at)
        return min([*self._due.values(), *(at for at in others if at is not None)], default=None)

    def to_send(self) -> list[ClientMessage]:
        """Take what is ready for the wire, answers and cuts before requests."""
        ready, self._out = [*self._out, *self.gate.to_send()], []
        return ready

    def events(self) -> list[ProviderEvent]:
        """Take what the call has to know."""
        ready, self._events = self._events, []
        return ready

    # Responses.

    def _finish(self, message: ResponseFinished, now: float) -> None:
        response_id = message.response_id
        muted = self.ledger.is_muted(response_id)
        self._events += (AudioDone(item_id) for item_id in self.ledger.finish_response(response_id))
        if muted:
            self._truncate(self.ledger.cut_unheard(response_id))
        completed = message.status is ResponseStatus.COMPLETED
        todo, refused = self._calls.settle(response_id, message.calls, run=completed and not muted)
        for call in refused:
            self._refuse(call, "response_interrupted" if muted else f"response_{message.status.value}")
        if todo:
            self._events.append(ToolCallsRequested(response_id, todo))
        self._text_only = not muted and not todo and not self.ledger.has_audio(response_id)
        # What was interrupted was cancelled, even if its last word came before our cancel did.
        status = ResponseStatus.CANCELLED if muted else message.status
        reason = message.reason or message.error
        self.meter.response(response_id, message.usage)
        self._events.append(ResponseDone(response_id, status, reason))
        self.gate.receive_finished(response_id, completed=completed, now=now)
        if message.error in FATAL:
            self.lost = (message.error, "the provider ends the session")
        elif message.error in _RATE_LIMITS:
            self._wait_for_limit(message.retry_after, now)
        self.gate.advance(now=now)

    def _wait_for_limit(self, retry_after: float | None, now: float) -> None:
        """Hold the next request back until the limit is over, as far as that is known."""
        known = max(retry_after or 0.0, self._limited_until - now)
        wait = min(known, self._patience.longest_retry) if known > 0 else self._patience.rate_limit_retry
        self._retry_at = now + wait

    def _fail(self, reason: str) -> None:
        """Report a response that was asked for and never began."""
        self._events.append(ResponseDone("", ResponseStatus.FAILED, reason=reason))

    def _receive_error(self, error: ErrorReported, now: float) -> None:
        code = error.code or error.kind
        match code:
            case _ if code in FATAL:
                self.lost = (code, "the provider ends the session")
            case "conversation_already_has_active_response":
                if not self.gate.receive_active_elsewhere(error.event_id, error.message, now=now):
                    self._warn(code, "a response was refused twice, because another one is active")
            case "response_cancel_not_active":
                self.gate.receive_nothing_to_cancel(now=now)
            case _ if code in _HARMLESS:
                pass
            case _:
                self._warn(code, error.message)
                if self.gate.receive_refusal(error.event_id):
                    self._fail(code)

    # Tool calls.

    def _refuse(self, call: FunctionCall, reason: str) -> None:
        """Answer a call that must not run, so that the conversation holds no open call."""
        self._answer(ToolResult(call.call_id, call.name, ToolStatus.FAILED, reason_code=reason))

    def _answer(self, result: ToolResult) -> None:
        self.gate.expect_item(result.call_id)
        self._out.append(AnswerCall(self._id("answer"), result.call_id, result.to_json()))

    # Transcripts: they come late and in any order, so the turn is opened when it is committed.

    def _open_transcript(self, item_id: str, now: float) -> None:
        if not self._transcribes or item_id in self._transcripts or item_id in self._settled:
            return
        self._transcripts[item_id] = ""
        self._due[item_id] = now + self._patience.transcript_wait
        if len(self._transcripts) > _TRANSCRIPTS_KEPT:
            self._settle_transcript(next(iter(self._transcripts)), None)
        self._events.append(CallerTranscript(item_id, "", final=False))

    def _add_transcript(self, item_id: str, text: str, now: float) -> None:
        self._open_transcript(item_id, now)
        if item_id in self._transcripts:  # a piece that comes after the whole adds nothing
            self._transcripts[item_id] += text
            self._events.append(CallerTranscript(item_id, text, final=False))

    def _settle_transcript(self, item_id: str, text: str | None) -> None:
        """Report the whole, or with ``None`` what came so far; a late whole is reported again."""
        so_far = self._transcripts.pop(item_id, "")
        self._due.pop(item_id, None)
        if text is None and item_id in self._settled:
            return
        self._settle(item_id)
        whole = so_far if text is None else text
        self._events.append(CallerTranscript(item_id, whole, final=True, partial=text is None))

    def _settle(self, item_id: str) -> None:
        self._settled[item_id] = None
        if len(self._settled) > _TRANSCRIPTS_KEPT:
            del self._settled[next(iter(self._settled))]

    # Small things.

    def _truncate(self, cuts: list[tuple[str, int]]) -> None:
        self._out += (TruncateItem(self._id("cut"), item_id, heard_ms) for item_id, heard_ms in cuts)

    def _warn(self, code: str, message: str) -> None:
        self._events.append(ProviderWarning(code, message))

    def _id(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count}"
