"""What the Gemini server does wrong on purpose."""

import json

import numpy as np
import pytest

from providers.fakes.faults import FaultError, Service, parse_faults
from providers.fakes.pump import Close
from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K, PCM16_24K
from tests.kit.gemini import PHONE, GeminiLine

TALK = """
speech: {speed: 10}
steps:
  - {on: greeting, say: {tone: 440, ms: 1000, text: "Hello, who is there"}}
  - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 2000, text: "Good to hear you again"}}
  - {on: caller_turn, heard: "Still me", say: {tone: 600, ms: 1000, text: "And now goodbye"}}
"""
HELLO, GOOD, BYE = (render(Tone(hz, ms), PCM16_24K) for hz, ms in ((440, 1000), (500, 2000), (600, 1000)))


def dial(faults, script=TALK, **setup):
    return GeminiLine(script, faults, setup=PHONE | setup)


def greeted(faults, seconds=3.0):
    line = dial(faults)
    line.say("Greet the caller.")
    line.run(seconds)
    return line


@pytest.mark.parametrize("code", [1000, 1006, 1007, 1008, 1011])
def test_the_connection_closes_at_a_time(code):
    line = dial(f"close:{code}@2.5")
    line.run(2.4)
    assert line.session.closing is None
    line.run(0.2)
    assert line.session.closing.code == code


def test_a_setup_may_be_refused_or_never_answered():
    refused = dial("close:1007")
    assert (refused.session.closing.code, refused.messages) == (1007, [])
    stalled = dial("stall")
    assert (stalled.session.closing, stalled.messages) == (None, [])


def test_a_stalled_session_is_open_and_says_nothing():
    line = dial("stall@1")
    line.say("Greet the caller.")
    line.run(0.5)
    line.run(0.5)
    before = len(line.messages)
    line.turn()
    line.run(10)
    assert (len(line.messages), line.session.closing) == (before, None)


def test_what_the_sdk_does_not_know_is_sent_as_it_is():
    line = dial("unknown_event@1,error:UNAVAILABLE@2,garbage@3")
    line.run(4)
    *_, unknown, error, garbage = line.frames
    assert json.loads(unknown) == {"moodUpdate": {"mood": "curious"}}
    assert json.loads(error)["error"] == {
        "code": 14, "message": "Internal error encountered.", "status": "UNAVAILABLE",
    }  # fmt: skip
    with pytest.raises(json.JSONDecodeError):
        json.loads(garbage)


def test_a_rejected_turn_ends_unheard_with_its_reason():
    """Fault 35."""
    line = greeted("rejected#1")
    assert line.voice() == b""
    end = line.messages[-2]["serverContent"]
    assert end == {"turnComplete": True, "turnCompleteReason": "RESPONSE_REJECTED"}
    line.say("Greet the caller.")
    line.run(2)
    assert line.voice() == HELLO


def test_a_turn_may_have_no_audio():
    line = greeted("no_audio#1")
    assert line.voice() == b""
    assert [kind for kind in line.kinds if "Complete" in kind][1:] == ["generationComplete", "turnComplete"]
    line.say("Hello?")
    line.run(2)
    assert line.voice() == HELLO


@pytest.mark.parametrize("amplitude", [0, 3])
def test_audio_may_be_silent(amplitude):
    """Fault 35."""
    samples = np.frombuffer(greeted(f"silent_audio:{amplitude}#1").voice(), np.int16)
    assert len(samples) == 24_000
    assert np.abs(samples).max() == amplitude


def test_a_connection_may_die_in_the_middle_of_a_sentence():
    line = greeted("die:1011#1")
    assert line.session.closing == Close(1011, "died in the middle of a sentence")
    assert 0.3 < len(line.voice()) / len(HELLO) < 0.6
    assert "turnComplete" not in line.kinds


def test_a_thought_is_no_speech():
    line = greeted("thoughts#1")
    assert line.parts()[0] == {"text": "The caller waits for an answer.", "thought": True}
    assert line.voice() == HELLO


def test_interrupted_may_come_though_nobody_spoke():
    """Fault 32."""
    line = dial("phantom_interrupted@0.5,freeze")
    line.say("Greet the caller.")
    line.run(1)
    assert line.kinds[-3:] == ["interrupted", "turnComplete", "sessionResumptionUpdate"]
    line.turn()
    line.say("Are you there?")
    line.run(60)
    assert line.voice() == HELLO


def test_interrupted_may_come_when_nothing_plays():
    line = dial("phantom_interrupted@1")
    line.run(2)
    assert line.kinds[2:4] == ["interrupted", "turnComplete"]
    line.say("Greet the caller.")
    line.run(2)
    assert line.voice() == HELLO


def test_a_session_may_freeze_after_a_barge_in():
    line = dial("freeze")
    line.say("Greet the caller.")
    line.run(0.5)
    line.turn()
    line.run(60)
    assert "interrupted" in line.kinds
    assert line.session.turns == 1


def test_a_barge_in_may_stay_unsaid():
    """Fault 33."""
    line = dial("no_interrupted")
    line.say("Greet the caller.")
    line.run(0.5)
    line.turn()
    line.run(5)
    assert "interrupted" not in line.kinds
    assert line.kinds.count("turnComplete") == 2


@pytest.mark.parametrize(("fault", "ignored"), [("ignored_text", 1), ("ignored_text:2", 2)])
def test_texts_may_be_ignored(fault, ignored):
    """Fault 34."""
    line = dial(fault)
    for _ in range(ignored):
        line.say("Greet the caller.")
        line.run(5)
    assert line.session.turns == 0
    line.say("Greet the caller.")
    line.run(5)
    assert line.voice() == HELLO


@pytest.mark.parametrize(("fault", "place"), [("late_deltas:2", 1), ("stray_deltas:2", 2)])
def test_audio_may_come_after_the_interruption(fault, place):
    line = dial(fault, TALK.replace("speed: 10", "speed: 1"))
    line.say("Greet the caller.")
    line.run(0.3)
    line.forget()
    line.speak(200)
    kinds = [kind for kind in line.kinds[line.kinds.index("interrupted") :] if "Resumption" not in kind]
    wanted = ["interrupted", "turnComplete"]
    wanted[place:place] = ["modelTurn", "modelTurn"]
    assert kinds == wanted


def test_an_utterance_may_be_one_huge_part():
    line = greeted("huge_delta#1")
    assert max(len(frame) for frame in line.frames) > 1 << 20
    assert line.voice().startswith(HELLO)


@pytest.mark.parametrize(
    ("how", "words"), [("failed", []), ("empty", [""]), ("late", [" It is", " me"]), ("unordered", [])]
)
def test_transcripts_may_be_bad(how, words):
    """Fault 18."""
    line = dial(f"transcript:{how}")
    line.turn()
    line.run(5)
    assert [each["text"] for each in line.all("inputTranscription")] == words
    if how == "late":
        assert line.kinds.index("turnComplete") < line.kinds.index("inputTranscription")
    line.turn()
    line.run(5)
    if how == "unordered":
        assert line.words("inputTranscription").split() == ["Still", "me", "It", "is", "me"]


TOOL = """
speech: {speed: 10}
steps:
  - {on: greeting, call: {tool: lookup, arguments: {}}}
  - {on: {tool_result: lookup}, say: {tone: 500, ms: 200, text: Found}}
"""
BLOCKING = [{"functionDeclarations": [{"name": "lookup", "behavior": "BLOCKING"}]}]


def test_audio_while_a_call_blocks_may_close_the_connection():
    """Fault 25."""
    line = dial("tool_audio", TOOL, tools=BLOCKING)
    line.speak(20)
    assert line.session.closing is None
    line.say("Greet the caller.")
    line.audio(silence(20, PCM16_16K))
    assert line.session.closing == Close(1008, "Operation is not implemented, or supported, or enabled.")


def test_a_call_that_waits_too_long_makes_the_model_mute():
    """Fault 21."""
    line = dial("wedge:5", TOOL)
    line.say("Greet the caller.")
    line.run(4)
    line.say("Are you there?")
    line.run(2)
    assert line.session.turns == 2
    line.say("Are you there?")
    line.run(60)
    assert line.session.turns == 2
    line.answer(*line.calls())
    line.run(1)
    assert line.voice().endswith(render(Tone(500, 200), PCM16_24K))


def test_nothing_may_tell_when_somebody_speaks():
    line = dial("no_activity")
    line.turn()
    line.run(3)
    assert "voiceActivity" not in line.kinds
    assert line.voice() == GOOD


def test_arguments_may_be_slow():
    line = dial("slow_arguments:2", TOOL, tools=BLOCKING)
    line.say("Greet the caller.")
    line.run(1.9)
    assert line.calls() == []
    line.run(0.2)
    assert len(line.calls()) == 1


@pytest.mark.parametrize(
    ("faults", "closes_after"),
    [("go_away:5@1", 5), ("go_away:5@1,deadline:2", 2), ("go_away:5@1,deadline:20", 20)],
)
def test_the_server_may_go_away_at_its_deadline_or_at_another(faults, closes_after):
    """Fault 28."""
    line = dial(faults)
    line.run(1)
    assert line.messages[-1] == {"goAway": {"timeLeft": "5s"}}
    line.run(closes_after - 0.1)
    assert line.session.closing is None
    line.run(0.2)
    assert line.session.closing.code == 1011


def test_nothing_may_come_after_going_away():
    """Fault 28."""
    line = dial("go_away:5@1,hush")
    line.run(1)
    line.say("Greet the caller.")
    line.run(3)
    assert line.kinds[-1] == "goAway"


def test_a_session_may_expire_without_a_warning():
    """Fault 27."""
    line = dial("expire@2")
    line.run(3)
    assert line.session.closing.code == 1011
    assert "goAway" not in line.kinds


@pytest.mark.parametrize(("fault", "code"), [("refuse_resume", 1008), ("refuse_resume:1007", 1007)])
def test_a_handle_may_be_refused(fault, code):
    """Fault 27."""
    first = dial("")
    first.session.disconnected()
    setup = PHONE | {"sessionResumption": {"handle": first.handle()}}
    line = GeminiLine(TALK, fault, setup=setup, store=first.store)
    assert line.session.closing.code == code


def test_there_may_be_no_handles():
    line = greeted("no_handles")
    assert line.all("sessionResumptionUpdate") == [{"resumable": False}]


def test_the_name_of_the_model_may_bring_faults():
    line = dial("", model="models/gemini-3.8-live~rejected#1")
    line.say("Greet the caller.")
    assert line.all("turnCompleteReason") == ["RESPONSE_REJECTED"]
    assert line.session.setup.name == "gemini-3.8-live"
    for bad in ("rejcted", "rate_limits", "slow_reader"):
        assert dial("", model=f"models/gemini-3.8-live~{bad}").session.closing.code == 1007


def test_a_fault_of_another_server_is_refused():
    with pytest.raises(FaultError, match="gemini server has no fault rate_limits"):
        parse_faults("rate_limits:none", Service.GEMINI)
    with pytest.raises(FaultError, match="openai server has no fault go_away"):
        parse_faults("go_away@3", Service.OPENAI)


@pytest.mark.parametrize(("outcome", "reason"), [
    ("failed", "RESPONSE_REJECTED"),
    ("incomplete", "GENERATED_OTHER"),
    ("{status: failed, code: BLOCKLIST}", "BLOCKLIST"),
])  # fmt: skip
def test_a_script_can_end_a_turn_badly(outcome, reason):
    line = dial("", f"steps: [{{on: greeting, outcome: {outcome}, say: {{tone: 500, ms: 100, text: But}}}}]")
    line.say("Greet the caller.")
    line.run(1)
    assert line.voice() == render(Tone(500, 100), PCM16_24K)
    assert line.all("turnCompleteReason") == [reason]
