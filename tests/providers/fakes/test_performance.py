"""Reactions in time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.director import Reaction
from providers.fakes.performance import (
    ArgumentsPiece,
    CallBegan,
    CallEnded,
    SpeechBegan,
    SpeechEnded,
    SpeechPiece,
    perform,
)
from providers.fakes.script import Call, Outcome, Pace, Say
from providers.fakes.speech import Tone, render
from providers.types import PCM16_24K, PCMA, PCMU


def reaction(*acts, after=0.0):
    return Reaction(acts, after, Outcome())


def test_speech_is_cut_into_bursts_with_its_words():
    beats = list(perform(reaction(Say(Tone(440, 500), "one two three four")), PCMU, Pace(4.0, (200,))))
    assert [type(piece) for _, piece in beats] == [SpeechBegan, *[SpeechPiece] * 3, SpeechEnded]
    assert [wait for wait, _ in beats] == [0.0, 0.0, 0.05, 0.05, 0.0]
    assert [piece.text for _, piece in beats[1:4]] == ["one two", " three", " four"]


def test_thinking_comes_before_the_first_piece_only():
    say = Say(Tone(440, 100), "a")
    beats = list(perform(reaction(say, say, after=0.5), PCMU, Pace(latency_ms=250)))
    assert [wait for wait, _ in beats] == [0.75, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_arguments_come_in_pieces_over_their_time():
    call = Call("x", '{"query":"opening hours"}')
    beats = list(perform(reaction(call), PCMU, Pace(), arguments_for=3.0))
    assert [type(piece) for _, piece in beats] == [CallBegan, ArgumentsPiece, ArgumentsPiece, CallEnded]
    assert sum(wait for wait, _ in beats) == 3.0
    assert "".join(piece.text for _, piece in beats if isinstance(piece, ArgumentsPiece)) == call.arguments


def test_no_acts_are_no_beats():
    assert list(perform(reaction(), PCMU, Pace())) == []


@settings(deadline=None)
@given(
    st.integers(1, 3000),
    st.text(max_size=60),
    st.lists(st.integers(20, 900), min_size=1, max_size=4),
    st.floats(0.5, 50),
    st.sampled_from([PCMU, PCMA, PCM16_24K]),
)
def test_nothing_is_lost_and_nothing_takes_longer_than_it_sounds(ms, text, delta_ms, speed, fmt):
    say = Say(Tone(440, ms), text)
    beats = list(perform(reaction(say), fmt, Pace(speed, tuple(delta_ms))))
    pieces = [piece for _, piece in beats if isinstance(piece, SpeechPiece)]
    assert b"".join(piece.audio for piece in pieces) == render(say.sound, fmt)
    assert "".join(piece.text for piece in pieces) == text
    assert sum(wait for wait, _ in beats) <= ms / 1000 / speed + 1e-9
