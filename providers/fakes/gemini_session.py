"""
One session of the Gemini Live server, without a socket.

The owner calls :meth:`LiveSession.receive` or :meth:`LiveSession.handle_timeout`, then sends what
:meth:`LiveSession.to_send` gives, as binary frames, then sleeps until :meth:`LiveSession.next_timeout`; when
``closing`` is set it closes the connection so, and when the connection is over it calls
:meth:`LiveSession.disconnected`. Time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from providers.fakes import gemini_wire as wire
from providers.fakes.agenda import Agenda
from providers.fakes.director import CallerSpoke, Director, TextArrived, ToolAnswered
from providers.fakes.faults import HANDSHAKE, Fault, FaultError, Faults, Service, parse_faults
from providers.fakes.gemini_conversation import Conversation, Link, OpenCall, Resumptions, Scheduling
from providers.fakes.gemini_ear import Ear
from providers.fakes.gemini_models import Backend, Behavior
from providers.fakes.gemini_mouth import Mouth, Phase
from providers.fakes.gemini_outbox import MAX_RECORDED, Context, Outbox, Sent
from providers.fakes.gemini_setup import INVALID, UNSUPPORTED, Setup, read_setup, text_of
from providers.fakes.gemini_shapes import Json, JsonView, Refused, read_message
from providers.fakes.journal import Note
from providers.fakes.pump import Close
from providers.fakes.script import Script

MAX_RECORDED_AUDIO = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Options:
    """What a session is made of."""

    script: Script
    resumptions: Resumptions
    faults: Faults = Faults()  # noqa: RUF009
    backend: Backend = Backend.STUDIO
    refusal: Refused | None = None
    """Why the client may not have a session at all, told after its set-up."""
    session_id: str = "session-1"
    connection_seconds: float = 600.0
    """A connection is closed after so long."""
    warning_seconds: float = 60.0
    """``goAway`` comes so long before that."""
    audio_seconds: float = 900.0
    """A conversation without compression of its context ends after so long, however it is resumed."""
    check: Callable[[Json], str | None] | None = None
    """Returns what is wrong with a server message; such a message raises."""
    note: Note | None = None
    """Is told each message, but no audio, as it comes or goes, and why a client was refused."""


class LiveSession:
    """
    A connection of one client.

    ``received`` and ``sent`` record messages with their times; ``input_audio`` is all audio, as it came,
    up to a limit. ``setup`` is ``None`` until the client has sent a good one.
    """

    def __init__(self, options: Options, *, now: float) -> None:
        self._options = options
        self._agenda = Agenda()
        self._outbox = Outbox(options.check, options.note)
        self._outbox.now = now
        self._context: Context | None = None
        self._began = now
        self.faults = options.faults
        self.closing: Close | None = None
        self._link = Link()
        self.received: deque[Sent] = deque(maxlen=MAX_RECORDED)
        self.appends: deque[tuple[float, int]] = deque(maxlen=MAX_RECORDED)
        self.input_audio = bytearray()
        self._consumed = 0
        self._barged_in = False
        self._owes_answer = False
        self._in_history = False
        self._resumable = True
        self._texts = 0

    @property
    def sent(self) -> deque[Sent]:
        """The messages that were sent, without audio."""
        return self._outbox.sent

    @property
    def setup(self) -> Setup | None:
        return self._context.setup if self._context else None

    @property
    def conversation(self) -> Conversation:
        """What is remembered; only after set-up."""
        assert self._context is not None, "the session was not set up"
        return self._context.conversation

    @property
    def heard_ms(self) -> int:
        """How much audio was heard."""
        return self._ear.heard_ms if self._context else 0

    @property
    def turns(self) -> int:
        """How often the model began to answer."""
        return self._mouth.count if self._context else 0

    def to_send(self) -> list[bytes]:
        """Return the frames to send, in order."""
        return self._outbox.take()

    def next_timeout(self) -> float | None:
        times = [self._agenda.next, self._mouth.next_timeout if self._context else None]
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> None:
        self._outbox.now = now
        if self.closing:
            return
        if self._context:
            self._mouth.advance(now)
        self._agenda.run(now)

    def disconnected(self) -> None:
        """Note that the connection is over: its handles may be used now."""
        self._link.open = False

    def receive(self, frame: str | bytes, now: float) -> None:
        """Take one client frame; a bad one closes the connection."""
        self._outbox.now = now
        if self.closing:
            return
        try:
            try:
                value = orjson.loads(frame)
            except orjson.JSONDecodeError:
                raise Refused(1007, "Invalid JSON payload received.") from None
            self._obey(value, now)
        except Refused as refused:
            self.closing = Close(refused.code, refused.reason)
            if self._options.note is not None:
                self._options.note("server", {"close": {"code": refused.code, "reason": refused.reason}})

    def _obey(self, value: object, now: float) -> None:
        message = read_message(value)
        [(kind, body)] = message.items()
        if self._context is None:
            self._record(message, now)
            if kind != "setup":
                raise Refused(1007, "The first message must be a setup message.")
            self._set_up(body, now)
            return
        self._consumed += 1
        if kind == "realtimeInput" and set(body) == {"audio"}:
            self._hear(body["audio"], now)
            return
        self._record(message, now)
        match kind:
            case "realtimeInput":
                self._take_input(body, now)
            case "clientContent":
                self._take_content(body, now)
            case "toolResponse":
                self._take_answers(body, now)
            case "contextUpdate":
                self._update(body)
            case _:
                raise Refused(1007, "The setup message must be the first message, and the only one.")

    def _record(self, message: Json, now: float) -> None:
        """Write a message down, without audio that comes with something else."""
        body = message.get("realtimeInput", {})
        if "audio" in body:
            body = {**body, "audio": {"mimeType": body["audio"].get("mimeType", "")}}
            message = {"realtimeInput": body}
        self.received.append(Sent(now, message))
        if self._options.note is not None:
            self._options.note("client", message)

    # The first message.

    def _set_up(self, body: Json, now: float) -> None:
        if self._options.refusal:
            raise self._options.refusal
        name, _, suffix = str(body.get("model", "")).partition("~")
        self.faults = self.faults + _faults_of(suffix)
        setup = read_setup({**body, "model": name}, self._options.backend)
        conversation = self._resumed(setup, now)
        self._context = Context(
            setup, conversation, self._outbox, self._agenda, self.faults, self._options.script
        )
        self._mouth = Mouth(self._context, self)
        self._ear = Ear(self._context, self)
        self._began = now
        self._in_history = setup.history_first
        self._schedule(now)
        if not self.closing:
            self._outbox.send({"setupComplete": {"sessionId": self._options.session_id}})
            self._save(now)

    def _resumed(self, setup: Setup, now: float) -> Conversation:
        if not setup.handle:
            return Conversation(Director(self._options.script, setup.instructions))
        refusal = self.faults.get("refuse_resume")
        if refusal:
            raise Refused(int(refusal.number), "BidiGenerateContent session not found")
        conversation = self._options.resumptions.resume(setup.handle, model=setup.name, now=now)
        conversation.director.instruct(setup.instructions)
        return conversation

    def _schedule(self, now: float) -> None:
        for fault in self.faults.timed():
            if not fault.at:
                self._happen(fault, now)
            else:
                self._agenda.at(now + fault.at, lambda at, fault=fault: self._happen(fault, at))  # type: ignore[misc]
        context, options = self._context, self._options
        assert context is not None
        seconds = options.connection_seconds
        if not context.setup.compression:
            seconds = min(seconds, max(0.0, options.audio_seconds - context.conversation.seconds))
        left = min(seconds, options.warning_seconds)
        self._agenda.at(now + seconds - left, lambda at: self._go_away(left, at))
        if options.script.lose_after is not None:
            self._agenda.at(now + options.script.lose_after, lambda _at: self._close(1011))

    # What the client sends.

    def _hear(self, blob: JsonView, now: float) -> None:
        audio, fmt = wire.decode_audio(blob)
        self.appends.append((now, len(audio)))
        if len(self.input_audio) < MAX_RECORDED_AUDIO:
            self.input_audio += audio
        if self.conversation.blocked and self.faults.get("tool_audio"):
            raise Refused(1008, UNSUPPORTED)
        if not self._in_history:
            self._ear.hear(audio, fmt, now)

    def _take_input(self, body: Json, now: float) -> None:
        if "mediaChunks" in body:
            raise Refused(1007, "media_chunks is deprecated. Use audio, video, or text instead.")
        if ("activityStart" in body or "activityEnd" in body) and not self._ear.manual:
            reason = "Explicit activity control is not supported with automatic activity detection."
            raise Refused(1007, reason)
        if body.get("audioStreamEnd") and self._ear.manual:
            raise Refused(1007, "audioStreamEnd needs automatic activity detection.")
        if "activityStart" in body:
            self._ear.activity_start(now)
        if "audio" in body:
            self._hear(body["audio"], now)
        if "activityEnd" in body:
            self._ear.activity_end(now)
        if body.get("audioStreamEnd"):
            self._ear.stream_end(now)
        if "text" in body and not self._in_history:
            self._read(body["text"], now)

    def _read(self, text: str, now: float) -> None:
        self._texts += 1
        fault = self.faults.get("ignored_text")
        if fault and self._texts <= fault.number:
            return
        self._notice("user", text)
        self._stop_for_input(now)
        self._owe(now)

    def _notice(self, role: str, text: str) -> None:
        self.conversation.add(role, text)
        if role == "user":
            self.conversation.director.notice(TextArrived(text))
        elif not (
            self.turns or self.setup is None or self.setup.handle
        ):  # a history, in a session of its own
            self.conversation.director.spoke_before()

    def _stop_for_input(self, now: float) -> None:
        """New input of the user stops the model, unless the session was set up otherwise."""
        assert self._context is not None
        if self._context.setup.interrupts:
            self._mouth.interrupt(now)

    def _take_content(self, body: Json, now: float) -> None:
        assert self._context is not None
        model, complete = self._context.setup.model, bool(body.get("turnComplete"))
        if model.history_needs_config and not self._in_history:
            raise Refused(1007, INVALID)
        for turn in body.get("turns", ()):
            if turn.get("role") not in ("user", "model"):
                raise Refused(1007, "Please use a valid role: user, model.")
        if not self._in_history and (complete or model.content_always_interrupts):
            self._mouth.interrupt(now)
        for turn in body.get("turns", ()):
            self._notice(turn["role"], text_of(turn))
        if self._in_history:
            self._in_history = not complete
            if complete:
                self._save(now)
        elif complete:
            self._owe(now)

    def _take_answers(self, body: Json, now: float) -> None:
        for answer in body.get("functionResponses", ()):
            if not answer.get("id") or not answer.get("name"):
                raise Refused(1007, INVALID)
            if answer.get("willContinue"):
                continue  # a part of an answer; the call stays open
            call = self.conversation.answered(answer)
            if call is None:
                continue
            output = orjson.dumps(answer.get("response", {})).decode()
            self.conversation.director.notice(ToolAnswered(call.name, output))
            wanted = self.conversation.want(call.batch, _scheduling(call, answer))
            if wanted is not None:
                self._all_answered(wanted, now)

    def _all_answered(self, scheduling: Scheduling, now: float) -> None:
        """Every call of one message has its answer: speak about it as the answers ask for."""
        if self._mouth.phase is Phase.WAITING:
            self._mouth.go_on(now)
            return
        if scheduling is Scheduling.INTERRUPT and not self._ear.speaking:
            self._mouth.interrupt(now)
        if scheduling is not Scheduling.SILENT:
            self._owe(now)
        elif not (self._mouth.active or self.conversation.open):
            self._save(now)

    def _update(self, body: Json) -> None:
        assert self._context is not None
        if not self._context.setup.model.context_updates:
            raise Refused(1007, UNSUPPORTED)
        self._context.setup = self._context.setup.updated(body)
        self.conversation.director.instruct(self._context.setup.instructions)

    # What the ear and the mouth report.

    def speech_began(self, now: float) -> None:
        self._barged_in = self._mouth.active
        self._stop_for_input(now)

    def turn_ended(self, now: float) -> str:
        director = self.conversation.director
        words = director.transcript(barged_in=self._barged_in)
        director.notice(CallerSpoke(self._barged_in))
        self.conversation.add("user", words, spoken=True)
        self._barged_in = False
        self._owe(now)
        return words

    def turn_began(self, now: float) -> None:
        self._not_resumable()

    def turn_over(self, now: float) -> None:
        self._ear.model_turn_over(now)
        if not self.conversation.open:
            self._save(now)
        if self._owes_answer:
            self._agenda.at(now, self._answer)

    def _owe(self, now: float) -> None:
        self._owes_answer = True
        self._answer(now)

    def _answer(self, now: float) -> None:
        """Answer, if an answer is due and nothing stands in the way; what ends that calls again."""
        if self._owes_answer and not (self._mouth.active or self._ear.speaking or self._stuck(now)):
            self._owes_answer = False
            self._mouth.answer(now)

    def _stuck(self, now: float) -> bool:
        """Whether the model cannot speak because a call waits for its answer."""
        wedge, since = self.faults.get("wedge"), self.conversation.waits_since()
        wedged = wedge is not None and since is not None and now >= since + wedge.number
        return wedged or self.conversation.blocked

    # Resumption.

    def _save(self, now: float) -> None:
        """Give out a handle for the conversation as it is now."""
        context = self._context
        assert context is not None
        if not context.setup.resumption:
            return
        if self.faults.get("no_handles"):
            self._not_resumable()
            return
        snapshot = context.conversation.snapshot()
        snapshot.seconds += now - self._began
        handle = self._options.resumptions.save(snapshot, model=context.setup.name, link=self._link, now=now)
        self._resumable = True
        self._outbox.send(wire.resumption(handle, consumed=self._index))

    def _not_resumable(self) -> None:
        assert self._context is not None
        if self._context.setup.resumption and self._resumable:
            self._resumable = False
            self._outbox.send(wire.resumption("", consumed=self._index))

    @property
    def _index(self) -> int | None:
        assert self._context is not None
        return self._consumed if self._context.setup.transparent else None

    # Ends, and what goes wrong on purpose.

    def _close(self, code: int, reason: str | None = None) -> None:
        self.closing = Close(code, wire.CLOSE_REASONS.get(code, "") if reason is None else reason)

    def _go_away(self, left: float, now: float) -> None:
        self._outbox.send({"goAway": {"timeLeft": wire.duration(left)}})
        if self.faults.get("hush"):
            self._outbox.stalled = True
        other = self.faults.get("deadline")
        after = other.number if other else left
        self._agenda.at(now + after, lambda _at: self._close(1011, wire.EXPIRED))

    def _happen(self, fault: Fault, now: float) -> None:
        match fault.name:
            case "close":
                self._close(int(fault.number))
            case "stall":
                self._outbox.stalled = True
            case "expire":
                self._close(1011, wire.EXPIRED)
            case "error":
                # Past the check of --validate, as the two below: no type of the SDK has these.
                self._outbox.send_raw(orjson.dumps(wire.error(fault.setting)))
            case "unknown_event":
                self._outbox.send_raw(b'{"moodUpdate": {"mood": "curious"}}')
            case "garbage":
                self._outbox.send_raw(b'{"serverContent": {"modelTurn": ')
            case "phantom_interrupted":
                self._mouth.interrupt(now, phantom=True)
            case _:
                self._go_away(fault.number, now)


def _faults_of(suffix: str) -> Faults:
    """Return the faults behind the name of a model."""
    try:
        faults = parse_faults(suffix, Service.GEMINI)
    except FaultError as error:
        raise Refused(1007, str(error)) from error
    late = [fault.name for fault in faults.all if fault.name in HANDSHAKE]
    if late:
        raise Refused(1007, f"{late[0]} is of the handshake; write it in the query or in X-Fake-Fault")
    return faults


def _scheduling(call: OpenCall, answer: JsonView) -> Scheduling:
    name = answer.get("scheduling", "WHEN_IDLE")
    if call.behavior is Behavior.BLOCKING or name not in Scheduling.__members__:
        return Scheduling.WHEN_IDLE
    return Scheduling[name]
