"""The model's endless stream becomes utterances, and who has the floor is seen from it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.openai_live.voice import LATE_MS, MUTE_S, Voice
from providers.types import (
    AgentTranscript,
    AudioDelta,
    AudioDone,
    Interrupted,
    ResponseDone,
    ResponseStatus,
)

MS = 8
STEP = 40


class Stream:
    """Feeds a voice in real time, 40 ms at a time; sounds are ``x``, silence is ``-``."""

    def __init__(self, **settings: int) -> None:
        given = {"pause_ms": 800, "yield_ms": 1200, "buffer_ms": 0, **settings}
        self.voice = Voice(MS, **given)
        self.now = 10.0
        self.events: list = []
        self.caller = ""

    def hear(self, ms: int, *, loud: bool, caller: bool = False, speed: float = 1.0) -> "Stream":
        for _ in range(ms // STEP):
            if caller:
                self.voice.caller_spoke(STEP, loud=True)
            sound = (b"x" if loud else b"-") * STEP * MS
            delta = self.voice.receive(sound, loud=loud, now=self.now)
            self.take()
            if delta is not None:
                self.events.append(delta)
            self.now += STEP / 1000 / speed
        return self

    def take(self) -> None:
        self.events += self.voice.events()

    def played(self, item_id: str = "") -> bytes:
        deltas = [each for each in self.events if isinstance(each, AudioDelta)]
        return b"".join(each.audio for each in deltas if not item_id or each.item_id == item_id)

    def items(self) -> list[str]:
        return list(dict.fromkeys(each.item_id for each in self.events if isinstance(each, AudioDelta)))

    def of(self, kind: type) -> list:
        return [each for each in self.events if isinstance(each, kind)]


def test_silence_is_nobody_s_item():
    assert Stream().hear(4000, loud=False).events == []


def test_an_utterance_begins_with_the_first_sound_and_ends_after_the_pause():
    stream = Stream().hear(1000, loud=False).hear(400, loud=True).hear(760, loud=False)
    assert stream.of(AudioDone) == []
    stream.hear(40, loud=False)

    assert stream.of(AudioDone) == [AudioDone("voice_1")]
    assert stream.of(ResponseDone) == [ResponseDone("voice_1", ResponseStatus.COMPLETED)]
    assert stream.played() == b"x" * 400 * MS + b"-" * 760 * MS


def test_the_pauses_within_an_utterance_are_kept():
    stream = Stream().hear(400, loud=True).hear(600, loud=False).hear(400, loud=True)

    assert stream.items() == ["voice_1"]
    assert stream.played() == b"x" * 400 * MS + b"-" * 600 * MS + b"x" * 400 * MS


def test_the_next_utterance_is_another_item():
    stream = Stream().hear(400, loud=True).hear(2000, loud=False).hear(400, loud=True)
    assert stream.items() == ["voice_1", "voice_2"]


def test_some_of_each_utterance_is_collected_against_jitter():
    stream = Stream(buffer_ms=80).hear(80, loud=True)
    assert stream.events == []
    stream.hear(80, loud=True)
    assert [len(each.audio) // MS for each in stream.of(AudioDelta)] == [120, 40]


def test_an_utterance_shorter_than_the_buffer_is_heard_all_the_same():
    stream = Stream(buffer_ms=200).hear(40, loud=True)
    stream.voice.interrupt("", 0, now=stream.now)
    stream.take()

    assert stream.played() == b"x" * 40 * MS
    assert [type(each) for each in stream.events] == [AudioDelta, AudioDone, ResponseDone]


def test_a_caller_who_speaks_into_a_silence_of_the_model_ends_what_it_said():
    stream = Stream().hear(400, loud=True).hear(240, loud=False)
    stream.voice.caller_began()
    stream.take()
    assert stream.of(AudioDone) == [AudioDone("voice_1")]

    stream.hear(400, loud=True)
    assert stream.items() == ["voice_1", "voice_2"]


def test_a_caller_who_speaks_between_two_words_ends_nothing():
    stream = Stream().hear(400, loud=True).hear(160, loud=False)
    stream.voice.caller_began()
    stream.hear(400, loud=True)
    assert stream.items() == ["voice_1"]


def test_a_model_that_falls_silent_over_a_caller_has_yielded():
    stream = (
        Stream().hear(400, loud=True).hear(240, loud=True, caller=True).hear(200, loud=False, caller=True)
    )

    assert stream.of(Interrupted) == [Interrupted()]
    assert stream.of(ResponseDone) == [ResponseDone("voice_1", ResponseStatus.CANCELLED)]
    assert stream.events.index(Interrupted()) < stream.events.index(AudioDone("voice_1"))


def test_a_cough_is_no_reason_to_have_yielded():
    stream = Stream().hear(400, loud=True).hear(80, loud=True, caller=True).hear(1000, loud=False)
    assert stream.of(Interrupted) == []
    assert stream.of(ResponseDone)[0].status is ResponseStatus.COMPLETED


def test_a_model_that_talks_on_is_interrupted_once_after_a_while():
    stream = Stream().hear(400, loud=True).hear(1160, loud=True, caller=True)
    assert stream.of(Interrupted) == []
    stream.hear(400, loud=True, caller=True)
    assert stream.of(Interrupted) == [Interrupted()]


def test_after_an_interruption_nothing_is_heard_until_the_model_was_silent():
    """Fault 37: later deltas must not open the gate again."""
    stream = Stream().hear(800, loud=True)
    stream.voice.interrupt("voice_1", 800, now=stream.now)
    before = stream.played()
    stream.hear(1000, loud=True).hear(200, loud=False).hear(1000, loud=True).hear(360, loud=False)
    assert stream.played() == before

    stream.hear(80, loud=False).hear(400, loud=True)
    assert stream.played("voice_2") == b"x" * 400 * MS


def test_a_model_that_never_falls_silent_is_not_muted_for_ever():
    stream = Stream().hear(800, loud=True)
    stream.voice.interrupt("voice_1", 800, now=stream.now)
    stream.hear(round(MUTE_S * 1000) - 80, loud=True)
    assert stream.items() == ["voice_1"]
    stream.hear(200, loud=True)
    assert stream.items() == ["voice_1", "voice_2"]


def test_a_model_that_only_paused_and_goes_on_over_the_caller_is_muted():
    stream = (
        Stream().hear(400, loud=True).hear(240, loud=True, caller=True).hear(240, loud=False, caller=True)
    )
    stream.hear(1000, loud=True, caller=True)
    assert stream.items() == ["voice_1"]


def test_an_answer_to_a_caller_who_has_finished_is_heard_however_soon_it_comes():
    stream = (
        Stream().hear(400, loud=True).hear(240, loud=True, caller=True).hear(240, loud=False, caller=True)
    )
    stream.voice.caller_stopped()
    stream.hear(400, loud=True)
    assert stream.played("voice_2") == b"x" * 400 * MS


def test_what_the_network_held_back_is_played_and_its_pauses_are_left_out():
    stream = Stream().hear(400, loud=True)
    stream.hear(800, loud=True, speed=1000).hear(320, loud=False, speed=1000).hear(400, loud=True, speed=1000)

    assert stream.played().count(b"x") == 1600 * MS
    assert stream.played().count(b"-") == 0
    stream.now += 2.0
    stream.hear(320, loud=False)
    assert stream.played().count(b"-") == 320 * MS


def test_in_real_time_nothing_waits_long_enough_to_be_left_out():
    stream = Stream(buffer_ms=80).hear(400, loud=True).hear(600, loud=False).hear(400, loud=True)
    assert len(stream.played()) == 1400 * MS
    assert LATE_MS > 80 + STEP


def test_the_words_belong_to_the_utterance_that_is_said():
    stream = Stream().hear(400, loud=True)
    stream.voice.words("Hello", 0, 200)
    stream.voice.words(" there", 200, 400)
    stream.hear(2000, loud=False)

    assert stream.of(AgentTranscript) == [
        AgentTranscript("voice_1", "Hello", final=False),
        AgentTranscript("voice_1", " there", final=False),
        AgentTranscript("voice_1", "Hello there", final=True),
    ]


def test_words_that_come_before_their_sound_wait_for_it_and_late_ones_find_back():
    stream = Stream().hear(400, loud=True).hear(1000, loud=False)
    stream.voice.words("late", 200, 400)
    stream.voice.words("early", 1500, 1700)
    stream.take()
    assert AgentTranscript("voice_1", "late", final=False) in stream.events
    assert "early" not in str(stream.events)
    stream.hear(80, loud=True)
    assert AgentTranscript("voice_2", "early", final=False) in stream.events


def test_the_model_is_told_which_words_were_heard():
    stream = Stream().hear(1200, loud=True)
    for at in range(4):
        stream.voice.words(f" word{at}", at * 300, at * 300 + 300)
    note = stream.voice.interrupt("voice_1", 650, now=stream.now)
    assert '"word0 word1"' in note


def test_it_is_told_when_none_was_heard_and_nothing_when_all_were():
    for heard_ms, expected in ((0, "none of it"), (1000, ""), (800, "")):
        stream = Stream().hear(1000, loud=True)
        stream.voice.words("Hello", 0, 1000)
        note = stream.voice.interrupt("voice_1", heard_ms, now=stream.now)
        assert expected in note
        assert bool(note) == bool(expected)


def test_silence_at_the_end_of_an_utterance_counts_for_nothing():
    stream = Stream().hear(400, loud=True).hear(600, loud=False)
    assert stream.voice.interrupt("voice_1", 400, now=stream.now) == ""


def test_a_stream_that_stops_ends_the_utterance():
    stream = Stream().hear(400, loud=True)
    at = stream.voice.next_timeout()
    stream.voice.handle_timeout(now=at - 0.01)
    assert stream.voice.events() == []
    stream.voice.handle_timeout(now=at)
    assert AudioDone("voice_1") in stream.voice.events()
    assert stream.voice.next_timeout() is None


def test_a_network_that_stops_in_mid_word_does_not_end_the_utterance():
    stream = Stream().hear(400, loud=False).hear(400, loud=True)
    stream.now += 3.0
    stream.voice.handle_timeout(now=stream.now)
    stream.hear(400, loud=True)
    assert stream.items() == ["voice_1"]
    assert stream.played() == b"x" * 800 * MS


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 40), st.booleans(), st.booleans(), st.sampled_from(["", "stop", "cut", "late"])
        ),
        max_size=30,
    ),
    st.sampled_from([0, 80, 200]),
)
def test_every_item_is_played_in_order_and_ends_once(steps, buffer_ms):
    stream = Stream(buffer_ms=buffer_ms)
    for count, loud, caller, then in steps:
        stream.hear(count * STEP, loud=loud, caller=caller)
        match then:
            case "stop":
                stream.voice.caller_stopped()
            case "cut":
                stream.voice.interrupt("voice_1", 100, now=stream.now)
            case "late":
                stream.now += 3.0
                stream.voice.handle_timeout(now=stream.now)
        stream.take()
    stream.voice.stop()
    stream.take()

    ended = [each.item_id for each in stream.of(AudioDone)]
    assert ended == sorted(set(ended), key=lambda item: int(item.removeprefix("voice_")))
    assert set(stream.items()) <= set(ended)
    open_items: set[str] = set()
    for event in stream.events:
        if isinstance(event, AudioDelta):
            assert event.item_id not in open_items
        elif isinstance(event, AudioDone):
            open_items.add(event.item_id)
    assert [each.response_id for each in stream.of(ResponseDone)] == ended
