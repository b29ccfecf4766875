"""Whatever a client does, and whenever: the Gemini session keeps its rules."""

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K
from tests.kit.gemini import dial

SCRIPT = """
speech: {speed: 3}
hearing: {transcript_after_ms: 40}
otherwise: {tone: 700, ms: 500, text: "And so on"}
steps:
  - {on: greeting, say: {tone: 440, ms: 900, text: "Hello there"}, call: [{tool: lookup}, {tool: search}]}
  - {on: {tool_result: [lookup, search]}, call: {tool: lookup}, say: {tone: 500, ms: 700, text: "Found it"}}
  - {on: caller_turn, repeat: 3, say: {tone: 600, ms: 900, text: "Yes"}, call: {tool: search}}
"""
LOUD, QUIET = render(Tone(300, 400), PCM16_16K), silence(600, PCM16_16K)
ACTIONS = st.lists(
    st.sampled_from(
        ["text", "speak", "pause", "wait", "long wait", "answer", "answer one", "content", "note", "end"]
    ),
    min_size=1,
    max_size=14,
)
BEHAVIORS = st.sampled_from([None, "BLOCKING"])
FAULTS = st.sampled_from(
    ["", "no_audio#2", "late_deltas:2", "stray_deltas:1", "rejected#2", "no_cancellation"]
)


def audio(line, data):
    blob = {"data": base64.b64encode(data).decode(), "mime_type": "audio/pcm;rate=16000"}
    line.send(realtime_input={"audio": blob})


def act(line, action):
    conversation = line.session.conversation
    open_calls = [{"id": call.id, "name": call.name} for call in conversation.open.values()]
    turns = [{"role": "user", "parts": [{"text": "so"}]}]
    match action:
        case "text":
            line.say("Hello")
        case "speak":
            audio(line, LOUD)
        case "pause":
            audio(line, QUIET)
        case "wait":
            line.run(0.3)
        case "long wait":
            line.run(3)
        case "answer":
            line.answer(*open_calls)
        case "answer one":
            line.answer(*open_calls[:1], scheduling="INTERRUPT")
        case "content" | "note":
            line.send(client_content={"turns": turns, "turn_complete": action == "content"})
        case _:
            line.send(realtime_input={"audio_stream_end": True})


@settings(deadline=None, max_examples=100)
@given(ACTIONS, BEHAVIORS, FAULTS)
def test_a_session_keeps_its_rules(actions, behavior, faults):
    line = dial(SCRIPT, faults, behavior=behavior)
    for action in actions:
        act(line, action)
    line.run(10)
    assert line.session.closing is None
    conversation = line.session.conversation
    asked = [call["id"] for call in line.calls()]
    assert len(asked) == len(set(asked))
    cancelled = {call_id for each in line.all("toolCallCancellation") for call_id in each["ids"]}
    assert set(asked) == set(conversation.open) | set(conversation.answers) | cancelled
    assert conversation.answered_twice == ()
    check_turns(line.messages, late="deltas" in faults)
    # Nothing hangs: what waits is for an answer, or for somebody who still speaks.
    waits = conversation.blocked or line.session._ear.speaking
    assert waits or not line.session._owes_answer


def check_turns(messages, *, late):
    """A turn is audio, then its end; an interrupted one has no ``generationComplete`` after that."""
    speaking = interrupted = False
    for message in messages:
        content = message.get("serverContent", {})
        assert not (interrupted and "generationComplete" in content)
        if "modelTurn" in content:
            assert late or not interrupted
            speaking = True
        interrupted = interrupted or "interrupted" in content
        if "turnComplete" in content:
            assert "usageMetadata" in message
            speaking = interrupted = False
        update = message.get("sessionResumptionUpdate")
        if update and update["resumable"]:
            assert late or not speaking


@pytest.mark.parametrize("text", ['"setup"', "5", "null", '{"setup": {"model": "models/x"}}', "[", "\ud800"])
def test_any_first_frame_is_answered_by_a_close(text):
    line = dial()
    fresh = type(line.session)(line.options, now=0.0)
    fresh.receive(text, 0.0)
    assert fresh.closing.code in (1007, 1008)


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=30) | st.binary(max_size=30))
def test_any_later_frame_leaves_the_session_open_or_closes_it(frame):
    line = dial()
    line.session.receive(frame, line.now)
    try:
        valid = isinstance(json.loads(frame), dict)
    except ValueError:
        valid = False
    assert valid or line.session.closing.code == 1007
