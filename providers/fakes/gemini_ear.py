"""
The listening side of a Gemini Live session: turns by voice activity or by the client's word. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from providers.fakes import gemini_wire as wire
from providers.fakes.gemini_outbox import Context
from providers.fakes.vad import Detector, VadSettings, VoiceStarted, detector
from providers.types import PCM16_16K, AudioFormat


class Listener(Protocol):
    """Learns what the ear hears."""

    def speech_began(self, now: float) -> None: ...

    def turn_ended(self, now: float) -> str:
        """A turn of the caller is over; returns its words."""
        ...


class Ear:
    """
    Cuts the caller's audio into turns, and writes down what was said.

    Args:
        context: Its ``setup.vad`` is ``None`` where the client marks turns itself.
        listener: Told of speech and of turns, in between the messages that belong to them.
    """

    def __init__(self, context: Context, listener: Listener) -> None:
        self._context = context
        self._listener = listener
        self._format: AudioFormat = PCM16_16K
        self._settings = context.setup.vad or VadSettings()
        timeline = context.script.hearing.timeline
        self._detector: Detector = detector(self._format, self._settings, timeline)
        self._marked = False
        self._began_ms = 0
        fault = context.faults.get("transcript")
        self._mode = fault.setting if fault else ""
        self._held: list[Callable[[float], None]] = []

    @property
    def manual(self) -> bool:
        return self._context.setup.vad is None

    @property
    def speaking(self) -> bool:
        return self._marked if self.manual else self._detector.speaking

    @property
    def heard_ms(self) -> int:
        """All audio so far."""
        return self._detector.heard_ms

    def hear(self, audio: bytes, fmt: AudioFormat, now: float) -> None:
        if fmt != self._format:
            self._format = fmt
            self._detector.follow(fmt, self._settings)
        events = self._detector.hear(audio)
        for event in () if self.manual else events:
            if isinstance(event, VoiceStarted):
                self._begin(event.start_ms, now)
            else:
                self._end(event.end_ms, now)

    def activity_start(self, now: float) -> None:
        """The client says that somebody speaks."""
        if not self._marked:
            self._marked = True
            self._begin(self.heard_ms, now)

    def activity_end(self, now: float) -> None:
        if self._marked:
            self._marked = False
            self._end(self.heard_ms, now)

    def stream_end(self, now: float) -> None:
        """No more audio for a while: what was said so far is a turn."""
        if self._detector.speaking:
            self._detector.reset()
            self._end(self.heard_ms, now)

    def _begin(self, at_ms: int, now: float) -> None:
        self._began_ms = at_ms
        self._signal("ACTIVITY_START", "VAD_SIGNAL_TYPE_SOS", at_ms)
        self._listener.speech_began(now)

    def _end(self, at_ms: int, now: float) -> None:
        self._signal("ACTIVITY_END", "VAD_SIGNAL_TYPE_EOS", at_ms)
        self._context.conversation.tokens.audio += (at_ms - self._began_ms) * wire.TOKENS_PER_SECOND // 1000
        words = self._listener.turn_ended(now)
        if self._context.setup.hears_words:
            self._transcribe(words, now)

    def _signal(self, activity: str, vad: str, at_ms: int) -> None:
        outbox = self._context.outbox
        if not (self.manual or self._context.faults.get("no_activity")):
            outbox.send(wire.voice_activity(activity, at_ms))
        if self._context.setup.vad_signals:
            outbox.send(wire.vad_signal(vad))

    # Transcripts come some time after the turn, in no order with the answer.

    def _transcribe(self, words: str, now: float) -> None:
        def send(_at: float) -> None:
            self._send_words("" if self._mode == "empty" else words)

        match self._mode:
            case "failed":
                pass
            case "late":
                self._held.append(send)
            case "unordered" if not self._held:
                self._held.append(send)
            case _:
                after = self._context.script.hearing.transcript_after_ms / 1000
                self._context.agenda.at(now + after, send)
                self._release(now + after)

    def model_turn_over(self, now: float) -> None:
        """Say that the model's turn is over: transcripts that wait for this come now."""
        if self._mode == "late":
            self._release(now)

    def _release(self, at: float) -> None:
        held, self._held = self._held, []
        for send in held:
            self._context.agenda.at(at, send)

    def _send_words(self, words: str) -> None:
        *most, last = [f" {word}" for word in words.split()] or [""]
        if most:
            self._context.outbox.send(wire.content(inputTranscription={"text": "".join(most)}))
        self._context.outbox.send(wire.content(inputTranscription={"text": last, "finished": True}))
