"""
One GPT-Live conversation, without its socket and without a clock.

The owner makes one call that changes it (``receive``, ``receive_audio``, ``caller_audio``, a command or
``handle_timeout``), then sends ``to_send()``, reports ``events()`` and comes back at ``next_timeout()``. When
:attr:`Conversation.lost` is set, the session is of no more use.
"""

from __future__ import annotations

from dataclasses import dataclass

from providers.openai_live.backend import Backend
from providers.openai_live.config import CONTENT_BYTES, backend_session, pieces
from providers.openai_live.ear import Ear, Heard
from providers.openai_live.level import Power
from providers.openai_live.messages import (
    AgentTextReceived,
    AnswerCall,
    AppendContext,
    CallerTextReceived,
    ClientMessage,
    Context,
    ContinueResponse,
    ErrorReported,
    FunctionCallReceived,
    ResponseBegan,
    ResponseFinished,
    SendSilence,
    ServerMessage,
    SessionClosed,
    TaskDelegated,
    UpdateSession,
    UsageReported,
)
from providers.openai_live.turns import CallerTurns
from providers.openai_live.uplink import Uplink
from providers.openai_live.voice import Voice
from providers.types import (
    NO_ANSWER,
    AudioDelta,
    ProviderEvent,
    ProviderWarning,
    ResponseStatus,
    SessionEnding,
    SpeechStarted,
    SpeechStopped,
    Usage,
)
from tools.types import ToolResult

FATAL = frozenset(
    {
        "account_deactivated",
        "billing_hard_limit_reached",
        "insufficient_quota",
        "invalid_api_key",
        "session_expired",
    }
)
"""Error codes that end the session."""
STALLED_S = 6.0
"""A server that streams its silence, too, and then sends nothing for so long, is gone."""
_ANSWER_PAUSE_MS = 100
"""A caller who was quiet for so long when the agent begins has finished."""
_SPEAK = "Say now what the caller should hear next."
_SPEAK_THAT = "React now to what was just added, in your own words."
_NO_HELP = "Nobody can do this task. Answer from what you know, or say that it is not possible."


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds."""

    retry: float = 0.25
    """Before a refused request to speak is repeated."""
    ending_margin: float = 300.0
    """How long before the end of the session ``SessionEnding`` is reported."""


class Conversation:
    """
    Utterances, turns, tool calls and failures of one session.

    Args:
        voice: Cuts the model's stream.
        ear: Listens to the caller.
        backend_model: Under this name the backend's tokens are counted.
        patience: Limits.
    """

    def __init__(
        self, voice: Voice, ear: Ear, *, backend_model: str, patience: Patience | None = None
    ) -> None:
        self.voice = voice
        self.ear = ear
        self.uplink = Uplink()
        self.usage = Usage()
        self.lost: tuple[str, str] | None = None
        """``(code, message)`` when the session is gone."""
        self._patience = patience or Patience()
        self._turns = CallerTurns()
        self._backend = Backend()
        self._backend_model = backend_model
        self._tokens = Usage()
        """Of the backend."""
        self._seconds = 0.0
        self._forbidden = False
        """Whether the backend was told not to call tools in what it answers next."""
        self._requests: dict[str, str] = {}
        """What was asked to be said, by the event that asked."""
        self._again: tuple[float, str] | None = None
        self._refused = False
        self._texts = False
        """Whether a text was added that nobody has asked to react to."""
        self._frame_at = 0.0
        self._streams = False
        self._ending_at: float | None = None
        self._expires_at = 0.0
        self._count = 0
        self._out: list[ClientMessage] = []
        self._events: list[ProviderEvent] = []

    # Commands of the call.

    def begin(self, *, now: float) -> None:
        """Somebody listens: the model's clock runs from now on, whatever comes from the caller."""
        if self.uplink.next_timeout() is None:
            self.uplink.begin(now)
            self._frame_at = now

    def caller_audio(self, power: Power, ms: int, *, now: float) -> None:
        """Count audio of the caller, which the owner sends; on the audio path."""
        self.begin(now=now)
        self.uplink.sent(ms, now)
        self._hear(power, ms, now)

    def _hear(self, power: Power, ms: int, now: float) -> None:
        ear = self.ear
        heard = ear.hear(power, ms, agent_heard=self.voice.audible)
        if heard is Heard.STARTED:
            self._allow_tools(True)  # they were forbidden for what was asked for before
            self.voice.caller_began()
            self._turns.began(ear.began_ms)
            self._events.append(SpeechStarted())
            self.voice.caller_spoke(ear.heard_ms - ear.began_ms, loud=True)
        elif heard is Heard.STOPPED:
            self._caller_stopped(now)
        elif ear.speaking:
            self.voice.caller_spoke(ms, loud=ear.loud)

    def _caller_stopped(self, now: float) -> None:
        self.voice.caller_stopped()
        self._turns.stopped(now)
        self._events.append(SpeechStopped())

    def respond(self, *, instructions: str | None = None, tools: bool = True, now: float) -> None:
        """Ask the model to speak: to go on with the tools' answers where there are any, else at once."""
        self.begin(now=now)
        self._allow_tools(tools)
        if instructions is None and self._backend.owes:
            self._texts = False
            self._backend.go_on()
            self._go_on()
            return
        self._ask(instructions or (_SPEAK_THAT if self._texts else _SPEAK))
        self._texts = False

    def add_text(self, text: str, role: str) -> None:
        """Put a text into the conversation: a system's is an instruction, any other is to be known."""
        self._append(Context.INSTRUCTIONS if role == "system" else Context.THINKING, text)
        self._texts = True

    def instruct(self, text: str) -> str:
        """Add to the instructions for good; returns the id of the last event of it."""
        return self._append(Context.INSTRUCTIONS, text)

    def answer(self, result: ToolResult) -> None:
        """Answer a tool call; a second answer and an unknown call are ignored."""
        if self._backend.answer(result.call_id):
            self._out.append(AnswerCall(self._id("answer"), result.call_id, result.to_json()))
            self._go_on()

    def interrupt(self, item_id: str, heard_ms: int, *, now: float) -> None:
        """Mute the model until it was silent, and tell it what of ``item_id`` was heard."""
        note = self.voice.interrupt(item_id, heard_ms, now=now)
        if note:
            self._append(Context.THINKING, note)

    def expire_after(self, after: float, *, now: float) -> None:
        """Note that the server ends the session in ``after`` seconds."""
        self._expires_at = now + after
        self._ending_at = max(now, self._expires_at - self._patience.ending_margin)

    # What the server says.

    def receive_audio(self, audio: bytes, *, loud: bool, now: float) -> AudioDelta | None:
        """Take a piece of the model's stream; returns what the caller hears of it."""
        self._frame_at = now
        self._streams = self._streams or not loud
        began = self.voice.audible
        played = self.voice.receive(audio, loud=loud, now=now)
        if self.voice.audible and not began:
            self._agent_began(now)
        return played

    def _agent_began(self, now: float) -> None:
        self._refused = False
        self._turns.agent_began()
        if self.ear.pausing_ms >= _ANSWER_PAUSE_MS:
            self.ear.stop()
            self._caller_stopped(now)

    def receive(self, message: ServerMessage, *, now: float) -> None:
        """Take any other message; a late, repeated or unexpected one is harmless."""
        self._frame_at = now
        match message:
            case AgentTextReceived(text, start_ms, end_ms):
                self.voice.words(text, start_ms, end_ms)
            case CallerTextReceived(text, start_ms, end_ms):
                self._turns.words(text, start_ms, end_ms, now=now)
            case TaskDelegated(delegation_id, to_client=True):
                self._append(Context.THINKING, _NO_HELP, delegation_id)
            case ResponseBegan():
                self._backend.begin(message)
            case FunctionCallReceived():
                self._backend.announce(message)
            case ResponseFinished():
                self._finish(message)
            case UsageReported(seconds):
                self._count_usage(seconds)
            case SessionClosed(reason, seconds):
                self._count_usage(seconds)
                self.lose(reason, f"the provider closed the session: {reason}")
            case ErrorReported():
                self._receive_error(message, now)
            case _:
                pass  # audio has its own way, the rest belongs to the shell

    def _finish(self, message: ResponseFinished) -> None:
        self._tokens += message.usage
        self._count_usage(self._seconds)
        events, refusals = self._backend.finish(message)
        if events:  # what comes of it may end the call: first, what was said before
            self._turns.settle()
            self.voice.release()
            self._events += [*self._turns.events(), *self.voice.events()]
        self._events += events
        for result in refusals:
            self._out.append(AnswerCall(self._id("answer"), result.call_id, result.to_json()))
        if message.status is ResponseStatus.FAILED:
            code = message.error or "response_failed"
            if code in FATAL:
                self.lose(code, "the provider ends the session")
            self._warn(code, "the backend failed")
        self._allow_tools(True)

    def _receive_error(self, error: ErrorReported, now: float) -> None:
        code = error.code or error.kind
        if code in FATAL:
            self.lose(code, "the provider ends the session")
            return
        self._warn(code, error.message)
        text = self._requests.pop(error.event_id, None)
        if text is None:
            return
        if self._refused:
            self._refused = False
            self._warn(NO_ANSWER, f"the model was not allowed to answer twice: {code}")
        else:
            self._refused = True
            self._again = (now + self._patience.retry, text)

    def lose(self, code: str, message: str) -> None:
        """Give the session up; what was said so far is reported."""
        if self.lost is None:
            self.lost = (code, message)
            self._turns.settle()
            self.voice.stop()

    # Time.

    def handle_timeout(self, *, now: float) -> None:
        """Fire every timer that is due. Calling early is harmless."""
        silence_ms = self.uplink.fill(now)
        if silence_ms:
            self._out.append(SendSilence(silence_ms))
            self._hear(0.0, silence_ms, now)
        self.voice.handle_timeout(now=now)
        self._turns.handle_timeout(now=now)
        if self._again is not None and now >= self._again[0]:
            (_, text), self._again = self._again, None
            self._ask(text)
        if self._ending_at is not None and now >= self._ending_at:
            self._ending_at = None
            self._events.append(SessionEnding(after=max(0.0, self._expires_at - now)))
        stalled_at = self._stalled_at()
        if stalled_at is not None and now >= stalled_at:
            self.lose("stalled", "the provider sends nothing any more")

    def _stalled_at(self) -> float | None:
        return self._frame_at + STALLED_S if self._streams and self.lost is None else None

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        times = (
            self.uplink.next_timeout(),
            self.voice.next_timeout(),
            self._turns.next_timeout(),
            self._ending_at,
            None if self._again is None else self._again[0],
            self._stalled_at(),
        )
        return min((at for at in times if at is not None), default=None)

    def to_send(self) -> list[ClientMessage]:
        """Take what is ready for the wire."""
        ready, self._out = self._out, []
        return ready

    @property
    def has_events(self) -> bool:
        """Whether :meth:`events` has something; on the audio path."""
        return bool(self._events) or self.voice.has_events or self._turns.has_events

    def events(self) -> list[ProviderEvent]:
        """Take what the call has to know."""
        ready = [*self._events, *self._turns.events(), *self.voice.events()]
        self._events = []
        return ready

    # Small things.

    def _go_on(self) -> None:
        if self._backend.take_go_on():
            self._out.append(ContinueResponse(self._id("continue")))

    def _allow_tools(self, allowed: bool) -> None:
        if allowed != self._forbidden:
            return
        self._forbidden = not allowed
        session = backend_session({"tool_choice": "auto" if allowed else "none"})
        self._out.append(UpdateSession(self._id("choice"), session))

    def _ask(self, text: str) -> None:
        """Ask the model to say something; what is too long for one event becomes an instruction first."""
        if len(text.encode()) > CONTENT_BYTES:
            self._append(Context.INSTRUCTIONS, text)
            text = _SPEAK_THAT
        self._requests = {self._append(Context.COMMENTARY, text): text}

    def _append(self, context: Context, text: str, delegation_id: str | None = None) -> str:
        event_id = ""
        for piece in pieces(text):
            event_id = self._id(context.value)
            self._out.append(AppendContext(event_id, context, piece, delegation_id))
        return event_id

    def _count_usage(self, seconds: float) -> None:
        self._seconds = max(self._seconds, seconds)
        others = {} if self._tokens.nothing else {self._backend_model: self._tokens}
        self.usage = Usage(seconds=self._seconds, others=others)

    def _warn(self, code: str, message: str) -> None:
        self._events.append(ProviderWarning(code, message))

    def _id(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count}"
