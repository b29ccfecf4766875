"""
One session of the OpenAI Realtime server, without a socket.

The owner calls :meth:`RealtimeSession.receive` or :meth:`RealtimeSession.handle_timeout`, then sends
what :meth:`RealtimeSession.to_send` gives, then sleeps until :meth:`RealtimeSession.next_timeout`; when
``closing`` is set it closes the connection so. Time is an argument.
"""

from __future__ import annotations

import base64
import binascii
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from providers.fakes import openai_wire as wire
from providers.fakes.agenda import Agenda
from providers.fakes.director import CallerSpoke, CallerWasIdle, Director, TextArrived, ToolAnswered
from providers.fakes.faults import Fault, Faults
from providers.fakes.journal import Note
from providers.fakes.openai_config import SessionConfig
from providers.fakes.openai_conversation import Conversation
from providers.fakes.openai_ear import Ear
from providers.fakes.openai_mouth import Mouth
from providers.fakes.openai_outbox import MAX_RECORDED, Outbox, Recorded
from providers.fakes.openai_shapes import Problem, check_event
from providers.fakes.openai_wire import Ids, Json, JsonView
from providers.fakes.pump import Close
from providers.fakes.script import Script

MAX_APPEND = 15 * 1024 * 1024
"""Characters of base64 in one append."""
MAX_RECORDED_AUDIO = 4 * 1024 * 1024
_BETA = (
    "The Realtime Beta API is no longer supported. Please use /v1/realtime without the OpenAI-Beta header."
)


@dataclass(frozen=True, slots=True)
class Options:
    """What a session is made of."""

    script: Script
    faults: Faults = Faults()  # noqa: RUF009
    model: str = "gpt-realtime-2.1"
    seed: int = 1
    session_seconds: float = 3600.0
    """After so long a session ends with ``session_expired``."""
    check: Callable[[Json], str | None] | None = None
    """Returns what is wrong with a server event; such an event raises."""
    note: Note | None = None
    """Writes down what is said, without audio."""


class RealtimeSession:
    """
    A conversation with one client.

    ``received`` and ``sent`` record events with their times; ``input_audio`` is all appended audio, up to
    a limit. ``beta`` makes it refuse everything, as the service refuses the old header.
    """

    def __init__(self, options: Options, *, now: float, wall_time: float, beta: bool = False) -> None:
        self._options = options
        self._faults = options.faults
        self._agenda = Agenda()
        self._ids = Ids(options.seed)
        self._outbox = Outbox(self._ids, options.check, options.note)
        self._outbox.now = now
        expires_at = int(wall_time + options.session_seconds)
        self.config = SessionConfig(self._ids.new("sess"), options.model, expires_at)
        self.conversation = Conversation(self._ids.new("conv"))
        self._director = Director(options.script, self.config.instructions)
        self._mouth = Mouth(
            outbox=self._outbox,
            ids=self._ids,
            config=self.config,
            conversation=self.conversation,
            director=self._director,
            pace=options.script.pace,
            faults=options.faults,
            done=self._response_done,
        )
        self._ear = Ear(
            outbox=self._outbox,
            agenda=self._agenda,
            ids=self._ids,
            config=self.config,
            conversation=self.conversation,
            hearing=options.script.hearing,
            faults=options.faults,
            listener=self,
        )
        self.closing: Close | None = None
        self.received: deque[Recorded] = deque(maxlen=MAX_RECORDED)
        self.appends: deque[tuple[float, int]] = deque(maxlen=MAX_RECORDED)
        self.input_audio = bytearray()
        self._barged_in = False
        self._owes_answer = False
        self._idle_at: float | None = None
        self._idle_from_ms = 0
        self._refuse_update = options.faults.get("refuse_update")
        self._begin(now, beta=beta)

    def _begin(self, now: float, *, beta: bool) -> None:
        if beta:
            self._outbox.refuse(Problem("beta_api_shape_disabled", _BETA), None)
            self.closing = Close(4000, "invalid_request_error.beta_api_shape_disabled")
            return
        for fault in self._faults.timed():
            if not fault.at:
                self._happen(fault)
            else:
                self._agenda.at(now + fault.at, lambda _at, fault=fault: self._happen(fault))  # type: ignore[misc]
        self._agenda.at(now + self._options.session_seconds, lambda _at: self._expire())
        if self._options.script.lose_after is not None:
            self._agenda.at(now + self._options.script.lose_after, lambda _at: self._lose())
        self._outbox.emit("session.created", session=self.config.session)

    @property
    def sent(self) -> deque[Recorded]:
        """The events that were sent, without audio."""
        return self._outbox.sent

    @property
    def heard_ms(self) -> int:
        """How much audio was appended."""
        return self._ear.heard_ms

    @property
    def responses(self) -> int:
        return self._mouth.count

    def to_send(self) -> list[bytes]:
        """Return the text frames to send, in order."""
        return self._outbox.take()

    def next_timeout(self) -> float | None:
        times = (self._mouth.next_timeout, self._agenda.next, self._idle_at)
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> None:
        self._outbox.now = now
        self._mouth.advance(now)
        self._agenda.run(now)
        if self._idle_at is not None and now >= self._idle_at:
            self._caller_was_idle(now)

    def receive(self, frame: str | bytes, now: float) -> None:
        """Take one client frame."""
        self._outbox.now = now
        try:
            event = orjson.loads(frame)
        except orjson.JSONDecodeError:
            self._outbox.refuse(Problem("invalid_json", "The event is not valid JSON."), None)
            return
        if not isinstance(event, dict):
            self._outbox.refuse(Problem("invalid_event", "The event is not a JSON object."), None)
            return
        event_id = event.get("event_id") if isinstance(event.get("event_id"), str) else None
        problem = check_event(event) or self._obey(event, now)
        if problem:
            self._outbox.refuse(problem, event_id)

    def _obey(self, event: Json, now: float) -> Problem | None:
        if event["type"] == "input_audio_buffer.append":
            return self._append(event["audio"], now)
        self.received.append(Recorded(now, event))
        if self._options.note is not None:
            self._options.note("client", event)
        match event["type"]:
            case "session.update":
                return self._update(event["session"])
            case "input_audio_buffer.commit":
                return self._ear.commit(now)
            case "input_audio_buffer.clear":
                self._ear.clear()
            case "conversation.item.create":
                return self._create_item(event)
            case "conversation.item.delete":
                return self._delete_item(event["item_id"])
            case "conversation.item.retrieve":
                return self._retrieve_item(event["item_id"])
            case "conversation.item.truncate":
                return self._truncate_item(event, now)
            case "response.create":
                self._idle_at = None
                return self._mouth.create(event.get("response", {}), now)
            case "response.cancel":
                return self._mouth.cancel(event.get("response_id"), now)
            case other:  # output_audio_buffer.clear
                return Problem("invalid_value", f"'{other}' is only supported over WebRTC and SIP.", "type")
        return None

    def _append(self, text: str, now: float) -> Problem | None:
        if len(text) > MAX_APPEND:
            return Problem("string_above_max_length", "Invalid 'audio': more than 15 MiB.", "audio")
        try:
            audio = base64.b64decode(text, validate=True)
        except binascii.Error:
            message = "Invalid 'audio'. Expected base64-encoded audio bytes, but got an invalid value."
            return Problem("invalid_value", message, "audio")
        self.appends.append((now, len(audio)))
        if len(self.input_audio) < MAX_RECORDED_AUDIO:
            self.input_audio += audio
        self._ear.append(audio, now)
        return None

    def _update(self, changes: JsonView) -> Problem | None:
        fault, self._refuse_update = self._refuse_update, None
        if fault is not None:
            return Problem(fault.setting, wire.error_message(fault.setting), "session")
        problem = self.config.update(changes, spoken=self._mouth.spoken, speaking=self._mouth.active)
        if problem:
            return problem
        self._ear.reconfigure()
        self._director.instruct(self.config.instructions)
        self._outbox.emit("session.updated", session=self.config.session)
        return None

    def _create_item(self, event: Json) -> Problem | None:
        wanted, after = event["item"], event.get("previous_item_id")
        problem = self.conversation.check_new(wanted, after)
        if problem:
            return problem
        item = wire.client_item(wanted, wanted.get("id") or self._ids.new("item"))
        self._notice(item)
        previous = self.conversation.add(item, after)
        self._outbox.emit("conversation.item.added", previous_item_id=previous, item=item)
        self._outbox.emit("conversation.item.done", previous_item_id=previous, item=item)
        return None

    def _notice(self, item: Json) -> None:
        match item["type"], item.get("role"):
            case "message", "user" | "system":
                for part in item["content"]:
                    if part.get("type") == "input_audio":
                        self._director.notice(CallerSpoke(barged_in=False))
                    elif "text" in part:
                        self._director.notice(TextArrived(part["text"]))
            case "message", "assistant":
                self._director.spoke_before()
            case "function_call", _:
                item.setdefault("call_id", self._ids.new("call"))
                self.conversation.called(item["call_id"], item["name"])
            case "function_call_output", _:
                tool = self.conversation.answered(item["call_id"])
                self._director.notice(ToolAnswered(tool, item["output"]))

    def _delete_item(self, item_id: str) -> Problem | None:
        problem = self.conversation.delete(item_id)
        if problem is None:
            self._outbox.emit("conversation.item.deleted", item_id=item_id)
        return problem

    def _retrieve_item(self, item_id: str) -> Problem | None:
        found = self.conversation.retrieve(item_id)
        if isinstance(found, Problem):
            return found
        self._outbox.emit("conversation.item.retrieved", item=found)
        return None

    def _truncate_item(self, event: Json, now: float) -> Problem | None:
        where = {key: event[key] for key in ("item_id", "content_index", "audio_end_ms")}
        problem = self.conversation.truncate(**where)
        if problem is None:
            self._barged_in = True
            self._mouth.playing_until = min(self._mouth.playing_until, now)
            self._outbox.emit("conversation.item.truncated", **where)
        return problem

    # What the ear reports.

    def speech_began(self, now: float) -> None:
        self._idle_at = None
        self._owes_answer = False  # what follows belongs to the same question
        self._barged_in = self._mouth.active or now < self._mouth.playing_until
        detection = self.config.turn_detection
        if detection is not None and detection["interrupt_response"]:
            self._mouth.interrupt(now)

    def turn_ended(self, now: float) -> str:
        words = self._director.transcript(barged_in=self._barged_in)
        self._director.notice(CallerSpoke(self._barged_in))
        self._barged_in = False
        detection = self.config.turn_detection
        if detection is not None and detection["create_response"]:
            # At once, or after the response that this turn was not allowed to interrupt.
            self._owes_answer = True
            self._answer(now)
        return words

    def _answer(self, now: float) -> None:
        if self._owes_answer and not self._mouth.active:
            self._owes_answer = False
            self._mouth.create({}, now)

    def _response_done(self, now: float) -> None:
        self._ear.response_done(now)
        detection = self.config.turn_detection or {}
        if self._owes_answer:
            self._agenda.at(now, self._answer)
        elif detection.get("idle_timeout_ms") and not self._ear.speaking:
            self._idle_from_ms = self._ear.heard_ms
            self._idle_at = max(now, self._mouth.playing_until) + detection["idle_timeout_ms"] / 1000

    def _caller_was_idle(self, now: float) -> None:
        self._idle_at = None
        self._ear.commit_silence(self._idle_from_ms)
        self._director.notice(CallerWasIdle())
        self._mouth.create({}, now)

    # What goes wrong on purpose.

    def _happen(self, fault: Fault) -> None:
        match fault.name:
            case "close":
                self.closing = Close(int(fault.number), "closed on purpose")
            case "stall":
                self._outbox.stalled = True
            case "expire":
                self._expire()
            case "error":
                self._outbox.refuse(Problem(fault.setting, wire.error_message(fault.setting)), None)
            case "phantom_interrupted":
                self._ear.imagine(self._outbox.now)
            case "unknown_event":
                # Past the check of --validate: that is the point of it.
                self._outbox.emit_raw(
                    b'{"type":"session.mood.updated","event_id":"event_unknown","mood":"curious"}'
                )
            case _:
                self._outbox.emit_raw(b'{"type": "response.output_audio.delta", "delta": ')

    def _expire(self) -> None:
        self._outbox.refuse(Problem("session_expired", wire.SESSION_EXPIRED), None)
        self.closing = Close(1001, wire.SESSION_EXPIRED)

    def _lose(self) -> None:
        self.closing = Close(1011, "The server had an error.")
