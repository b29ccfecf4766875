"""
One session of the GPT-Live server, without a socket.

The owner calls :meth:`LiveSession.receive` or :meth:`LiveSession.handle_timeout`, then sends what
:meth:`LiveSession.to_send` gives, then sleeps until :meth:`LiveSession.next_timeout`; when ``closing`` is set
it closes the connection so. Time is an argument, and only for what goes wrong and for the end: the
conversation runs on the clock of the caller's audio.
"""

from __future__ import annotations

import base64
import binascii
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from providers.fakes.agenda import Agenda
from providers.fakes.director import CallerSpoke, CallerWasIdle, Director, TextArrived
from providers.fakes.faults import Fault, FaultError, Faults, Service, parse_faults
from providers.fakes.live_backend import Backend, Ending
from providers.fakes.live_config import LiveConfig, check_content
from providers.fakes.live_mouth import Mouth, Turn
from providers.fakes.live_outbox import Outbox
from providers.fakes.live_shapes import check_event
from providers.fakes.openai_outbox import MAX_RECORDED, Recorded
from providers.fakes.openai_session import MAX_APPEND, MAX_RECORDED_AUDIO
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Ids, Json, JsonView, error_message
from providers.fakes.performance import words_by_ms
from providers.fakes.pump import Close
from providers.fakes.script import Call, Say, Script, Status
from providers.fakes.speech import silence
from providers.fakes.vad import Detector, VoiceStarted, detector

FRAME_MS = 80
"""So much audio is in one piece of the model's voice."""
USAGE_MS = 1_000
"""How often usage is told."""
_APPENDS = ("session.instructions.append", "session.thinking.append", "session.commentary.append")


@dataclass(frozen=True, slots=True)
class Options:
    """What a session is made of."""

    script: Script
    faults: Faults = Faults()  # noqa: RUF009
    seed: int = 1
    session_seconds: float = 3600.0
    """After so long a session is closed with the reason ``expired``."""
    frame_ms: int = FRAME_MS
    check: Callable[[Json], str | None] | None = None
    """Returns what is wrong with a server event; such an event raises."""


class LiveSession:
    """
    A conversation with one client.

    ``received`` and ``sent`` record events with their times, without audio; ``input_audio`` is all appended
    audio, up to a limit.
    """

    def __init__(self, options: Options, *, now: float, wall_time: float) -> None:
        self._options = options
        self._faults = options.faults
        self._agenda = Agenda()
        self._now = now
        ids = Ids(options.seed)
        self._outbox = Outbox(ids, options.check)
        self._outbox.now = now
        self.config = LiveConfig(ids.new("live"), int(wall_time + options.session_seconds))
        self.backend = Backend(
            emit=self._outbox.emit,
            ids=ids,
            config=self.config,
            later=lambda after, action: self._agenda.at(self._now + after, lambda _at: action()),
        )
        self.closing: Close | None = None
        self.received: deque[Recorded] = deque(maxlen=MAX_RECORDED)
        self.appends: deque[tuple[float, int]] = deque(maxlen=MAX_RECORDED)
        self.input_audio = bytearray()
        self._bytes = 0
        self._muted = False
        self._barged_in = False
        self._turn_ms = 0
        self._told_usage_ms = 0
        self._due_words: deque[tuple[int, int, str]] = deque(maxlen=64)
        self._director: Director
        self._mouth: Mouth
        self._detector: Detector
        for fault in self._faults.timed():
            if not fault.at:
                self._happen(fault)

    # What the owner asks.

    @property
    def sent(self) -> deque[Recorded]:
        return self._outbox.sent

    @property
    def heard_ms(self) -> int:
        """The session's clock: how much audio was appended."""
        return self._bytes // self.config.format.bytes_per_ms

    @property
    def responses(self) -> int:
        return self._mouth.count if self.config.started else 0

    def to_send(self) -> list[bytes]:
        """Return the text frames to send, in order."""
        return self._outbox.take()

    def next_timeout(self) -> float | None:
        return self._agenda.next

    def handle_timeout(self, now: float) -> None:
        self._now = self._outbox.now = now
        self._agenda.run(now)

    def receive(self, frame: str | bytes, now: float) -> None:
        """Take one client frame."""
        self._now = self._outbox.now = now
        try:
            event = orjson.loads(frame)
        except orjson.JSONDecodeError:
            self._outbox.refuse(Problem("invalid_json", "The event is not valid JSON."), None)
            return
        if not isinstance(event, dict):
            self._outbox.refuse(Problem("invalid_event", "The event is not a JSON object."), None)
            return
        cause = event.get("event_id") if isinstance(event.get("event_id"), str) else None
        problem = check_event(event) or self._obey(event, cause)
        if problem:
            self._outbox.refuse(problem, cause)

    # What the client wants.

    def _obey(self, event: Json, cause: str | None) -> Problem | None:
        kind = event["type"]
        if (kind == "session.start") == self.config.started:
            what = (
                "has started already" if self.config.started else "has not started: send session.start first"
            )
            return Problem("invalid_value", f"The session {what}.", "type")
        if kind == "session.input_audio.append":
            return self._append(event["audio"])
        self.received.append(Recorded(self._now, event))
        match kind:
            case "session.start":
                return self._start(event["session"], cause)
            case "session.update":
                return self._update(event["session"], cause)
            case "session.input_audio.mute" | "session.input_audio.unmute":
                self._muted = kind.endswith(".mute")
                self._outbox.emit(f"{kind}d", cause=cause)
            case "response.item.create":
                return self._add_item(event["item"])
            case "response.create":
                return self._continue()
            case "session.close":
                self._close("close_requested", cause)
            case _ if kind in _APPENDS:
                return self._context(event, cause)
            case _:
                return Problem("unsupported_parameter", f"'{kind}' is not served by this fake.", "type")
        return None

    def _start(self, wanted: JsonView, cause: str | None) -> Problem | None:
        refused = self._faults.get("refuse_update")
        if refused:
            return Problem(refused.setting, error_message(refused.setting), "session")
        problem = self.config.start(wanted)
        if problem:
            return problem
        try:
            own = parse_faults(str(wanted["model"]).partition("~")[2], Service.LIVE)
        except FaultError as error:
            return Problem("invalid_value", str(error), "session.model")
        self._faults = self._faults + own
        for fault in self._faults.timed():
            if fault.at or fault in own.all:  # the others have happened
                self._plan(fault)
        script = self._options.script
        self._director = Director(script, self.config.instructions)
        for item in self.config.session["input"]:  # the model knows it, and does not begin again
            if item["role"] == "user":
                self._director.notice(CallerSpoke(barged_in=False))
            self._director.notice(TextArrived(item["content"][0]["text"]))
        self._detector = detector(self.config.format, script.hearing.vad, script.hearing.timeline)
        self._mouth = Mouth(
            emit=self._outbox.emit,
            emit_audio=self._outbox.emit_audio,
            call=self._call,
            cut=self._cut,
            faults=self._faults,
            latency_ms=script.pace.latency_ms,
            frame_ms=self._options.frame_ms,
        )
        self._mouth.use(self.config.format)
        self._agenda.at(self._now + self._options.session_seconds, lambda _at: self._close("expired", None))
        if script.lose_after is not None:
            self._agenda.at(self._now + script.lose_after, lambda _at: self._cut(1011))
        self._outbox.emit("session.started", cause=cause, session=self.config.session)
        return None

    def _update(self, changes: JsonView, cause: str | None) -> Problem | None:
        problem = self.config.update(changes)
        if problem is None:
            self._outbox.emit("session.updated", cause=cause, session=self.config.session)
        return problem

    def _append(self, text: str) -> Problem | None:
        if len(text) > MAX_APPEND:
            return Problem("string_above_max_length", "Invalid 'audio': more than 15 MiB.", "audio")
        try:
            audio = base64.b64decode(text, validate=True)
        except binascii.Error:
            message = "Invalid 'audio'. Expected base64-encoded audio bytes, but got an invalid value."
            return Problem("invalid_value", message, "audio")
        self.appends.append((self._now, len(audio)))
        if len(self.input_audio) < MAX_RECORDED_AUDIO:
            self.input_audio += audio
        self._bytes += len(audio)
        self._hear(audio)
        return None

    def _context(self, event: Json, cause: str | None) -> Problem | None:
        problem = check_content(event, backend=self.backend.is_responses)
        if problem:
            return problem
        delegation_id, content = event["delegation_id"], event["content"]
        if delegation_id is not None:
            answered = self.backend.append(delegation_id, content)
            if isinstance(answered, Problem):
                return answered
            for each in answered:
                self._director.notice(each)
        at_ms = self.heard_ms
        self._outbox.emit(f"{event['type']}ed", cause=cause, start_ms=at_ms, end_ms=at_ms)
        self._director.notice(TextArrived(content))
        match event["type"]:
            case "session.instructions.append":
                self._instruct(content)
            case "session.commentary.append":
                self._react()
        return None

    def _instruct(self, content: str) -> None:
        """Follow new instructions into the scene that asks for them, if one does."""
        scenes = self._options.script.scenes
        if any(scene.instructions and scene.instructions.search(content) for scene in scenes):
            self._director.instruct(content)

    def _add_item(self, item: JsonView) -> Problem | None:
        problem = self.backend.add(item)
        if problem is None and item.get("role") in ("user", "developer", "system"):
            content = item["content"]
            texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
            for text in texts:
                self._director.notice(TextArrived(text))
        return problem

    def _continue(self) -> Problem | None:
        answered = self.backend.create()
        if isinstance(answered, Problem):
            return answered
        for each in answered:
            self._director.notice(each)
        self._react(backend=True)
        return None

    # The conversation, on the clock of the audio.

    def _hear(self, audio: bytes) -> None:
        heard = (
            silence(len(audio) // self.config.format.bytes_per_ms, self.config.format)
            if self._muted
            else audio
        )
        for event in self._detector.hear(heard):
            if isinstance(event, VoiceStarted):
                self._turn_ms = event.start_ms
                self._barged_in = self._mouth.speaking
                self._mouth.stop()
            else:
                self._turn_over(event.end_ms)
        self._mouth.advance(self.heard_ms)
        self._tell_words()
        self._tell_usage()
        self._notice_idleness()

    def _turn_over(self, end_ms: int) -> None:
        words = self._director.transcript(barged_in=self._barged_in)
        after_ms = self._options.script.hearing.transcript_after_ms
        spoken_ms = max(end_ms - self._turn_ms, 1)
        for start_ms, _, text in words_by_ms(words, spoken_ms, 300):
            if text:
                self._due_words.append((self.heard_ms + after_ms, self._turn_ms + start_ms, text))
        self._mouth.quiet_since_ms = self.heard_ms
        self._director.notice(CallerSpoke(self._barged_in))
        self._barged_in = False
        self._react()

    def _tell_words(self) -> None:
        while self._due_words and self._due_words[0][0] <= self.heard_ms:
            _, start_ms, text = self._due_words.popleft()
            self._outbox.emit(
                "session.input_transcript.delta", delta=text, start_ms=start_ms, end_ms=start_ms + 300
            )

    def _tell_usage(self) -> None:
        if self.heard_ms - self._told_usage_ms >= USAGE_MS:
            self._told_usage_ms = self.heard_ms
            ratio = min(self.heard_ms / 3_600_000, 1.0)
            self._outbox.emit(
                "session.usage.updated", usage=self._usage(), context_window={"usage_ratio": ratio}
            )

    def _notice_idleness(self) -> None:
        after = self._director.idle_after()
        if after is None or self._mouth.busy or self._detector.speaking:
            return
        if self.heard_ms - self._mouth.quiet_since_ms >= after * 1000:
            self._mouth.quiet_since_ms = self.heard_ms
            self._director.notice(CallerWasIdle())
            self._react()

    def _react(self, *, backend: bool = False) -> None:
        """Let the model answer what happened; with ``backend`` by way of its delegation."""
        self._mouth.count += 1
        number = self._mouth.count
        reaction = self._director.react(tools=self.config.calls_tools)
        if self._faults.get("no_audio", response=number):
            self._director.take_back()
            return
        if backend:
            said = " ".join(act.text for act in reaction.acts if isinstance(act, Say))
            self.backend.say(said)
        self._mouth.play(reaction, number)

    def _call(self, turn: Turn, calls: tuple[Call, ...]) -> None:
        failed = self._faults.get("failed", response=turn.number)
        cut = self._faults.get("cut_arguments", response=turn.number)
        outcome = turn.reaction.outcome
        ending = Ending(outcome.status, outcome.code)
        if failed:
            ending = Ending(Status.FAILED, failed.setting)
        elif cut:
            ending = Ending(Status.INCOMPLETE, "max_output_tokens")
        slow = self._faults.get("slow_arguments", response=turn.number)
        self.backend.delegate(calls, at_ms=self.heard_ms, ending=ending, slow=slow.number if slow else 0.0)

    # The end, and what goes wrong on purpose.

    def _usage(self) -> Json:
        return {"seconds": self.heard_ms / 1000}

    def _close(self, reason: str, cause: str | None) -> None:
        self._outbox.emit(
            "session.closed", cause=cause, reason=reason, session=self.config.session, usage=self._usage()
        )
        self.closing = Close(1000)

    def _cut(self, code: int) -> None:
        self.closing = Close(code, "The server had an error.")

    def _plan(self, fault: Fault) -> None:
        if not fault.at:
            self._happen(fault)
        else:
            self._agenda.at(self._now + fault.at, lambda _at: self._happen(fault))

    def _happen(self, fault: Fault) -> None:
        match fault.name:
            case "close":
                self.closing = Close(int(fault.number), "closed on purpose")
            case "stall":
                self._outbox.stalled = True
            case "expire":
                self._close("expired", None)
            case "error":
                self._outbox.refuse(Problem(fault.setting, error_message(fault.setting)), None)
            case "unknown_event":
                # Past the check of --validate: that is the point of it.
                self._outbox.emit_raw(
                    b'{"type":"session.mood.updated","event_id":"event_unknown","mood":"curious"}'
                )
            case _:
                self._outbox.emit_raw(b'{"type": "session.output_audio.delta", "delta": ')
