"""
A reaction played out in time: bursts of audio with their words, calls with their arguments. No I/O.

Yields beats: ``(wait, piece)``, where ``wait`` is in seconds since the piece before. A player that
stops early knows from the pieces so far what is still open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from typing import TypeAlias

import numpy as np

from providers.fakes.director import Reaction
from providers.fakes.g711 import encode
from providers.fakes.script import Call, Pace, Say
from providers.fakes.speech import render
from providers.types import AudioFormat

_ARGUMENTS_PIECE = 16
"""Characters of tool arguments in one piece."""


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    """An utterance with these words begins."""

    text: str


@dataclass(frozen=True, slots=True)
class SpeechPiece:
    """A burst of audio and the words in it (each may be empty)."""

    audio: bytes
    text: str


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """The utterance is complete."""


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call of this tool begins."""

    tool: str


@dataclass(frozen=True, slots=True)
class ArgumentsPiece:
    """Some of the arguments' JSON text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call's arguments are complete."""


Piece: TypeAlias = SpeechBegan | SpeechPiece | SpeechEnded | CallBegan | ArgumentsPiece | CallEnded
Beat: TypeAlias = tuple[float, Piece]


def perform(
    reaction: Reaction,
    fmt: AudioFormat,
    pace: Pace,
    *,
    arguments_for: float = 0.0,
) -> Iterator[Beat]:
    """
    Yield the beats of ``reaction``.

    Args:
        reaction: What to say and call.
        fmt: Of ``SpeechPiece.audio``.
        pace: How far ahead of real time audio is made.
        arguments_for: Seconds that the arguments of each call take.
    """
    wait = reaction.after + pace.latency_ms / 1000
    for act in reaction.acts:
        beats = _speech(act, fmt, pace) if isinstance(act, Say) else _call(act, arguments_for)
        for pause, piece in beats:
            yield wait + pause, piece
            wait = 0.0


def _speech(say: Say, fmt: AudioFormat, pace: Pace) -> Iterator[Beat]:
    yield 0.0, SpeechBegan(say.text)
    audio = render(say.sound, fmt)
    total_ms = len(audio) // fmt.bytes_per_ms
    wait = 0.0
    for start_ms, end_ms, text in _pieces(say.text, total_ms, pace.delta_ms):
        end = len(audio) if end_ms == total_ms else end_ms * fmt.bytes_per_ms
        yield wait, SpeechPiece(audio[start_ms * fmt.bytes_per_ms : end], text)
        wait = (end_ms - start_ms) / 1000 / pace.speed
    yield 0.0, SpeechEnded()


NEVER_S = 1e6
"""A wait that no test outlives."""


def at_amplitude(beats: Iterator[Beat], amplitude: int, fmt: AudioFormat) -> Iterator[Beat]:
    """Replace speech by samples of this amplitude in turn of sign."""
    for wait, piece in beats:
        if isinstance(piece, SpeechPiece):
            pair = encode(np.array([amplitude, -amplitude], np.int16), fmt.encoding)
            size = len(piece.audio)
            yield wait, SpeechPiece((pair * (size // len(pair) + 1))[:size], piece.text)
        else:
            yield wait, piece


def without_end(beats: Iterator[Beat]) -> Iterator[Beat]:
    """Stop in the middle of the speech, for ever."""
    whole = list(beats)
    pieces = [index for index, (_, piece) in enumerate(whole) if isinstance(piece, SpeechPiece)]
    middle = pieces[len(pieces) // 2] if pieces else 0
    yield from whole[:middle]
    yield from ((NEVER_S + wait, piece) for wait, piece in whole[middle:])


def _call(call: Call, arguments_for: float) -> Iterator[Beat]:
    yield 0.0, CallBegan(call.tool)
    pieces = [
        call.arguments[at : at + _ARGUMENTS_PIECE] for at in range(0, len(call.arguments), _ARGUMENTS_PIECE)
    ]
    for text in pieces:
        yield arguments_for / len(pieces), ArgumentsPiece(text)
    yield 0.0, CallEnded()


def words_by_ms(text: str, total_ms: int, length_ms: int) -> tuple[tuple[int, int, str], ...]:
    """Cut a sentence into ``(start_ms, end_ms, words)`` of so much speech each; some have no words."""
    return _pieces(text, total_ms, (length_ms,))


@lru_cache(maxsize=256)
def _pieces(text: str, total_ms: int, lengths_ms: tuple[int, ...]) -> tuple[tuple[int, int, str], ...]:
    """Cut a sentence into times with their words; it is said in every call, so it is cut once."""
    bounds: list[tuple[int, int]] = []
    at_ms = 0
    for length_ms in cycle(lengths_ms):
        if at_ms >= total_ms:
            break
        bounds.append((at_ms, min(at_ms + length_ms, total_ms)))
        at_ms += length_ms
    words = _shares(text, [end_ms - start_ms for start_ms, end_ms in bounds])
    return tuple((start_ms, end_ms, said) for (start_ms, end_ms), said in zip(bounds, words, strict=True))


def _shares(text: str, weights: list[int]) -> list[str]:
    """Cut ``text`` between words in proportion to ``weights``; the shares joined are the text."""
    words = text.split(" ")
    total, passed, used, shares = sum(weights), 0, 0, []
    for weight in weights:
        passed += weight
        upto = round(len(words) * passed / total)
        share = " ".join(words[used:upto])
        shares.append(f" {share}" if share and used else share)
        used = upto
    return shares
