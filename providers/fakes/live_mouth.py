"""
The voice of a GPT-Live session: one continuous stream of audio, on the session's own clock. No I/O.

The clock is the caller's audio: so much audio comes out as went in, silence where nothing is said. Nothing
ever comes faster than that, and nothing at all while the caller's audio stays away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from providers.fakes.director import Reaction
from providers.fakes.faults import Faults
from providers.fakes.openai_wire import JsonField
from providers.fakes.performance import words_by_ms
from providers.fakes.script import Call, Say
from providers.fakes.speech import hum, render, silence
from providers.types import AudioFormat

YIELD_MS = 200
"""So long the model goes on when it hears that the caller speaks."""
_WORDS_MS = 200
"""A piece of the transcript has the words of so much speech."""
_MAX_TURNS = 32


@dataclass(slots=True)
class Turn:
    """One reaction that is being carried out."""

    number: int
    reaction: Reaction
    begin_ms: int
    """When it begins, on the session's clock."""
    acts: deque[Say | Call] = field(default_factory=deque)
    audio: bytes = b""
    at: int = 0
    """What of ``audio`` was sent."""
    words: deque[tuple[int, int, str]] = field(default_factory=deque)
    began_ms: int = 0
    """When this utterance began."""
    begun: bool = False
    early: tuple[Call, ...] = ()
    """Calls that come with the first sound (fault ``early_calls``)."""

    @property
    def speaking(self) -> bool:
        return self.at < len(self.audio)


class Mouth:
    """
    Says and calls what the reactions want, one after the other.

    Args:
        emit: Sends an event; ``emit_audio`` a piece of audio.
        call: Is told of the tool calls of a turn, when their time has come.
        cut: Is told that the connection is to end in the middle of a sentence (fault ``die``).
    """

    def __init__(
        self,
        *,
        emit: Callable[..., None],
        emit_audio: Callable[[bytes], None],
        call: Callable[[Turn, tuple[Call, ...]], None],
        cut: Callable[[int], None],
        faults: Faults,
        latency_ms: int,
        frame_ms: int,
    ) -> None:
        self._emit = emit
        self._emit_audio = emit_audio
        self._call = call
        self._cut = cut
        self._faults = faults
        self._latency_ms = latency_ms
        self._frame_ms = frame_ms
        self._format: AudioFormat | None = None
        self._silence = b""
        self._turns: deque[Turn] = deque(maxlen=_MAX_TURNS)
        self._stop_at: int | None = None
        self.clock_ms = 0
        """How much audio came out."""
        self.quiet_since_ms = 0
        self.count = 0

    def use(self, fmt: AudioFormat) -> None:
        """Speak in this format; to be told once, before anything else."""
        self._format = fmt
        self._silence = silence(self._frame_ms, fmt)

    @property
    def speaking(self) -> bool:
        """Whether the caller hears words now."""
        return bool(self._turns) and self._turns[0].speaking

    @property
    def busy(self) -> bool:
        return bool(self._turns)

    def play(self, reaction: Reaction, number: int) -> None:
        """Carry out a reaction when those before it are done."""
        after_ms = round(reaction.after * 1000) + self._latency_ms
        self._turns.append(Turn(number, reaction, self.clock_ms + after_ms, deque(reaction.acts)))

    def stop(self) -> None:
        """Yield: the turn that is spoken ends in a moment, and what it still wanted is dropped."""
        if self._turns and not self._faults.get("keeps_talking", response=self._turns[0].number):
            self._stop_at = self.clock_ms + YIELD_MS

    def advance(self, until_ms: int) -> None:
        """Speak until the clock stands so."""
        while self.clock_ms + self._frame_ms <= until_ms:
            self._frame()

    def _frame(self) -> None:
        if self._stop_at is not None and self.clock_ms >= self._stop_at:
            self._stop_at = None
            if self._turns:
                self._turns.popleft()
        self._prepare()
        turn = self._turns[0] if self._turns else None
        if turn is None or not turn.speaking:
            self._emit_audio(self._silence)
        else:
            self._speak(turn)
            self.quiet_since_ms = self.clock_ms + self._frame_ms
        self.clock_ms += self._frame_ms

    def _prepare(self) -> None:
        """Begin what is due, until something has to be said or nothing is left."""
        while self._turns:
            turn = self._turns[0]
            if turn.speaking or self.clock_ms < turn.begin_ms:
                return
            if not turn.acts:
                self._turns.popleft()
                self._stop_at = None
            elif isinstance(turn.acts[0], Say):
                self._begin(turn, turn.acts.popleft())
            else:
                self._call(turn, self._take_calls(turn))

    def _begin(self, turn: Turn, say: Say | Call) -> None:
        assert isinstance(say, Say)
        assert self._format is not None
        turn.audio, turn.at, turn.began_ms = render(say.sound, self._format), 0, self.clock_ms
        total_ms = len(turn.audio) // self._format.bytes_per_ms
        turn.words = deque(words_by_ms(say.text, total_ms, _WORDS_MS))
        silent = self._faults.get("silent_audio", response=turn.number)
        if silent:
            turn.audio = hum(total_ms, round(silent.number), self._format)
        if self._faults.get("early_calls", response=turn.number) and not turn.begun:
            calls = tuple(act for act in turn.acts if isinstance(act, Call))
            turn.acts = deque(act for act in turn.acts if isinstance(act, Say))
            turn.early = calls
        turn.begun = True

    def _take_calls(self, turn: Turn) -> tuple[Call, ...]:
        calls: list[Call] = []
        while turn.acts and isinstance(turn.acts[0], Call):
            act = turn.acts.popleft()
            assert isinstance(act, Call)
            calls.append(act)
        return tuple(calls)

    def _speak(self, turn: Turn) -> None:
        piece = turn.audio[turn.at : turn.at + len(self._silence)]
        turn.at += len(piece)
        self._emit_audio(piece + self._silence[len(piece) :])
        said_ms = self.clock_ms + self._frame_ms - turn.began_ms
        while turn.words and turn.words[0][0] < said_ms:
            start_ms, end_ms, text = turn.words.popleft()
            where: dict[str, JsonField] = {
                "start_ms": turn.began_ms + start_ms,
                "end_ms": turn.began_ms + end_ms,
            }
            if text:
                self._emit("session.output_transcript.delta", delta=text, **where)
        if turn.early:
            calls, turn.early = turn.early, ()
            self._call(turn, calls)
        fault = self._faults.get("die", response=turn.number)
        if fault and turn.at * 2 >= len(turn.audio):
            self._cut(int(fault.number))
