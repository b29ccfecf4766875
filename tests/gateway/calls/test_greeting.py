from pathlib import Path

import pytest

from config.conversation import Greeting as GreetingSettings
from gateway.calls import greeting
from gateway.calls.greeting import Floor
from providers.types import PCMA, PCMU, Said
from tests.kit import sound

FRAME = 160
QUIET = b"\xff" * FRAME


def frames(pcm, codec="PCMU"):
    data = sound.encode(pcm, codec)
    return [data[at : at + FRAME] for at in range(0, len(data), FRAME)]


def settings(**fields):
    return GreetingSettings.model_construct(
        **{"say": None, "ask": None, "play": None, "text": None, **fields}
    )


def test_an_instruction_is_passed_on_and_fixed_words_are_quoted():
    assert greeting.instructions(settings(ask="Greet in Dutch.")) == "Greet in Dutch."
    fixed = greeting.instructions(settings(say="Welcome to Acme."))
    assert fixed is not None
    assert fixed.endswith(": Welcome to Acme.")
    assert greeting.instructions(settings(play=Path("hello.wav"), text="Hello.")) is None


def test_only_the_words_of_a_recording_were_said_before_the_session():
    assert greeting.said_before(settings(play=Path("hello.wav"), text="Hello.")) == (Said("agent", "Hello."),)
    assert greeting.said_before(settings(say="Welcome.")) == ()
    assert greeting.said_before(None) == ()


@pytest.mark.report("BR-090")
def test_the_model_is_told_how_much_of_a_recorded_greeting_was_heard():
    assert '"Welcome to"' in greeting.cut_note("Welcome to")
    assert "nothing" in greeting.cut_note("")


def test_a_free_floor_lets_every_frame_through():
    floor = Floor(PCMU, held=False)
    speech = frames(sound.utterance(3, 0.5))
    assert [floor.take(frame) for frame in speech] == speech


@pytest.mark.parametrize(("line", "codec", "silence"), [(PCMU, "PCMU", b"\xff"), (PCMA, "PCMA", b"\xd5")])
def test_words_over_the_greeting_are_kept_and_go_out_afterwards(line, codec, silence):
    floor = Floor(line, held=True)
    quiet = silence * FRAME
    before, speech, after = [quiet] * 100, frames(sound.utterance(4, 1.0), codec), [quiet] * 20
    for frame in [*before, *speech, *after]:
        assert floor.take(frame) == quiet
    assert floor.spoken_over

    floor.release()
    live = frames(sound.utterance(5, 0.02), codec)[0]
    sent = floor.take(live)
    assert sent.endswith(live)
    kept = sent[: -len(live)]
    assert b"".join(speech) in kept
    assert len(kept) <= len(b"".join(speech)) + 36 * FRAME  # the silence before is left out, but for a lead
    assert floor.take(live) == live


def test_after_a_silent_greeting_nothing_is_made_up():
    floor = Floor(PCMU, held=True)
    for _ in range(200):
        floor.take(QUIET)
    assert not floor.spoken_over
    floor.release()
    assert floor.take(QUIET) == QUIET


def test_what_is_kept_is_bounded():
    floor = Floor(PCMU, held=True)
    loud = frames(sound.utterance(6, 0.02))[0]
    for _ in range(50 * 40):
        floor.take(loud)
    floor.release()
    assert len(floor.take(QUIET)) <= 30_000 * 8 + FRAME


def test_a_second_release_gives_nothing_twice():
    floor = Floor(PCMU, held=True)
    floor.take(frames(sound.utterance(6, 0.02))[0])
    floor.release()
    floor.take(QUIET)
    floor.release()
    assert floor.take(QUIET) == QUIET
