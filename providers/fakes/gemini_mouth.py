"""
The speaking side of a Gemini Live session: one turn of the model at a time. No I/O.

A turn is parts of audio, calls in between, ``generationComplete`` when nothing more will come, and
``turnComplete`` when a client that plays in real time has played it all; or ``interrupted`` and
``turnComplete``, as soon as somebody speaks. What follows a blocking call belongs to the same turn.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from providers.fakes import gemini_wire as wire
from providers.fakes.director import Reaction
from providers.fakes.faults import Fault
from providers.fakes.gemini_conversation import OpenCall
from providers.fakes.gemini_models import Behavior
from providers.fakes.gemini_outbox import Context
from providers.fakes.gemini_shapes import Json
from providers.fakes.performance import (
    ArgumentsPiece,
    Beat,
    CallBegan,
    CallEnded,
    Piece,
    SpeechBegan,
    SpeechEnded,
    SpeechPiece,
    at_amplitude,
    perform,
)
from providers.fakes.pump import Close
from providers.fakes.script import Pace, Status
from providers.fakes.speech import silence
from providers.types import PCM16_24K

PARTS_MS = (40, 100, 60, 80)
"""Lengths of parts in turn, where the script sets none of its own."""
SEARCH = "google_search"
"""A call of this name in a script is Google's own search, where the session has it."""
_HUGE_BYTES = 800_000
"""As base64 more than 1 MiB."""
_REASONS = frozenset({
    "RESPONSE_REJECTED", "PROHIBITED_INPUT_CONTENT", "GENERATED_AUDIO_SAFETY", "GENERATED_OTHER",
    "MALFORMED_FUNCTION_CALL", "NEED_MORE_INPUT", "BLOCKLIST", "MAX_REGENERATION_REACHED",
})  # fmt: skip


class Phase(Enum):
    """What the model does."""

    IDLE = "idle"
    SPEAKING = "speaking"
    WAITING = "waiting"
    """For the answers to blocking calls, in the middle of a turn."""
    PLAYING = "playing"
    """All was generated; a client still plays it."""


class Listener(Protocol):
    """Learns what the mouth does."""

    closing: Close | None

    def turn_began(self, now: float) -> None: ...

    def turn_over(self, now: float) -> None: ...


@dataclass(slots=True)
class _Turn:
    """What was sent of the turn so far."""

    said: str = ""
    audio_ms: int = 0
    text_tokens: int = 0
    reason: str = ""
    """Of an end without success."""
    joined: list[Json] = field(default_factory=list)
    """Parts that wait to leave in one message with the next."""
    calls: list[OpenCall] = field(default_factory=list)
    arguments: list[Json] = field(default_factory=list)
    text: str = ""
    """Of the arguments of the call that is being made."""
    searched: list[str] = field(default_factory=list)
    """What Google was asked, by a call that no client sees."""


class Mouth:
    """Begins, advances and stops turns."""

    def __init__(self, context: Context, listener: Listener) -> None:
        self._context = context
        self._listener = listener
        self._beats: Iterator[Beat] = iter(())
        self._next: Piece | None = None
        self._due = 0.0
        self._turn = _Turn()
        self._messages = itertools.count()
        self._ids = itertools.count(len(context.conversation.calls) + 1)
        self._batch = 0
        self._now = 0.0
        self._dies_at: int | None = None
        self._die: Fault | None = None
        self.phase = Phase.IDLE
        self.count = 0
        self.playing_until = 0.0
        """When a client that plays at once has played everything."""
        self.frozen = False

    @property
    def active(self) -> bool:
        return self.phase is not Phase.IDLE

    @property
    def next_timeout(self) -> float | None:
        return self._due if self.phase in (Phase.SPEAKING, Phase.PLAYING) else None

    def answer(self, now: float) -> None:
        """Begin a turn; what was noticed decides what is said."""
        if self.frozen:
            return
        self._now = self._due = now
        self._turn = _Turn()
        self.phase = Phase.SPEAKING
        self._listener.turn_began(now)
        self._beats = self._react()
        self._fetch()
        self.advance(now)

    def go_on(self, now: float) -> None:
        """Continue the turn that waited for the answers to its calls."""
        self._now = self._due = now
        self.phase = Phase.SPEAKING
        rest: Iterator[Beat] = iter([(0.0, self._next)] if self._next is not None else [])
        self._beats = itertools.chain(rest, self._beats, self._react())
        self._fetch()
        self.advance(now)

    def advance(self, now: float) -> None:
        """Send everything that is due."""
        self._now = now
        while self.phase is Phase.SPEAKING and self._due <= now:
            if self._next is None:
                self._generated()
            else:
                piece = self._next
                self._fetch()
                self._play(piece)
        if self.phase is Phase.PLAYING and self._due <= now:
            self._complete()

    def interrupt(self, now: float, *, phantom: bool = False) -> None:
        """Stop because somebody speaks, or for no reason."""
        if not (self.active or phantom):
            return
        self._now = now
        faults = self._context.faults
        self._cancel_calls()
        if phantom or faults.get("no_interrupted") is None:
            self._send(interrupted=True)
        self._turn.joined.clear()
        beats, late = self._rest(), faults.get("late_deltas", response=self.count)
        self._overrun(beats, late)
        self.playing_until = now
        self.frozen = faults.get("freeze") is not None
        self._complete()
        self._overrun(beats, faults.get("stray_deltas", response=self.count))

    def _rest(self) -> Iterator[Beat]:
        """Return what would have been said."""
        rest: list[Beat] = [(0.0, self._next)] if self._next is not None else []
        beats, self._next, self._beats = itertools.chain(rest, self._beats), None, iter(())
        return beats

    def _overrun(self, beats: Iterator[Beat], fault: Fault | None) -> None:
        pieces = (piece for _, piece in beats if isinstance(piece, SpeechPiece))
        for piece in itertools.islice(pieces, int(fault.number) if fault else 0):
            self._send(modelTurn=wire.model_turn([wire.audio_part(piece.audio)]))

    # What to say.

    def _react(self) -> Iterator[Beat]:
        self.count += 1
        faults, number = self._context.faults, self.count
        reaction = self._context.conversation.director.react()
        unheard = faults.get("rejected", response=number) or faults.get("no_audio", response=number)
        if unheard:
            self._context.conversation.director.take_back()
            self._turn.reason = unheard.setting if unheard.name == "rejected" else ""
            return iter(())
        if reaction.outcome.status is not Status.COMPLETED:
            other = "RESPONSE_REJECTED" if reaction.outcome.status is Status.FAILED else "GENERATED_OTHER"
            self._turn.reason = reaction.outcome.code if reaction.outcome.code in _REASONS else other
        return self._spoilt(self._performed(reaction))

    def _performed(self, reaction: Reaction) -> Iterator[Beat]:
        slow = self._context.faults.get("slow_arguments", response=self.count)
        pace = self._context.script.pace
        if pace.delta_ms == Pace().delta_ms:
            pace = Pace(speed=pace.speed, delta_ms=PARTS_MS, latency_ms=pace.latency_ms)
        return perform(reaction, wire.OUTPUT, pace, arguments_for=slow.number if slow else 0.0)

    def _spoilt(self, beats: Iterator[Beat]) -> Iterator[Beat]:
        """Apply the faults that change what is said."""
        faults, number = self._context.faults, self.count
        if faults.get("huge_delta", response=number):
            beats = _in_one_part(beats)
        quiet = faults.get("silent_audio", response=number)
        if quiet:
            beats = at_amplitude(beats, int(quiet.number), PCM16_24K)
        if faults.get("thoughts", response=number):
            self._think()
        self._die = faults.get("die", response=number)
        if self._die:
            whole = list(beats)
            pieces = [index for index, (_, piece) in enumerate(whole) if isinstance(piece, SpeechPiece)]
            self._dies_at = len(pieces) // 2 if pieces else None
            beats = iter(whole)
        return beats

    def _think(self) -> None:
        self._send(modelTurn=wire.model_turn([{"text": "The caller waits for an answer.", "thought": True}]))

    def _fetch(self) -> None:
        wait, self._next = next(self._beats, (0.0, None))
        self._due += wait

    # What leaves.

    def _play(self, piece: Piece) -> None:
        match piece:
            case SpeechBegan():
                pass
            case SpeechPiece():
                self._speak(piece)
            case SpeechEnded():
                self._flush()
                if self._context.setup.shows_words:
                    self._send(outputTranscription={"finished": True})
            case CallBegan(tool):
                self._turn.text = ""
                self._begin_call(tool)
            case ArgumentsPiece(text):
                self._turn.text += text
            case CallEnded():
                self._end_call()

    def _speak(self, piece: SpeechPiece) -> None:
        if self._dies_at == 0:
            self._dies_at = None
            assert self._die is not None
            self._listener.closing = Close(int(self._die.number), "died in the middle of a sentence")
            self.phase = Phase.IDLE
            return
        if self._dies_at is not None:
            self._dies_at -= 1
        ms = len(piece.audio) // wire.OUTPUT.bytes_per_ms
        turn = self._turn
        turn.said += piece.text
        turn.audio_ms += ms
        self.playing_until = max(self.playing_until, self._now) + ms / 1000
        turn.joined.append(wire.audio_part(piece.audio))
        words = {"text": piece.text} if piece.text and self._context.setup.shows_words else None
        # One part in a message, words in front of it, words with it, two parts at once: all of it happens.
        match next(self._messages) % 4, words:
            case 0, dict():
                self._flush(outputTranscription=words)
            case ((1 | 2), dict()):
                self._send(outputTranscription=words)
                self._flush()
            case 3, dict():
                self._send(outputTranscription=words)
            case 3, _:
                pass  # leaves with the next
            case _:
                self._flush()

    def _flush(self, **beside: Json) -> None:
        if self._turn.joined or beside:
            parts, self._turn.joined = self._turn.joined, []
            turn = {"modelTurn": wire.model_turn(parts)} if parts else {}
            self._send(**turn, **beside)

    def _begin_call(self, tool: str) -> None:
        setup = self._context.setup
        behavior = setup.tools.get(tool, setup.model.default_behavior)
        self._turn.calls.append(OpenCall(f"function-call-{next(self._ids)}", tool, behavior, self._batch))

    def _end_call(self) -> None:
        turn = self._turn
        turn.text_tokens += len(turn.text) // 4 + 1
        try:
            arguments = json.loads(turn.text or "{}")
        except json.JSONDecodeError:
            arguments = None
        if not isinstance(arguments, dict):
            self._abandon("MALFORMED_FUNCTION_CALL")
            return
        turn.arguments.append(arguments)
        if not isinstance(self._next, CallBegan):
            self._call()

    def _call(self) -> None:
        """Send the calls that were made since the last speech, in one message."""
        turn, conversation = self._turn, self._context.conversation
        self._batch += 1
        made = list(zip(turn.calls, turn.arguments, strict=True))
        turn.calls, turn.arguments = [], []
        if self._context.setup.searches:
            turn.searched += [str(args.get("query", "")) for call, args in made if call.name == SEARCH]
            made = [(call, args) for call, args in made if call.name != SEARCH]
        if not made:
            return
        for call, _ in made:
            call.at = self._now
            conversation.called(call)
        message = wire.tool_call((call.id, call.name, args) for call, args in made)
        self._context.outbox.send({**message, "usageMetadata": self._usage()})
        if any(call.behavior is Behavior.BLOCKING for call, _ in made):
            self.phase = Phase.WAITING

    def _abandon(self, reason: str) -> None:
        """End the turn here."""
        self._turn.reason = reason
        self._turn.calls.clear()
        self._turn.arguments.clear()
        self._rest()

    def _cancel_calls(self) -> None:
        if self._context.faults.get("no_cancellation") is None:
            ids = self._context.conversation.cancel(Behavior.BLOCKING)
            if ids:
                self._context.outbox.send({"toolCallCancellation": {"ids": ids}})

    def _generated(self) -> None:
        self._flush()
        if self._turn.reason:
            self._complete()
            return
        self._send(generationComplete=True)
        self.phase = Phase.PLAYING
        self._due = max(self._now, self.playing_until)

    def _complete(self) -> None:
        turn, context = self._turn, self._context
        end: Json = {"turnComplete": True}
        if turn.reason:
            end["turnCompleteReason"] = turn.reason
        if turn.searched:
            end["groundingMetadata"] = wire.grounding(turn.searched)
        if context.setup.model.reports_interaction:
            end["interactionStatus"] = "IN_PROGRESS" if context.conversation.open else "IDLE"
        context.outbox.send({"serverContent": end, "usageMetadata": self._usage()})
        self.phase = Phase.IDLE
        if turn.said:
            context.conversation.add("model", turn.said, spoken=True)
        context.conversation.tokens.audio += turn.audio_ms * wire.TOKENS_PER_SECOND // 1000
        context.conversation.tokens.text += turn.text_tokens
        self._turn = _Turn()
        self._listener.turn_over(self._now)

    def _usage(self) -> Json:
        tokens = self._context.conversation.tokens
        return wire.usage(
            text_in=tokens.text + len(self._context.setup.instructions) // 4 + 1,
            audio_in=tokens.audio,
            text_out=self._turn.text_tokens,
            audio_out=self._turn.audio_ms * wire.TOKENS_PER_SECOND // 1000,
        )

    def _send(self, **fields: object) -> None:
        self._context.outbox.send(wire.content(**fields))


def _in_one_part(beats: Iterator[Beat]) -> Iterator[Beat]:
    audio, text, waited = b"", "", 0.0
    for wait, piece in beats:
        if isinstance(piece, SpeechPiece):
            audio, text, waited = audio + piece.audio, text + piece.text, waited + wait
            continue
        if isinstance(piece, SpeechEnded):
            missing_ms = max(0, _HUGE_BYTES - len(audio)) // wire.OUTPUT.bytes_per_ms + 1
            yield waited, SpeechPiece(audio + silence(missing_ms, wire.OUTPUT), text)
            audio, text, waited = b"", "", 0.0
        yield wait, piece
