"""
The listening side of a server session: input buffer, turns, transcripts. No I/O.

All offsets are positions in all audio that was ever appended, as the service counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from providers.fakes.agenda import Agenda
from providers.fakes.faults import Faults
from providers.fakes.openai_billing import transcription
from providers.fakes.openai_config import SessionConfig
from providers.fakes.openai_conversation import Conversation
from providers.fakes.openai_outbox import Outbox
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Ids, Json, error_message, user_audio_item
from providers.fakes.script import Hearing
from providers.fakes.vad import VoiceStarted, detector

_COMMIT_MIN_MS = 100


class Listener(Protocol):
    """Learns what the ear hears."""

    def speech_began(self, now: float) -> None: ...

    def turn_ended(self, now: float) -> str:
        """A turn is in the conversation; returns its words."""
        ...


class Ear:
    """
    Hears audio in the session's format and cuts it into turns.

    Args:
        listener: Told of speech and of turns, in between the events that belong to them.
    """

    def __init__(
        self,
        *,
        outbox: Outbox,
        agenda: Agenda,
        ids: Ids,
        config: SessionConfig,
        conversation: Conversation,
        hearing: Hearing,
        faults: Faults,
        listener: Listener,
    ) -> None:
        self._outbox = outbox
        self._ids = ids
        self._config = config
        self._conversation = conversation
        self._hearing = hearing
        self._listener = listener
        self._transcriber = Transcriber(outbox, agenda, conversation, config, hearing, faults)
        self._manual = config.turn_detection is None
        self._detector = detector(config.input, config.vad(), hearing.timeline)
        self._item_id = ids.new("item")
        self._buffered = 0
        self._speech_at: int | None = None

    @property
    def heard_ms(self) -> int:
        return self._detector.heard_ms

    @property
    def speaking(self) -> bool:
        return self._config.turn_detection is not None and self._detector.speaking

    def reconfigure(self) -> None:
        """Follow the session's settings; the clock goes on."""
        manual = self._config.turn_detection is None
        if manual != self._manual:
            self._manual = manual
            self._detector.reset()
        self._detector.follow(self._config.input, self._config.vad())

    def append(self, audio: bytes, now: float) -> None:
        self._buffered += len(audio)
        events = self._detector.hear(audio)
        if self._config.turn_detection is None:
            return
        for event in events:
            if isinstance(event, VoiceStarted):
                self._speech_at = event.start_ms
                self._outbox.emit(
                    "input_audio_buffer.speech_started", audio_start_ms=event.start_ms, item_id=self._item_id
                )
                self._listener.speech_began(now)
            else:
                self._outbox.emit(
                    "input_audio_buffer.speech_stopped", audio_end_ms=event.end_ms, item_id=self._item_id
                )
                self._commit(now)

    def imagine(self, now: float) -> None:
        """Tell of speech that nobody has heard and that never ends."""
        self._outbox.emit(
            "input_audio_buffer.speech_started", audio_start_ms=self.heard_ms, item_id=self._item_id
        )
        self._listener.speech_began(now)

    def commit(self, now: float) -> Problem | None:
        """Make a turn of what is in the buffer, because the client says so."""
        if self._buffered < _COMMIT_MIN_MS * self._config.input.bytes_per_ms:
            buffered_ms = self._buffered / self._config.input.bytes_per_ms
            message = (
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, "
                f"but buffer only has {buffered_ms:.2f}ms of audio."
            )
            return Problem("input_audio_buffer_commit_empty", message)
        self._detector.reset()
        self._commit(now)
        return None

    def commit_silence(self, start_ms: int) -> None:
        """Commit the silence since ``start_ms``, because the session's idle time is over."""
        self._outbox.emit(
            "input_audio_buffer.timeout_triggered",
            audio_start_ms=start_ms,
            audio_end_ms=self.heard_ms,
            item_id=self._item_id,
        )
        self._add_turn("")

    def clear(self) -> None:
        self._buffered = 0
        self._speech_at = None
        self._detector.reset()
        self._outbox.emit("input_audio_buffer.cleared")

    def _commit(self, now: float) -> None:
        item_id = self._item_id
        item = self._add_turn(None)
        words = self._listener.turn_ended(now)
        if self._config.transcriber is not None:
            self._transcriber.transcribe(item_id, item, words, now)

    def _add_turn(self, transcript: str | None) -> Json:
        item = user_audio_item(self._item_id, transcript)
        self._conversation.heard(self._item_id, self._turn_ms())
        self._speech_at = None
        previous = self._conversation.add(item)
        self._outbox.emit("input_audio_buffer.committed", previous_item_id=previous, item_id=self._item_id)
        self._outbox.emit("conversation.item.added", previous_item_id=previous, item=item)
        self._outbox.emit("conversation.item.done", previous_item_id=previous, item=item)
        self._item_id = self._ids.new("item")
        self._buffered = 0
        return item

    def _turn_ms(self) -> int:
        """How long the turn is: from where speech began, or all that is in the buffer."""
        if self._speech_at is not None:
            return self.heard_ms - self._speech_at
        return self._buffered // self._config.input.bytes_per_ms

    def response_done(self, now: float) -> None:
        """Say that a response is over: transcripts that wait for this come now."""
        self._transcriber.release(now)


class Transcriber:
    """Sends what the caller said, some time after the turn, as the service does."""

    def __init__(
        self,
        outbox: Outbox,
        agenda: Agenda,
        conversation: Conversation,
        config: SessionConfig,
        hearing: Hearing,
        faults: Faults,
    ) -> None:
        self._outbox = outbox
        self._agenda = agenda
        self._conversation = conversation
        self._config = config
        self._after = hearing.transcript_after_ms / 1000
        fault = faults.get("transcript")
        self._mode = fault.setting if fault else ""
        self._held: list[Callable[[float], None]] = []

    def transcribe(self, item_id: str, item: Json, words: str, now: float) -> None:
        def send(_at: float) -> None:
            self._send(item_id, item, words)

        match self._mode:
            case "late":
                self._held.append(send)
            case "unordered" if not self._held:
                self._held.append(send)
            case _:
                self._agenda.at(now + self._after, send)
                for held in self._held:
                    self._agenda.at(now + self._after, held)
                self._held.clear()

    def release(self, now: float) -> None:
        if self._mode == "late":
            for held in self._held:
                self._agenda.at(now + self._after, held)
            self._held.clear()

    def _send(self, item_id: str, item: Json, words: str) -> None:
        kind = "conversation.item.input_audio_transcription"
        if self._mode == "failed":
            failure = {"type": "server_error", "code": "transcription_failed", "param": None}
            failure["message"] = error_message("transcription_failed")
            self._outbox.emit(f"{kind}.failed", item_id=item_id, content_index=0, error=failure)
            return
        text = "" if self._mode == "empty" else words
        for index, word in enumerate(text.split()):
            delta = f" {word}" if index else word
            self._outbox.emit(f"{kind}.delta", item_id=item_id, content_index=0, delta=delta)
        item["content"][0]["transcript"] = text
        used = transcription(self._config.transcriber or "", self._conversation.audio_ms(item_id), text)
        self._outbox.emit(f"{kind}.completed", item_id=item_id, content_index=0, transcript=text, usage=used)
