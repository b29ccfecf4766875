"""How much of an utterance was heard, in words."""

from __future__ import annotations

import pytest

from providers.gemini.utterances import Utterances

WORDS = "We are open from nine to five on weekdays."


def uttered(ms: int = 4200, text: str = WORDS) -> Utterances:
    made = Utterances()
    made.begin("a").sent_bytes = ms * 48
    made.say("a", text)
    return made


@pytest.mark.parametrize(
    ("heard_ms", "words"),
    [(4180, ""), (5000, ""), (2100, "We are open from nine"), (1200, "We are open"), (300, "We")],
)
def test_the_share_that_was_heard_is_cut_between_words(heard_ms: int, words: str) -> None:
    note = uttered().interrupt("a", heard_ms)
    assert (f'"{words}"' in note) if words else (note == "")


@pytest.mark.parametrize("heard_ms", [0, -5, 40])
def test_nothing_was_heard(heard_ms: int) -> None:
    assert uttered().interrupt("a", heard_ms) == (
        "[The caller interrupted before your last answer could be heard.]"
    )


def test_an_utterance_that_is_long_over_is_forgotten() -> None:
    made = uttered()
    for number in range(2, 12):
        made.begin(str(number))
    assert made.interrupt("a", 100) == ""
    assert made.is_stopped("a")
    assert not made.is_stopped("11")


def test_what_the_server_stopped_is_known_and_what_it_says_then_is_not() -> None:
    made = uttered()
    assert not made.is_stopped("a")
    made.stop()
    made.begin("b")
    assert [made.is_stopped(item) for item in ("a", "b", "")] == [True, False, False]


def test_an_endless_transcript_does_not_grow_for_ever() -> None:
    made = Utterances()
    utterance = made.begin("a")
    for _ in range(100):
        made.say("a", "word " * 100)
    assert len(utterance.text) == 8000
