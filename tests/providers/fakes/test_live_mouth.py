"""The voice of the GPT-Live server, on the clock of the audio that it gets."""

from providers.fakes.director import Reaction
from providers.fakes.faults import Service, parse_faults
from providers.fakes.live_mouth import YIELD_MS, Mouth
from providers.fakes.script import Call, Outcome, Say
from providers.fakes.speech import Tone, render, silence
from providers.types import PCMU


class Heard:
    """A mouth and everything that came out of it."""

    def __init__(self, faults: str = "", latency_ms: int = 0) -> None:
        self.voice = b""
        self.words: list[tuple[str, int, int]] = []
        self.calls: list[tuple[int, tuple[str, ...]]] = []
        self.cuts: list[int] = []
        self.mouth = Mouth(
            emit=lambda _kind, *, delta, start_ms, end_ms: self.words.append((delta, start_ms, end_ms)),
            emit_audio=self._hear,
            call=lambda _turn, calls: self.calls.append(
                (self.mouth.clock_ms, tuple(each.tool for each in calls))
            ),
            cut=self.cuts.append,
            faults=parse_faults(faults, Service.LIVE),
            latency_ms=latency_ms,
            frame_ms=80,
        )
        self.mouth.use(PCMU)

    def _hear(self, audio: bytes) -> None:
        self.voice += audio

    def play(self, *acts: Say | Call, after: float = 0.0, number: int = 1) -> None:
        self.mouth.play(Reaction(acts, after, Outcome()), number)


HELLO, BYE = Say(Tone(400, 400), "Hello there"), Say(Tone(500, 160), "Bye")
LOOK = Call("look_up", "{}")


def test_so_much_comes_out_as_the_clock_has_gone_on():
    heard = Heard()
    heard.mouth.advance(250)
    assert heard.voice == silence(240, PCMU)
    heard.mouth.advance(250)
    assert len(heard.voice) == 240 * 8


def test_reactions_are_carried_out_one_after_the_other():
    heard = Heard()
    heard.play(HELLO)
    heard.play(BYE, number=2)
    heard.mouth.advance(800)
    assert heard.voice == render(HELLO.sound, PCMU) + render(BYE.sound, PCMU) + silence(240, PCMU)
    assert "".join(text for text, _, _ in heard.words) == "Hello thereBye"


def test_a_call_comes_when_the_words_before_it_were_said_and_before_those_behind_it():
    heard = Heard()
    heard.play(HELLO, LOOK, LOOK, BYE)
    heard.mouth.advance(1000)
    assert heard.calls == [(400, ("look_up", "look_up"))]
    assert heard.voice.startswith(render(HELLO.sound, PCMU) + render(BYE.sound, PCMU))


def test_thinking_and_latency_are_silence():
    heard = Heard(latency_ms=160)
    heard.play(BYE, after=0.4)
    heard.mouth.advance(560)
    assert heard.voice == silence(560, PCMU)
    heard.mouth.advance(640)
    assert heard.voice[560 * 8 :] == render(BYE.sound, PCMU)[: 80 * 8]


def test_it_yields_in_a_moment_and_drops_what_it_still_wanted():
    heard = Heard()
    heard.play(HELLO, LOOK)
    heard.mouth.advance(80)
    heard.mouth.stop()
    heard.mouth.advance(1000)
    sound = heard.voice.rstrip(b"\xff")
    assert 80 * 8 < len(sound) <= (80 + YIELD_MS + 80) * 8
    assert heard.calls == []


def test_a_turn_that_ended_by_itself_does_not_take_the_next_one_with_it():
    heard = Heard()
    heard.play(BYE)
    heard.mouth.advance(80)
    heard.mouth.stop()
    heard.mouth.advance(240)
    heard.play(HELLO, number=2)
    heard.mouth.advance(1000)
    assert render(HELLO.sound, PCMU) in heard.voice


def test_it_can_end_the_connection_in_the_middle_of_a_sentence():
    heard = Heard("die:1011#1")
    heard.play(HELLO)
    heard.mouth.advance(160)
    assert heard.cuts == []
    heard.mouth.advance(240)
    assert heard.cuts == [1011]
