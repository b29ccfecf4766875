"""The fake model without a clock: turns, barge-in, tools, respond() and loss."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.script_parser import parse_script
from providers.fakes.speech import Tone, render, silence
from providers.fakes.voice_core import MAX_EVENTS, Heard, VoiceCore
from providers.types import (
    PCM16_24K,
    PCMA,
    PCMU,
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    SessionSetup,
    SpeechStarted,
    SpeechStopped,
    ToolCallsRequested,
)
from tools.types import CallUpdate, ToolResult, ToolStatus

TALK = """
steps:
  - {on: greeting, say: {tone: 440, ms: 1000, text: "Hello, who is there"}}
  - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 4000, text: "Good to hear you again"}}
  - {on: barge_in, say: {tone: 600, ms: 400, text: "Sorry"}}
  - {on: caller_turn, say: {tone: 700, ms: 400, text: "Bye"}}
"""
TOOLS = """
steps:
  - on: greeting
    call: [{tool: lookup_caller}, {tool: query_knowledge, arguments: {query: hours}}]
  - {on: {tool_result: [lookup_caller, query_knowledge]}, say: {tone: 440, ms: 400, text: "Here you are"}}
"""


class Talk:
    """A core and the time it lives in."""

    def __init__(self, script, line=PCMU):
        self.now = 50.0
        setup = SessionSetup(prompt="You answer the phone.", addendum="", tools=(), line=line)
        self.core = VoiceCore(script, setup, line, line, now=self.now)
        self.line = line
        self.events = []

    def run(self, seconds):
        until = self.now + seconds
        while (due := self.core.next_timeout()) is not None and due <= until:
            self.now = max(due, self.now)
            self.core.handle_timeout(self.now)
            self.take()
        self.now = until
        self.take()

    def take(self):
        self.events += [(self.now, event) for event in self.core.events()]

    def audio(self, audio):
        size = self.line.bytes_per_ms * 20
        for at in range(0, len(audio), size):
            self.core.hear(audio[at : at + size], self.now)
            self.run(0.02)

    def speak(self, ms=600):
        self.audio(render(Tone(300, ms), self.line))

    def turn(self, ms=600):
        self.speak(ms)
        self.audio(silence(520, self.line))

    def respond(self, instructions=None, *, tools=True):
        self.core.respond(instructions, self.now, tools=tools)
        self.take()

    def all(self, kind):
        return [event for _, event in self.events if isinstance(event, kind)]

    def said(self):
        return [event.text for event in self.all(AgentTranscript) if event.final]


@pytest.fixture
def talk(script_of):
    return lambda text=TALK, line=PCMU: Talk(script_of(text), line)


@pytest.mark.parametrize("line", [PCMU, PCMA, PCM16_24K], ids=str)
def test_it_greets_when_asked_in_the_format_of_the_session(talk, line):
    call = talk(line=line)
    call.run(5)
    assert call.events == []
    call.respond()
    call.run(2)
    audio = b"".join(event.audio for event in call.all(AudioDelta))
    assert audio == render(Tone(440, 1000), line)
    kinds = [type(event) for _, event in call.events]
    assert kinds[-3:] == [AudioDone, AgentTranscript, ResponseDone]
    assert call.said() == ["Hello, who is there"]
    assert "".join(event.text for event in call.all(AgentTranscript) if not event.final) == call.said()[0]


def test_speech_is_ahead_of_real_time_as_the_script_says(talk):
    call = talk(
        """
        speech: {speed: 10, delta_ms: 100, latency_ms: 200}
        steps: [{on: greeting, say: {tone: 440, ms: 300}}]
        """
    )
    call.respond()
    call.run(2)
    times = [round(at - 50.0, 3) for at, event in call.events if isinstance(event, AudioDelta)]
    assert times == [0.2, 0.21, 0.22]


def test_a_turn_of_the_caller_is_answered_after_half_a_second_of_silence(talk):
    call = talk()
    call.speak(600)
    call.audio(silence(480, PCMU))
    assert [type(event) for _, event in call.events] == [SpeechStarted, Interrupted]
    call.audio(silence(40, PCMU))
    assert call.all(SpeechStopped)
    call.run(2)
    assert call.said() == ["Good to hear you again"]
    (transcript,) = call.all(CallerTranscript)
    assert (transcript.text, transcript.final) == ("It is me", True)


def test_a_barge_in_stops_the_model_and_what_was_heard_is_kept(talk):
    call = talk()
    call.turn()
    call.run(0.3)
    call.speak(200)
    item_id = call.all(AudioDelta)[-1].item_id
    done = call.all(ResponseDone)[-1]
    assert (done.status, done.reason) == (ResponseStatus.CANCELLED, "turn_detected")
    kinds = [type(event) for _, event in call.events]
    assert kinds[kinds.index(ResponseDone) - 2 : kinds.index(ResponseDone)] == [AudioDone, AgentTranscript]
    call.core.interrupt(item_id, 250, call.now)
    sent_ms = sum(len(event.audio) for event in call.all(AudioDelta)) // 8
    assert list(call.core.interruptions) == [Heard(item_id, 250, sent_ms)]
    call.audio(silence(520, PCMU))
    call.run(1)
    assert call.said()[-1] == "Sorry"


def test_speech_while_the_answer_still_plays_is_a_barge_in_although_it_was_sent(talk):
    call = talk()
    call.turn()
    call.run(1.1)
    assert call.all(ResponseDone)[-1].status is ResponseStatus.COMPLETED
    call.turn()
    call.run(1)
    assert call.said()[-1] == "Sorry"


def test_speech_after_the_answer_is_none(talk):
    call = talk()
    call.turn()
    call.run(5)
    call.turn()
    call.run(1)
    assert call.said()[-1] == "Bye"


def test_interrupting_stops_the_model_without_any_speech(talk):
    call = talk()
    call.respond()
    call.run(0.05)
    call.core.interrupt(call.all(AudioDelta)[-1].item_id, 20, call.now)
    call.take()
    assert call.all(ResponseDone)[-1].reason == "client_cancelled"
    count = len(call.all(AudioDelta))
    call.run(3)
    assert len(call.all(AudioDelta)) == count


def test_interrupting_before_the_first_word_silences_the_model(talk):
    call = talk("{speech: {latency_ms: 500}, steps: [{on: greeting, say: {tone: 440, ms: 1000}}]}")
    call.respond()
    call.core.interrupt("", 0, call.now)
    call.run(3)
    assert not call.all(AudioDelta)
    assert [done.status for done in call.all(ResponseDone)] == [ResponseStatus.CANCELLED]
    assert not call.all(ProviderWarning)


def test_claiming_to_have_heard_more_than_was_said_is_a_warning(talk):
    call = talk()
    call.respond()
    call.run(2)
    item_id = call.all(AudioDelta)[-1].item_id
    call.core.interrupt(item_id, 1000, call.now)
    call.take()
    assert not call.all(ProviderWarning)
    call.core.interrupt(item_id, 1001, call.now)
    call.core.interrupt("item_99", 0, call.now)
    call.take()
    assert [warning.code for warning in call.all(ProviderWarning)] == ["audio_too_short", "unknown_item"]


def result(call_id, tool="lookup_caller"):
    return ToolResult(call_id, tool, ToolStatus.OK, {"name": "Ada"})


def test_parallel_calls_come_together_and_the_answer_after_all_results(talk):
    call = talk(TOOLS)
    call.respond()
    call.run(1)
    (requested,) = call.all(ToolCallsRequested)
    assert [(c.name, c.arguments) for c in requested.calls] == [
        ("lookup_caller", "{}"), ("query_knowledge", '{"query":"hours"}'),
    ]  # fmt: skip
    assert {c.response_id for c in requested.calls} == {requested.response_id}
    assert call.core.unanswered == ("call_1", "call_2")
    for wanted in requested.calls:
        call.core.take_result(result(wanted.call_id, wanted.name))
    call.respond()
    call.run(1)
    assert call.said() == ["Here you are"]


def test_unknown_and_repeated_results_are_ignored(talk):
    call = talk(TOOLS)
    call.respond()
    call.run(1)
    for call_id in ("call_1", "call_1", "call_7"):
        call.core.take_result(result(call_id))
    assert [kept.call_id for kept in call.core.results] == ["call_1"]
    assert call.core.unanswered == ("call_2",)


def test_calls_of_an_interrupted_response_never_arrive(talk):
    call = talk("steps: [{on: greeting, call: {tool: lookup_caller}, say: {tone: 440, ms: 2000}}]")
    call.respond()
    call.run(0.1)
    call.speak(200)
    call.run(3)
    assert not call.all(ToolCallsRequested)
    assert call.core.unanswered == ()


def test_requests_during_a_response_collapse_into_one(talk):
    call = talk(
        """
        steps:
          - {on: greeting, say: {tone: 440, ms: 400}}
          - {on: {text: b}, say: farewell.flac, call: {tool: x}}
        """
    )
    call.respond()
    call.respond("a")
    call.respond("b", tools=False)
    call.respond("c")
    call.run(3)
    assert call.said() == ["", "Thank you for calling. Have a good day. Goodbye."]
    assert len(call.all(ResponseDone)) == 2
    assert not call.all(ToolCallsRequested)


def test_keys_and_system_texts_are_understood(talk):
    call = talk("""
        steps:
          - {on: {dtmf: "12"}, say: {tone: 440, ms: 100, text: twelve}}
          - {on: {text: "transfer .* failed"}, say: nobody_there.flac}
          - {on: greeting, say: {tone: 440, ms: 100, text: hello}}
    """)
    call.respond()
    call.run(1)
    call.core.take_text("DTMF 12 pressed", "user")
    call.respond()
    call.run(1)
    call.core.take_text("The transfer to Sales failed: busy.", "system")
    call.respond()
    call.run(3)
    assert call.said()[:2] == ["hello", "twelve"]
    assert "nobody could take your call" in call.said()[2]
    assert list(call.core.texts) == [
        ("user", "DTMF 12 pressed"),
        ("system", "The transfer to Sales failed: busy."),
    ]


def test_an_idle_caller_is_asked_once_the_answer_was_played(talk):
    call = talk("""
        steps:
          - {on: greeting, say: {tone: 440, ms: 2000}}
          - {on: {idle: 5}, say: {tone: 440, ms: 100, text: there}}
    """)
    call.respond()
    call.run(6.9)
    assert "there" not in call.said()
    call.run(0.3)
    assert call.said()[-1] == "there"
    call.run(60)
    assert len(call.all(ResponseDone)) == 2


def test_speech_begins_the_waiting_again(talk):
    call = talk(
        "steps: [{on: caller_turn, repeat: true, say: {tone: 440, ms: 100}}, {on: {idle: 5}, say: okay.flac}]"
    )
    call.turn()
    call.run(4)
    call.turn()
    call.run(4)
    assert "Okay." not in call.said()
    call.run(2)
    assert call.said()[-1] == "Okay."


def test_a_failed_response_says_why_and_calls_nothing(talk):
    call = talk(
        "steps: [{on: greeting, call: {tool: x}, outcome: {status: failed, code: rate_limit_exceeded}}]"
    )
    call.respond()
    call.run(1)
    (done,) = call.all(ResponseDone)
    assert (done.status, done.reason) == (ResponseStatus.FAILED, "rate_limit_exceeded")
    assert not call.all(ToolCallsRequested)


def test_updates_change_the_named_parts_and_the_scene(talk):
    call = talk("""
        scenes:
          - {when: {instructions: sales}, steps: [{on: greeting, say: {tone: 440, ms: 100, text: Sales}}]}
          - {steps: [{on: greeting, say: {tone: 440, ms: 100, text: Reception}}]}
    """)
    call.core.update(CallUpdate(expected_revision=1, voice="cedar", language="de"))
    assert (call.core.setup.voice, call.core.setup.language) == ("cedar", "de")
    assert call.core.setup.prompt == "You answer the phone."
    call.core.update(CallUpdate(expected_revision=2, prompt="You are sales.", tools=()))
    call.respond()
    call.run(1)
    assert call.said() == ["Sales"]


def test_the_session_is_lost_when_the_script_says_so(talk):
    call = talk("{lose_after: 1.0, steps: [{on: greeting, say: {tone: 440, ms: 10000}}]}")
    call.respond()
    call.run(0.9)
    assert not call.core.lost
    call.run(0.2)
    assert call.core.lost
    count = len(call.all(AudioDelta))
    call.turn()
    call.respond()
    call.run(3)
    assert len(call.all(AudioDelta)) == count


def test_nobody_who_listens_loses_the_session_instead_of_the_memory(talk):
    call = talk("{hearing: {silence_ms: 20, prefix_padding_ms: 0}, steps: []}")
    burst = render(Tone(300, 60), PCMU) + silence(20, PCMU)
    call.core.hear(burst * (MAX_EVENTS // 3 + 1), call.now)
    assert "nobody" in call.core.lost


FUZZ = """
steps:
  - {on: greeting, repeat: true, say: {tone: 440, ms: 500, text: hello there}, call: {tool: a}}
  - {on: caller_turn, repeat: true, call: [{tool: b}, {tool: c}], say: {tone: 440, ms: 700, text: well then}}
  - {on: idle, repeat: true, outcome: failed}
"""
DEEDS = st.lists(
    st.sampled_from(["respond", "mute", "speak", "pause", "wait", "interrupt", "answer", "text"]), max_size=25
)


def do(call, deed):
    match deed:
        case "respond":
            call.respond()
        case "mute":
            call.respond(tools=False)
        case "speak":
            call.speak(120)
        case "pause":
            call.audio(silence(520, PCMU))
        case "wait":
            call.run(0.07)
        case "interrupt":
            for audio in call.all(AudioDelta)[-1:]:
                call.core.interrupt(audio.item_id, 10, call.now)
        case "answer":
            for call_id in call.core.unanswered:
                call.core.take_result(result(call_id))
        case _:
            call.core.take_text("hi", "user")


@settings(deadline=None)
@given(DEEDS)
def test_whatever_the_call_does_the_events_stay_in_order(deeds):
    call = Talk(parse_script(FUZZ, Path("fuzz.yaml")))
    for deed in deeds:
        do(call, deed)
    call.run(4)
    assert len(call.all(ResponseDone)) == call.core.responses
    finished, requested = set(), []
    for _, event in call.events:
        match event:
            case AudioDelta(item_id=item_id):
                assert item_id not in finished
            case AudioDone(item_id=item_id):
                assert item_id not in finished
                finished.add(item_id)
            case ToolCallsRequested(response_id=response_id):
                requested.append(response_id)
            case ResponseDone(response_id=response_id, status=status):
                assert response_id not in requested or status is ResponseStatus.COMPLETED
    assert {event.item_id for event in call.all(AudioDelta)} == finished
    assert len(requested) == len(set(requested))
    assert len(call.all(SpeechStarted)) - len(call.all(SpeechStopped)) in (0, 1)
