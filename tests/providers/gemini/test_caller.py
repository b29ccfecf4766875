"""Turns of the caller, with and without the server's word for them."""

from __future__ import annotations

from providers.gemini.caller import CallerTurns
from providers.gemini.messages import Transcription, Turn, VoiceActivity
from providers.types import CallerTranscript, SpeechStarted, SpeechStopped


class Book:
    def __init__(self) -> None:
        self.events: list = []
        self.said: list[Turn] = []
        self.turns = CallerTurns("g", self.events.append, self.said.append)


def test_a_turn_has_its_place_when_it_begins_and_its_words_when_they_come() -> None:
    book = Book()
    assert book.turns.receive(VoiceActivity("ACTIVITY_START")) is True
    assert book.turns.receive(VoiceActivity("ACTIVITY_END")) is False
    book.turns.add(Transcription(" Hello", False))
    book.turns.add(Transcription("?", True))
    assert book.events == [
        SpeechStarted(),
        CallerTranscript("g-caller-1", "", final=False),
        SpeechStopped(),
        CallerTranscript("g-caller-1", " Hello", final=False),
        CallerTranscript("g-caller-1", "?", final=False),
        CallerTranscript("g-caller-1", "Hello?", final=True),
    ]
    assert book.said == [Turn("Hello?")]


def test_begin_and_end_are_told_once() -> None:
    book = Book()
    for kind in ("ACTIVITY_END", "ACTIVITY_START", "ACTIVITY_START", "ACTIVITY_END", "ACTIVITY_END", "NEWS"):
        book.turns.receive(VoiceActivity(None, kind))
    assert [type(event) for event in book.events if not isinstance(event, CallerTranscript)] == [
        SpeechStarted,
        SpeechStopped,
    ]
    assert book.turns.reported


def test_a_turn_without_words_is_settled_and_not_remembered() -> None:
    book = Book()
    book.turns.began()
    book.turns.settle()
    book.turns.settle()
    assert book.events[-1] == CallerTranscript("g-caller-1", "", final=True)
    assert book.said == []


def test_a_transcript_without_an_end_does_not_grow_for_ever() -> None:
    book = Book()
    for _ in range(100):
        book.turns.add(Transcription("word " * 20))
    book.turns.settle()
    assert len(book.said[0].text) <= 4000
