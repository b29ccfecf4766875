"""
One conversation of the fake provider: turns, responses and tool calls. No I/O; time is an argument.

The owner calls a method that changes it, takes :meth:`VoiceCore.events`, and calls
:meth:`VoiceCore.handle_timeout` at :meth:`VoiceCore.next_timeout`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from providers.fakes.agenda import Agenda
from providers.fakes.director import CallerSpoke, CallerWasIdle, Director, TextArrived, ToolAnswered
from providers.fakes.performance import (
    ArgumentsPiece,
    Beat,
    CallBegan,
    CallEnded,
    Piece,
    SpeechBegan,
    SpeechEnded,
    SpeechPiece,
    perform,
)
from providers.fakes.script import Outcome, Script, Status
from providers.fakes.vad import VoiceStarted, detector
from providers.types import (
    AgentTranscript,
    AudioDelta,
    AudioDone,
    AudioFormat,
    CallerTranscript,
    HistoryItem,
    Interrupted,
    ProviderEvent,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    Said,
    SessionSetup,
    SpeechStarted,
    SpeechStopped,
    ToolCallsRequested,
    ToolUsed,
    Usage,
)
from tools.types import CallUpdate, ToolCall, ToolResult

MAX_EVENTS = 10_000
"""More events than this that nobody takes end the session: its owner has stopped listening."""

MAX_KEPT = 256
"""What the call said to the model, kept for tests."""
MAX_HEARD = 64 * 1024
"""Bytes of the caller's voice that are kept for tests: eight seconds of G.711."""

_STATUS = {
    Status.COMPLETED: ResponseStatus.COMPLETED,
    Status.FAILED: ResponseStatus.FAILED,
    Status.INCOMPLETE: ResponseStatus.INCOMPLETE,
}


@dataclass(frozen=True, slots=True)
class Heard:
    """What :meth:`VoiceCore.interrupt` was told: how much of an item the caller heard, of how much."""

    item_id: str
    heard_ms: int
    sent_ms: int


@dataclass(slots=True)
class _Response:
    """A response that is being performed."""

    id: str
    beats: Iterator[Beat]
    outcome: Outcome
    due: float
    next: Piece | None = None
    item_id: str = ""
    said: str = ""
    tool: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    output_ms: int = 0


class VoiceCore:
    """
    A scripted model in one conversation.

    ``interruptions``, ``texts``, ``results`` and the beginning in ``heard`` keep what the call said to the
    model; ``setup`` follows the updates.
    """

    def __init__(
        self, script: Script, setup: SessionSetup, line_in: AudioFormat, line_out: AudioFormat, *, now: float
    ) -> None:
        self.setup = setup
        self.interruptions: deque[Heard] = deque(maxlen=MAX_KEPT)
        self.texts: deque[tuple[str, str]] = deque(maxlen=MAX_KEPT)
        self.results: deque[ToolResult] = deque(maxlen=MAX_KEPT)
        self.heard = bytearray()
        self.lost = ""
        self.usage = Usage()
        """A token for 100 ms of the caller and for 50 ms of the agent."""
        self._script = script
        self._output = line_out
        self._director = Director(script, setup.instructions)
        self._detector = detector(line_in, script.hearing.vad, script.hearing.timeline)
        self._agenda = Agenda()
        self._events: list[ProviderEvent] = []
        self._running: _Response | None = None
        self._wanted: bool | None = None
        self._asked: dict[str, str] = {}
        self._sent_ms: dict[str, int] = {}
        self._counts = {"resp": 0, "item": 0, "call": 0, "turn": 0}
        self._playing_until = 0.0
        self._barged_in = False
        self._idle_at: float | None = None
        for past in setup.history:
            self._remember(past)
        self._events += (
            ProviderWarning("vendor_tool_unavailable", f"{token} does not exist here")
            for token in setup.vendor_tools
        )
        if script.lose_after is not None:
            self._agenda.at(now + script.lose_after, lambda _at: self._lose("the script loses the session"))

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The ids of calls that were requested and have no result yet."""
        return tuple(self._asked)

    @property
    def responses(self) -> int:
        return self._counts["resp"]

    @property
    def has_events(self) -> bool:
        return bool(self._events) or bool(self.lost)

    def events(self) -> list[ProviderEvent]:
        """Return what happened since the last time, in order."""
        events, self._events = self._events, []
        return events

    def next_timeout(self) -> float | None:
        due = self._running.due if self._running else None
        times = (due, self._agenda.next, self._idle_at)
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> None:
        self._advance(now)
        self._agenda.run(now)
        if self._idle_at is not None and now >= self._idle_at:
            self._idle_at = None
            self._director.notice(CallerWasIdle())
            self._want(now, tools=True)

    def _remember(self, past: HistoryItem) -> None:
        match past:
            case Said("agent"):
                self._director.spoke_before()
            case Said(_, text):
                self._director.notice(TextArrived(text))
            case ToolUsed(call, output):
                self._director.notice(ToolAnswered(call.name, output))

    # What the call does.

    def hear(self, audio: bytes, now: float) -> None:
        """Take caller audio, in call order."""
        if self.lost:
            return
        if len(self.heard) < MAX_HEARD:
            self.heard += audio
        for event in self._detector.hear(audio):
            if isinstance(event, VoiceStarted):
                self._speech_began(now)
            else:
                self._turn_ended(now)
        if len(self._events) > MAX_EVENTS:
            self._lose("nobody takes the events of this session")

    def take_text(self, text: str, role: str) -> None:
        self.texts.append((role, text))
        self._director.notice(TextArrived(text))

    def take_result(self, result: ToolResult) -> None:
        """Note the answer to a call; unknown and answered ids are ignored."""
        tool = self._asked.pop(result.call_id, None)
        if tool is not None:
            self.results.append(result)
            self._director.notice(ToolAnswered(tool, result.to_json()))

    def respond(self, instructions: str | None, now: float, *, tools: bool) -> None:
        """Answer now, or when the running response is over."""
        if instructions:
            self._director.notice(TextArrived(instructions))
        self._want(now, tools=tools)

    def interrupt(self, item_id: str, heard_ms: int, now: float) -> None:
        """Stop speaking; the caller heard ``heard_ms`` of the item (of none, where the id is empty)."""
        if item_id:
            self._note_heard(item_id, heard_ms)
        self._barged_in = True
        self._playing_until = min(self._playing_until, now)
        if self._running is not None:
            self._stop("client_cancelled", now)

    def _note_heard(self, item_id: str, heard_ms: int) -> None:
        if item_id not in self._sent_ms:
            self._warn("unknown_item", f"There is no item {item_id}.")
            return
        sent_ms = self._sent_ms[item_id]
        if heard_ms > sent_ms:
            self._warn("audio_too_short", f"Audio of {sent_ms} ms is already shorter than {heard_ms} ms.")
        self.interruptions.append(Heard(item_id, heard_ms, sent_ms))
        self._sent_ms[item_id] = min(heard_ms, sent_ms)

    def update(self, update: CallUpdate) -> None:
        """Change the named parts; the next response follows them."""
        setup = self.setup
        self.setup = replace(
            setup,
            prompt=setup.prompt if update.prompt is None else update.prompt,
            language=setup.language if update.language is None else update.language,
            voice=setup.voice if update.voice is None else update.voice,
            tools=setup.tools if update.tools is None else update.tools,
        )
        self._director.instruct(self.setup.instructions)

    # What the model does.

    def _speech_began(self, now: float) -> None:
        self._idle_at = None
        self._barged_in = self._running is not None or now < self._playing_until
        self._events += SpeechStarted(), Interrupted()
        self._playing_until = min(self._playing_until, now)
        if self._running is not None:
            self._stop("turn_detected", now)

    def _turn_ended(self, now: float) -> None:
        self._events.append(SpeechStopped())
        words = self._director.transcript(barged_in=self._barged_in)
        transcript = CallerTranscript(self._id("turn"), words, final=True)
        self._agenda.at(
            now + self._script.hearing.transcript_after_ms / 1000,
            lambda _at: self._events.append(transcript),
        )
        self._director.notice(CallerSpoke(self._barged_in))
        self._barged_in = False
        self._want(now, tools=True)

    def _want(self, now: float, *, tools: bool) -> None:
        """Ask for a response; requests that wait become one, which may call tools if each may."""
        self._wanted = tools if self._wanted is None else self._wanted and tools
        self._begin_wanted(now)

    def _begin_wanted(self, now: float) -> None:
        if self._wanted is None or self._running is not None or self.lost:
            return
        tools, self._wanted, self._idle_at = self._wanted, None, None
        reaction = self._director.react(tools=tools)
        beats = perform(reaction, self._output, self._script.pace)
        self._running = _Response(self._id("resp"), beats, reaction.outcome, now)
        self._fetch(self._running)
        self._advance(now)

    def _advance(self, now: float) -> None:
        while self._running is not None and self._running.due <= now and not self.lost:
            if self._running.next is None:
                self._finish(self._running, now)
            else:
                self._play(self._running, self._running.next, now)
                self._fetch(self._running)

    def _fetch(self, response: _Response) -> None:
        wait, response.next = next(response.beats, (0.0, None))
        response.due += wait

    def _play(self, response: _Response, piece: Piece, now: float) -> None:
        match piece:
            case SpeechBegan():
                response.item_id, response.said = self._id("item"), ""
                self._sent_ms[response.item_id] = 0
            case SpeechPiece(audio, text):
                self._say(response, audio, text, now)
            case SpeechEnded():
                self._end_item(response)
            case CallBegan(tool):
                response.tool, response.said = tool, ""
            case ArgumentsPiece(text):
                response.said += text
            case CallEnded():
                response.calls.append(ToolCall(self._id("call"), response.tool, response.said, response.id))

    def _say(self, response: _Response, audio: bytes, text: str, now: float) -> None:
        response.said += text
        ms = len(audio) // self._output.bytes_per_ms
        response.output_ms += ms
        self._sent_ms[response.item_id] += ms
        self._playing_until = max(self._playing_until, now) + ms / 1000
        if text:
            self._events.append(AgentTranscript(response.item_id, text, final=False))
        self._events.append(AudioDelta(response.item_id, audio))

    def _end_item(self, response: _Response) -> None:
        if response.item_id:
            self._events.append(AudioDone(response.item_id))
            self._events.append(AgentTranscript(response.item_id, response.said, final=True))
            response.item_id = ""

    def _finish(self, response: _Response, now: float) -> None:
        status = _STATUS[response.outcome.status]
        if status is ResponseStatus.COMPLETED and response.calls:
            self._asked |= {call.call_id: call.name for call in response.calls}
            self._events.append(ToolCallsRequested(response.id, tuple(response.calls)))
        self._done(response, status, response.outcome.code)
        idle_after = self._director.idle_after()
        if idle_after is not None and not self._detector.speaking:
            self._idle_at = max(now, self._playing_until) + idle_after
        self._begin_wanted(now)

    def _stop(self, reason: str, now: float) -> None:
        """Cut the running response; its calls are never asked for."""
        response = self._running
        if response is not None:
            self._end_item(response)
            self._done(response, ResponseStatus.CANCELLED, reason)
            self._begin_wanted(now)

    def _done(self, response: _Response, status: ResponseStatus, reason: str) -> None:
        self._running = None
        heard = self._detector.heard_ms // 100
        self.usage += Usage(audio_in=heard - self.usage.audio_in, audio_out=response.output_ms // 50)
        self._events.append(ResponseDone(response.id, status, reason))

    def _id(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{kind}_{self._counts[kind]}"

    def _warn(self, code: str, message: str) -> None:
        self._events.append(ProviderWarning(code, message))

    def _lose(self, why: str) -> None:
        self.lost = why
        self._running = None
