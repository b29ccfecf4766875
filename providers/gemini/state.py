"""
One Gemini Live conversation, without its socket and without a clock.

The owner makes one call that changes it (``receive``, ``receive_audio``, a command or ``handle_timeout``),
then sends ``to_send()``, reports ``events()`` and comes back at ``next_timeout()``. When ``lost`` is set, the
session is of no more use; when ``stuck`` is, another connection of it may be.

The server takes the turns. A turn of the model begins with its first sign, has one item, and is over with
``turnComplete``, which may come long after its audio: the server assumes that it is played in real time.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from providers.gemini import wire
from providers.gemini.caller import CallerTurns
from providers.gemini.calls import CallBook
from providers.gemini.messages import (
    ClientMessage,
    EndAudio,
    FunctionCall,
    Part,
    ServerContent,
    ServerMessage,
    Transcription,
    Turn,
    VoiceActivity,
)
from providers.gemini.models import Profile
from providers.gemini.owing import Owing, Patience, Rejections, Remedy, Request
from providers.gemini.telling import CUT_OFF, Telling
from providers.gemini.turns import ModelTurn
from providers.gemini.usage import Meter
from providers.gemini.utterances import Utterances
from providers.types import (
    NO_ANSWER,
    AgentTranscript,
    AudioDelta,
    AudioDone,
    Interrupted,
    ProviderEvent,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    ToolCallsCancelled,
    ToolCallsRequested,
    Usage,
)
from tools.types import ToolResult, ToolStatus

_BENIGN = frozenset({"", "TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT"})
"""Reasons of ``turnComplete`` with which a turn is as good as any."""
_EARLY_KEPT = 2000


class Conversation:
    """
    Turns, tool calls, interruptions and failures of one session, over all its connections.

    Args:
        profile: What the model can do.
        prefix: Begins every id; no other session of the call has the same.
        patience: Limits.
    """

    def __init__(self, profile: Profile, prefix: str, *, patience: Patience | None = None) -> None:
        self.lost: tuple[str, str] | None = None
        """``(code, message)`` when the session is gone."""
        self.stuck = False
        """Whether the model does not answer on this connection."""
        self._profile = profile
        self._prefix = prefix
        self._patience = patience or Patience()
        self._events: list[ProviderEvent] = []
        self._calls = CallBook(prefix)
        self._telling = Telling(profile, self._calls)
        self._caller = CallerTurns(prefix, self._events.append, self._telling.remember)
        self._meter = Meter()
        self._owing = Owing()
        self._utterances = Utterances()
        self._turn: ModelTurn | None = None
        self._turns = 0
        self._early = ""
        """Words of the model that came before their turn."""
        self._wanted: Request | None = None
        self._answered_at = -inf
        self._tools_allowed = True
        self._progress_until = -inf
        self._rejections = Rejections()
        self._audio_at: float | None = None

    @property
    def usage(self) -> Usage:
        return self._meter.total

    @property
    def quiet(self) -> bool:
        """Whether nothing is lost when the connection changes now."""
        return self._turn is None and not self.urgent and not self._calls.pending

    @property
    def urgent(self) -> bool:
        """Whether the caller speaks, or waits for words of the model."""
        waits = self._owing.open or self._wanted is not None
        return waits or self._caller.speaking or self._progress_until > -inf or self._is_running()

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    @property
    def may_hear(self) -> bool:
        """Whether caller audio may be sent now: some models end the session for it during a tool call."""
        return not (self._profile.pauses_audio and self._calls.pending)

    # Commands of the call.

    def heard_caller(self, now: float) -> bool:
        """Note that caller audio is sent; on the audio path. Say whether it is the first for a while."""
        first, self._audio_at = self._audio_at is None, now
        return first

    def begin(self, history: Iterable[Turn]) -> None:
        """Tell a new session what was said before it; nobody answers to that."""
        self._telling.begin(tuple(history))

    def respond(self, *, instructions: str | None = None, tools: bool = True, now: float) -> None:
        """
        Ask the model to speak as soon as it may.

        The server goes on by itself after the answers to its tool calls; then this lets it, and starts the
        clock.
        """
        blocking = now - self._answered_at < self._patience.by_itself and not self._profile.async_tools
        goes_on = instructions is None and (blocking or self._telling.holds_answers)
        self._release(speak=goes_on)
        if goes_on:
            self._go_on(now, tools=tools)
            return
        if self._turn is not None and self._turn.is_stuck(now, self._patience):
            self._mute(self._turn, now)
        asked = Request(instructions, tools, self._owing.alone_until)
        self._wanted = asked if self._wanted is None else self._wanted.joined(asked)
        self._advance(now)

    def add_text(self, text: str, role: str) -> None:
        """Put a text turn into the conversation."""
        self._release(speak=False)
        turn = Turn(f"[{text}]" if role == "system" else text, model=role == "assistant")
        self._telling.remember(turn)
        self._telling.note(turn)

    def answer(self, result: ToolResult, *, now: float) -> None:
        """Answer a tool call; a second answer, an unknown and a cancelled call are ignored."""
        entry = self._calls.answer(result)
        if entry is None:
            return
        self._answered_at = now if entry.known else -inf
        self._telling.answer(entry)

    def interrupt(self, item_id: str, heard_ms: int, *, now: float) -> None:
        """
        Note that the caller stopped hearing the model, after ``heard_ms`` of ``item_id``.

        Where the server said so itself it has stopped, and may be in its next turn already; else what still
        comes of this one is dropped.
        """
        turn = self._turn
        if turn is not None and not (turn.interrupted or turn.muted or self._utterances.is_stopped(item_id)):
            self._mute(turn, now)
        note = self._utterances.interrupt(item_id, heard_ms)
        if note and self._profile.notes:
            self._telling.note(Turn(note))

    # The connection.

    def saved(self) -> None:
        """Note that a resumed session will know everything up to now."""
        self._telling.saved()

    def disconnected(self, now: float) -> None:
        """Note that the connection is gone: what was being said breaks off here."""
        cut = self._turn is not None and self._turn.running and not self._turn.complete
        if self._turn is not None:
            self._close(self._turn, ResponseStatus.CANCELLED, "connection_lost")
        if self._wanted is None and (cut or self._owing.open):
            self._wanted = Request(CUT_OFF if cut else self._owing.text)
        self._owing.suspend()
        self._progress_until = -inf
        self._audio_at = None
        self._caller.ended()
        self._caller.settle()
        self._telling.disconnected()

    def resumed(self, now: float) -> None:
        """Go on over another connection: first what the server cannot know, then what was to be said."""
        self.stuck = False
        self._telling.resumed()
        self._advance(now)

    def receive_audio(self, audio: bytes, *, now: float) -> str | None:
        """Take a piece of audio; return its item, or ``None`` when it must not be heard."""
        turn = self._turn
        if turn is None or (turn.complete and not (turn.muted or turn.interrupted)):
            turn = self._begin_turn(now)
        if turn.muted or turn.interrupted:  # it was on its way: the server still has to end this turn
            turn.over_at = now + self._patience.turn
            return None
        if self._owing.open:
            self._owing.met()
        turn.utterance.sent_bytes += len(audio)
        turn.waiting = False
        turn.over_at = now + self._patience.stalled
        return turn.item_id

    def receive(self, message: ServerMessage, *, now: float) -> None:
        """Take any frame; what it holds is taken in the order in which it can be meant."""
        if message.voice_activity is not None:
            self._receive_activity(message.voice_activity, now)
        if message.server_content is not None:
            self._receive_content(message.server_content, now)
        if message.tool_call is not None:
            self._receive_calls(message.tool_call.function_calls or [], now)
        if message.tool_call_cancellation is not None:
            ids = message.tool_call_cancellation.ids or []
            self._telling.withdraw(ids)
            if cancelled := self._calls.cancel(ids):
                self._events.append(ToolCallsCancelled(cancelled))
        if message.usage_metadata is not None:
            self._meter.report(message.usage_metadata)
        if bytes(message.error):
            self._warn("server_error", "the server reported an error")
        self._advance(now)

    def handle_timeout(self, *, now: float) -> None:
        """Do what is due. Calling early is harmless."""
        if self._turn is not None and now >= self._turn.over_at:
            stalled = not (self._turn.complete or self._turn.interrupted or self._turn.muted)
            self._complete_turn("STALLED" if stalled else "", now)
        if now >= self._progress_until:
            self._progress_until = -inf
        if now >= self._answered_at + self._patience.answers and self._telling.holds_answers:
            self._release(speak=False)
        if self._audio_at is not None and now >= self._audio_at + self._patience.stream:
            self._audio_at = None
            self._telling.out.append(EndAudio())
        playing = self._turn is not None and self._turn.is_playing(now)
        if playing or self._calls.pending or (self._caller.reported and self._caller.speaking):
            if (at := self._owing.next_timeout()) is not None and now >= at:
                self._owing.again(now)
        elif (remedy := self._owing.handle_timeout(now)) is not None:
            self._remind(remedy)
        self._advance(now)

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        if not self._telling.connected:
            return None
        times = [
            self._owing.next_timeout(),
            None if self._turn is None or self._turn.over_at == inf else self._turn.over_at,
            self._answered_at + self._patience.answers if self._telling.holds_answers else None,
            None if self._progress_until == -inf else self._progress_until,
            None if self._audio_at is None else self._audio_at + self._patience.stream,
            None if self._wanted is None or self._is_busy() else self._wanted.not_before,
        ]
        return min((at for at in times if at is not None), default=None)

    def to_send(self) -> list[ClientMessage]:
        """Take what is ready for the wire."""
        return self._telling.take()

    def events(self) -> list[ProviderEvent]:
        """Take what the call has to know."""
        ready = list(self._events)
        self._events.clear()
        return ready

    # What the server says.

    def _receive_activity(self, activity: VoiceActivity, now: float) -> None:
        match self._caller.receive(activity):
            case True:
                self._owing.met()
            case False if not self._is_running():
                self._owing.begin(now, self._patience.spoken)

    def _receive_content(self, content: ServerContent, now: float) -> None:
        if content.input_transcription is not None:
            self._hear(content.input_transcription, now)
        if content.interrupted:
            self._interrupted(now)
        if content.output_transcription is not None and content.output_transcription.text:
            self._say(content.output_transcription.text)
        if content.model_turn is not None:
            self._speak(content.model_turn.parts or [], now)
        if content.generation_complete and (turn := self._turn) is not None:
            turn.over_at = now + turn.utterance.sent_ms / 1000 + self._patience.turn
            self._finish_audio(turn)
        if content.turn_complete:
            self._complete_turn(content.turn_complete_reason or "", now)
        if content.waiting_for_input:
            self._owing.met()
        if (status := content.interaction_status) is not None:
            self._progress_until = now + self._patience.progress if status == "IN_PROGRESS" else -inf

    def _hear(self, piece: Transcription, now: float) -> None:
        if not self._caller.reported and self._turn is None and piece.text:
            self._caller.began()
        self._caller.add(piece)
        if piece.finished and not self._caller.reported:
            self._caller.ended()
        if self._turn is None and not self._calls.pending and (piece.text or piece.finished):
            self._owing.begin(now, self._patience.spoken)

    def _speak(self, parts: list[Part], now: float) -> None:
        for part in parts:
            blob = part.inline_data
            if blob is None or part.thought:
                continue
            if not wire.has_rate(blob):
                self.lost = ("format_mismatch", "the provider's audio has another format than 24 kHz PCM")
                return
            audio = wire.audio(blob)
            item_id = self.receive_audio(audio, now=now)
            if item_id is not None:
                self._events.append(AudioDelta(item_id, audio))

    def _say(self, text: str) -> None:
        turn = self._turn
        if turn is None:
            self._early = (self._early + text)[-_EARLY_KEPT:]
            return
        self._utterances.say(turn.item_id, text)
        self._events.append(AgentTranscript(turn.item_id, text, final=False))

    def _interrupted(self, now: float) -> None:
        turn = self._turn
        self._tools_allowed = True
        if turn is not None and turn.interrupted:
            return
        ours = turn is not None and turn.muted
        self._utterances.stop()
        if not ours:
            if not self._caller.reported:
                self._caller.began()
            self._events.append(Interrupted())
            self._owing.begin(now, self._patience.spoken)
        if turn is not None:
            turn.interrupted = True
            turn.over_at = now + self._patience.turn
            self._finish_audio(turn)

    def _receive_calls(self, calls: list[FunctionCall], now: float) -> None:
        turn = self._turn
        if turn is None or turn.interrupted:
            turn = self._begin_turn(now)
        todo = self._calls.request(calls, turn.response_id)
        if not todo:
            return
        self._owing.met()
        turn.called = turn.waiting = True
        turn.over_at = inf
        refused = "response_interrupted" if turn.muted else "" if turn.tools else "tools_not_allowed"
        if not refused:
            self._events.append(ToolCallsRequested(turn.response_id, todo))
            return
        for call in todo:
            self.answer(ToolResult(call.call_id, call.name, ToolStatus.FAILED, reason_code=refused), now=now)
        self.respond(now=now)

    # The model's turn.

    def _begin_turn(self, now: float) -> ModelTurn:
        if self._turn is not None:
            cut = self._turn.interrupted or self._turn.muted
            self._close(self._turn, ResponseStatus.CANCELLED if cut else ResponseStatus.COMPLETED, "")
        self._caller.ended()
        self._owing.met()
        self._progress_until = -inf
        self._meter.begin_turn()
        self._turns += 1
        item_id = f"{self._prefix}-turn-{self._turns}"
        self._turn = turn = ModelTurn(
            f"{self._prefix}-response-{self._turns}",
            item_id,
            self._utterances.begin(item_id),
            self._tools_allowed,
            began_at=now,
            over_at=now + self._patience.stalled,
        )
        early, self._early = self._early, ""
        if early:
            self._say(early)
        return turn

    def _finish_audio(self, turn: ModelTurn) -> None:
        if not turn.complete:
            turn.complete = True
            if turn.spoke:
                self._events.append(AudioDone(turn.item_id))

    def _mute(self, turn: ModelTurn, now: float) -> None:
        turn.muted = True
        turn.over_at = now + self._patience.turn
        self._finish_audio(turn)

    def _complete_turn(self, reason: str, now: float) -> None:
        failed = reason not in _BENIGN
        if self._turn is None:
            if not failed and not self._early:
                return  # the end of something that had no output
            self._begin_turn(now)
        turn = self._turn
        assert turn is not None
        if turn.interrupted or turn.muted:
            self._close(turn, ResponseStatus.CANCELLED, "interrupted")
        elif failed:
            self._close(turn, ResponseStatus.FAILED, reason.lower())
            if self._rejections.failed(reason.lower()):
                self.lost = (reason.lower(), "the provider rejects what the model says")
        else:
            self._close(turn, ResponseStatus.COMPLETED, "")
            if turn.spoke:
                self._rejections.over()
                self._tools_allowed = True

    def _close(self, turn: ModelTurn, status: ResponseStatus, reason: str) -> None:
        self._finish_audio(turn)
        if turn.utterance.text:
            self._events.append(AgentTranscript(turn.item_id, turn.utterance.text.strip(), final=True))
        self._events.append(ResponseDone(turn.response_id, status, reason=reason))
        if not self._caller.speaking:
            self._caller.settle()
        if turn.utterance.text:
            self._telling.remember(turn.utterance)
        self._telling.cover()
        self._turn = None

    def _is_running(self) -> bool:
        return self._turn is not None and self._turn.running

    def _is_busy(self) -> bool:
        return self._progress_until > -inf or self._is_running()

    def _advance(self, now: float) -> None:
        """Ask for what is wanted, as soon as nothing would be cut off by it."""
        wanted = self._wanted
        if wanted is None or not self._telling.connected or self._is_busy() or now < wanted.not_before:
            return
        self._wanted = None
        self._tools_allowed = wanted.tools
        self._telling.ask(wanted.instructions)
        self._owing.ask(now, self._patience, wanted.instructions)

    def _release(self, *, speak: bool) -> None:
        self._answered_at = -inf
        self._telling.release(speak=speak)

    def _go_on(self, now: float, *, tools: bool) -> None:
        """Expect that the model speaks about the results of its tools."""
        self._tools_allowed = self._tools_allowed and tools
        if self._turn is not None:
            self._turn.tools = self._turn.tools and tools
        if self._turn is None or self._turn.waiting:
            waits = self._profile.waits_after_tools
            self._owing.begin(now, self._patience.tool_where_it_waits if waits else self._patience.tool)

    def _remind(self, remedy: Remedy) -> None:
        """Do something about an answer that does not come."""
        match remedy:
            case Remedy.ASK:
                self._warn("no_answer_yet", "the model does not answer: it is asked again")
                self._telling.ask(self._owing.text)
            case Remedy.MOVE:
                self._warn("no_answer_yet", "the model does not answer: the connection is changed")
                self.stuck = True
            case Remedy.GIVE_UP:
                self._warn(NO_ANSWER, "the model did not answer, though it was asked again")

    def _warn(self, code: str, message: str) -> None:
        self._events.append(ProviderWarning(code, message))
