"""Whole SIP calls through ``trunkline serve`` with the shipped Gemini Live server as the model."""

from __future__ import annotations

import pytest

from providers.fakes.gemini_session import LiveSession
from tests.kit import sound
from tests.kit.gemini_model import GeminiModel
from tests.kit.hear import hear
from tests.kit.model import Lookup, with_all_tools
from tests.kit.office import NUMBER, Office
from tests.kit.stubborn import Stubborn

pytestmark = pytest.mark.peers

SOUNDS = {
    "hello": sound.utterance(11, 1.0), "answer": sound.utterance(12, 1.2), "late": sound.utterance(13, 1.0),
}  # fmt: skip
THANKS = sound.utterance(14, 0.9)
SCRIPT = """
steps:
  - {on: greeting, say: {audio: hello.wav, text: Hello}}
  - {on: caller_turn, heard: One, say: {audio: answer.wav, text: The answer}}
  - {on: caller_turn, heard: Two, say: {audio: late.wav, text: Still here}}
"""


@pytest.fixture(autouse=True)
def sounds(tmp_path):
    for name, pcm in SOUNDS.items():
        sound.write(tmp_path / f"{name}.wav", pcm)


def call(office: Office, model: GeminiModel, settings: dict | None = None) -> Stubborn:
    gateway = office.start(
        settings
        or {
            "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
            "providers": model.settings,
            "agents": {"reception": {**office._agent(), "providers": ["gemini"]}},
            "numbers": {NUMBER: {"agent": "reception"}},
            "storage": {"recordings": str(office.folder / "recordings")},
        }
    )
    phone = office.stack.enter_context(Stubborn(gateway.sip, office.ports, called=NUMBER))
    phone.call()
    return phone


def test_a_caller_talks_with_gemini(openai_office, tmp_path):
    with GeminiModel(SCRIPT, tmp_path) as model:
        phone = call(openai_office, model)
        for name in ("hello", "answer", "late"):
            phone.until_heard(SOUNDS[name], 10, name)
            phone.speak(THANKS)
        [session] = model.sessions
        assert session.closing is None
        said = [each["text"] for each in session.conversation.contents if each["role"] == "user"]
        assert said[-2:] == ["One", "Two"]
    for name in ("hello", "answer", "late"):
        assert hear(SOUNDS[name], phone.heard()).whole


def test_a_caller_who_barges_in_is_answered_and_no_result_is_lost(openai_office, tmp_path):
    """Faults 21 and 22: the look-up that runs goes on, and its result is told exactly once."""
    sound.write(tmp_path / "long.wav", sound.utterance(15, 8.0))
    script = """
        steps:
          - on: greeting
            call: {tool: lookup_caller, arguments: {}}
            say: {audio: long.wav, text: "A very long welcome"}
          - {on: {tool_result: lookup_caller}, say: {audio: late.wav, text: "I know you"}}
          - {on: barge_in, say: {audio: hello.wav, text: "Yes"}}
    """
    with Lookup("Ada", wait=4.5) as lookup, GeminiModel(script, tmp_path) as model:
        settings = with_all_tools(model, lookup, openai_office.folder)
        settings["agents"]["reception"]["providers"] = ["gemini"]
        phone = call(openai_office, model, settings)
        phone.listen(1.5)
        phone.speak(THANKS)
        phone.until_heard(SOUNDS["hello"], 10, "the answer")
        phone.until_heard(SOUNDS["late"], 10, "what comes of the result")
        [session] = model.sessions
        assert [each["interrupted"] for each in server_contents(session) if "interrupted" in each] == [True]
        conversation = session.conversation
        assert (conversation.unanswered, conversation.answered_twice, conversation.strays) == ((), (), [])
        [result] = [each["response"] for each in conversation.contents if "answer" in each]
        assert "Ada" in str(result)
        assert len(lookup.asked) == 1
    long = hear(sound.utterance(15, 8.0), phone.heard())
    assert 500 < long.heard_ms < 5000


def server_contents(session: LiveSession) -> list[dict]:
    return [each.message["serverContent"] for each in session.sent if "serverContent" in each.message]


@pytest.mark.parametrize("faults", ["go_away:1@4", "close:1006@4", "close:1011@4"])
def test_a_call_outlives_a_connection_to_gemini(openai_office, tmp_path, faults):
    """Faults 24, 27 and 28: the conversation goes on where it was, and nobody is greeted twice."""
    with GeminiModel(SCRIPT, tmp_path, faults=faults, afflicted=1) as model:
        phone = call(openai_office, model)
        phone.until_heard(SOUNDS["hello"], 10, "hello")
        again = second_connection(phone, model)
        assert again.setup.handle
        phone.speak(THANKS)
        phone.until_heard(SOUNDS["answer"], 10, "the answer")
        assert [each for each in again.received if "realtimeInput" in each.message] == []
        assert {"role": "model", "text": "Hello"} in again.conversation.contents


def test_a_connection_that_dies_in_a_sentence_is_followed_by_another(openai_office, tmp_path):
    script = (
        SCRIPT
        + """
  - {on: {text: "Go on where you stopped"}, say: {audio: late.wav, text: "and so on"}}
"""
    )
    with GeminiModel(script, tmp_path, faults="die#2", afflicted=1) as model:
        phone = call(openai_office, model)
        phone.until_heard(SOUNDS["hello"], 10, "hello")
        phone.speak(THANKS)
        phone.until_heard(SOUNDS["late"], 10, "the rest")
        again = second_connection(phone, model)
        said = [content for content in again.conversation.contents if "text" in content]
        assert {"role": "user", "text": "One"} in said
        assert {"role": "model", "text": "Hello"} in said


def second_connection(phone: Stubborn, model: GeminiModel) -> LiveSession:
    phone.until(lambda: len(model.sessions) > 1, 10, "the second connection")
    again = model.sessions[1]
    phone.until(lambda: again.setup is not None, 5, "its set-up")
    return again
