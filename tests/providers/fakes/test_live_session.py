"""A GPT-Live session as its client sees it: set-up, the clock of the audio, talking and yielding."""

import textwrap
from pathlib import Path

import pytest

from providers.fakes.live_config import MAX_CONTENT_TOKENS, MAX_INPUT
from providers.fakes.script_parser import parse_script
from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K, PCMU
from tests.kit.live_line import PHONE, LiveLine

TALK = """
steps:
  - {on: greeting, say: {tone: 440, ms: 1000, text: "Hello who is there"}}
  - {on: barge_in, heard: "Excuse me", say: {tone: 700, ms: 500, text: "Yes"}}
  - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 2000, text: "Good to hear you again"}}
  - {on: {text: "press"}, say: {tone: 600, ms: 400, text: "You pressed a key"}}
"""


def script(text: str = TALK):
    return parse_script(textwrap.dedent(text), Path("test.yaml"))


def line(faults: str = "", text: str = TALK, **options) -> LiveLine:
    made = LiveLine(script(text), faults, **options)
    made.start()
    return made


def greeted(faults: str = "", **options) -> LiveLine:
    made = line(faults, **options)
    made.append("commentary", "Greet the caller.")
    return made


def sounds(voice: bytes) -> int:
    """Milliseconds that are no silence."""
    return sum(voice[at : at + 8] != silence(1, PCMU) for at in range(0, len(voice), 8))


def test_the_session_starts_with_what_was_asked_for_and_names_the_event_that_asked():
    started = line().events[0]

    assert started["type"] == "session.started"
    assert started["client_event_id"] == "start"
    assert started["session"]["id"].startswith("live_")
    assert started["session"]["audio"] == PHONE["audio"]
    assert started["session"]["delegation"]["responses"]["tools"] == PHONE["delegation"]["responses"]["tools"]
    assert started["session"]["expires_at"] == 1_796_003_600


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"voice": "marin"}, "unknown_parameter", "session.voice"),
        ({"turn_detection": None}, "unknown_parameter", "session.turn_detection"),
        ({"model": "gpt-realtime-2.1"}, "model_not_found", "session.model"),
        (
            {"audio": {"format": {"type": "audio/pcmu"}}},
            "missing_required_parameter",
            "session.audio.format.rate",
        ),
        (
            {"audio": {"format": {"type": "audio/pcmu", "rate": 16000}}},
            "invalid_value",
            "session.audio.format.rate",
        ),
        ({"audio": {"output": {"voice": "nova"}}}, "invalid_value", "session.audio.output.voice"),
        ({"instructions": "x" * 65_540}, "string_above_max_length", "session.instructions"),
        ({"delegation": {"type": "decisions", "decisions": {}}}, None, None),
        (
            {"delegation": {"type": "responses", "responses": {"tools": []}}},
            "missing_required_parameter",
            "session.delegation.responses.model",
        ),
    ],
)
def test_a_wrong_start_is_refused_as_a_whole(changes, code, param):
    made = LiveLine(script())
    made.start(**changes)

    assert made.types() == ["error"]
    assert made.error()["client_event_id"] == "start"
    assert code is None or (made.error()["code"], made.error()["param"]) == (code, param)


def message(text: str = "Hi") -> dict:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def test_history_has_at_most_128_messages_of_one_text_each():
    two = {**message(), "content": message()["content"] * 2}
    for history, param in (
        ([message()] * (MAX_INPUT + 1), "session.input"),
        ([two], "session.input[0].content"),
    ):
        made = LiveLine(script())
        made.start(input=history)
        assert made.error()["param"] == param

    made = LiveLine(script())
    made.start(input=[message()] * MAX_INPUT)
    assert len(made.events[0]["session"]["input"]) == MAX_INPUT


def test_nothing_comes_before_the_start_and_there_is_only_one():
    made = LiveLine(script())
    made.send("session.input_audio.append", audio="/////w==")
    assert made.error()["code"] == "invalid_value"
    made.start()
    made.start()
    assert made.types() == ["error", "session.started", "error"]


def test_the_voice_stands_still_while_no_audio_comes():
    made = greeted()
    made.wait(5.0)
    assert made.voice == b""

    made.listen(400)
    assert len(made.voice) == 400 * 8
    made.wait(5.0)
    assert len(made.voice) == 400 * 8


def test_as_much_comes_out_as_goes_in_and_silence_where_nothing_is_said():
    made = greeted()
    made.listen(2000)

    assert len(made.voice) == 2000 * 8
    assert bytes(made.voice[:8000]) == render(Tone(440, 1000), PCMU)
    assert bytes(made.voice[8000:]) == silence(1000, PCMU)
    assert made.said() == "Hello who is there"


def test_the_words_have_places_on_the_timeline():
    made = greeted()
    made.listen(200)
    made.append("commentary", "press")  # queued behind the greeting
    made.listen(2000)

    spans = [(e["start_ms"], e["end_ms"]) for e in made.all("session.output_transcript.delta")]
    assert spans == sorted(spans)
    assert spans[0] == (0, 200)
    assert all(start < end <= 1000 for start, end in spans[:4])
    assert 1000 <= spans[4][0] < 1100


def test_a_turn_of_the_caller_is_heard_written_down_and_answered():
    made = greeted()
    made.listen(1600)
    made.turn()
    made.listen(2600)

    words = made.all("session.input_transcript.delta")
    assert "".join(event["delta"] for event in words) == "It is me"
    assert words[0]["start_ms"] in range(1250, 1700)
    assert made.said().endswith("Good to hear you again")


def test_it_listens_while_it_talks_and_yields_to_a_caller_who_speaks():
    made = greeted()
    made.listen(400)
    made.turn()
    talked = sounds(made.voice)
    assert talked < 400 + 60 + 200 + 2 * 80
    made.listen(1200)

    assert made.said().endswith("Yes")  # the step for a barge-in


def test_with_a_fault_it_talks_on():
    made = greeted("keeps_talking#1")
    made.listen(400)
    made.speak(800)

    assert sounds(made.voice) > 950


def test_silent_audio_has_its_words_but_no_sound():
    made = greeted("silent_audio:0#1")
    made.listen(1200)

    assert sounds(made.voice) == 0
    assert made.said() == "Hello who is there"


def test_it_dies_in_the_middle_of_a_sentence():
    made = greeted("die:1011#1")
    made.listen(1000)

    assert made.session.closing.code == 1011
    assert 400 <= sounds(made.voice) <= 1000


def test_thinking_and_instructions_are_acknowledged_and_not_answered():
    keys = "{steps: [{on: {dtmf: '1'}, say: {tone: 600, ms: 400, text: 'You pressed a key'}}]}"
    made = line(text=keys)
    made.listen(100)
    made.append("thinking", "DTMF 1 pressed")
    made.append("instructions", "Be brief.")
    made.listen(1000)

    kinds = [(event["type"], event["client_event_id"]) for event in made.events if "append" in event["type"]]
    assert kinds == [
        ("session.thinking.appended", "thinking"),
        ("session.instructions.appended", "instructions"),
    ]
    assert made.events[1]["start_ms"] == made.events[1]["end_ms"] == 100
    assert sounds(made.voice) == 0

    made.append("commentary", "Say which.")
    made.listen(1000)
    assert made.said() == "You pressed a key"


def test_a_long_text_an_empty_one_and_a_foreign_delegation_are_refused():
    made = line()
    made.append("thinking", "x" * (MAX_CONTENT_TOKENS * 4 + 1))
    assert made.error()["code"] == "string_above_max_length"
    made.append("thinking", " ")
    assert made.error()["param"] == "content"
    made.append("thinking", "Hello", "dlg_1")
    assert made.error()["param"] == "delegation_id"
    made.send("session.thinking.append", content="No delegation_id")
    assert made.error()["code"] == "missing_required_parameter"


def test_a_muted_caller_is_silence_and_time_goes_on():
    made = greeted()
    made.listen(1600)
    made.send("session.input_audio.mute", event_id="m1")
    made.turn()
    made.send("session.input_audio.unmute", event_id="m2")
    made.listen(1000)

    assert [e["client_event_id"] for e in made.events if "muted" in e["type"]] == ["m1", "m2"]
    assert made.all("session.input_transcript.delta") == []
    assert len(made.voice) // 8 == made.session.heard_ms // 80 * 80


def test_usage_is_told_in_seconds_and_again_at_the_end():
    made = line()
    made.listen(10_000)
    assert [each["usage"]["seconds"] for each in made.all("session.usage.updated")] == list(range(1, 11))
    made.send("session.close", event_id="bye")

    closed = made.events[-1]
    assert (closed["type"], closed["reason"]) == ("session.closed", "close_requested")
    assert (closed["client_event_id"], closed["usage"]["seconds"]) == ("bye", 10.0)
    assert made.session.closing.code == 1000


def test_the_session_expires_by_the_clock_on_the_wall():
    made = line(session_seconds=30.0)
    made.wait(31.0)

    assert (made.events[-1]["type"], made.events[-1]["reason"]) == ("session.closed", "expired")


@pytest.mark.parametrize(
    ("fault", "last"),
    [
        ("expire@2", "session.closed"),
        ("error:server_error@2", "error"),
        ("unknown_event@2", "session.mood.updated"),
        ("garbage@2", "(garbage)"),
    ],
)
def test_faults_happen_at_their_time(fault, last):
    made = line(fault)
    made.wait(1.9)
    assert made.types() == ["session.started"]
    made.wait(0.2)
    assert made.types()[-1] == last


def test_a_stalled_session_says_nothing_any_more():
    made = greeted("stall@1")
    made.listen(3000)
    assert 900 * 8 <= len(made.voice) <= 1100 * 8


def test_faults_can_come_with_the_name_of_the_model():
    made = LiveLine(script())
    made.start(model="gpt-live-1~silent_audio#1")
    assert made.events[0]["session"]["model"] == "gpt-live-1"
    made.append("commentary", "Greet.")
    made.listen(1000)
    assert sounds(made.voice) == 0


def test_the_start_can_be_refused():
    made = LiveLine(script(), "refuse_update:insufficient_quota")
    made.start()
    assert made.error()["code"] == "insufficient_quota"


def test_new_instructions_can_lead_into_another_scene():
    scenes = """
    scenes:
      - when: {instructions: "speak German"}
        steps: [{on: caller_turn, say: {tone: 300, ms: 200, text: "Ja"}}]
      - {steps: [{on: caller_turn, repeat: true, say: {tone: 300, ms: 200, text: "Yes"}}]}
    """
    made = line(text=scenes)
    made.turn()
    made.append("instructions", "From now on speak German.")
    made.turn()
    made.listen(500)
    assert made.said() == "YesJa"


def test_whoever_is_silent_for_long_is_asked():
    made = line(text="{steps: [{on: {idle: 3}, say: {tone: 300, ms: 400, text: 'Hello?'}}]}")
    made.listen(2900)
    assert made.said() == ""
    made.listen(800)
    assert made.said() == "Hello?"


@pytest.mark.parametrize("text", ["{", "[]", '{"type": 7}', '{"type": "session.forget"}'])
def test_nonsense_is_an_error_and_not_the_end(text):
    made = line()
    made.session.receive(text, made.now)
    made.collect()
    assert made.types()[-1] == "error"
    made.listen(80)
    assert made.voice


def test_broken_base64_is_refused():
    made = line()
    made.send("session.input_audio.append", audio="@@@")
    assert made.error()["param"] == "audio"


def test_what_it_does_not_serve_it_refuses():
    made = line()
    made.send("session.output_audio.fixture.play", audio="AAAA")
    assert made.error()["code"] == "unsupported_parameter"
    made.send("decision.create", event_id="d1")
    assert made.error()["client_event_id"] == "d1"


def test_wideband_comes_in_its_own_format():
    made = LiveLine(script())
    made.start(audio={"format": {"type": "audio/pcm", "rate": 16000}})
    made.append("commentary", "Greet.")
    made.audio(silence(1000, PCM16_16K), PCM16_16K)
    assert bytes(made.voice[: 960 * 32]) == render(Tone(440, 1000), PCM16_16K)[: 960 * 32]


def test_all_audio_of_the_caller_is_kept_for_tests():
    made = line()
    made.speak(400)
    assert bytes(made.session.input_audio) == render(Tone(300, 400), PCMU)
