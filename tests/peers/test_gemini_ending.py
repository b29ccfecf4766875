"""Whole calls with Gemini: what the model learns of a barge-in, and how a session ends under a call."""

from __future__ import annotations

import re

import pytest

from tests.kit import sound
from tests.kit.gemini_model import GeminiModel
from tests.kit.hear import hear
from tests.kit.model import Lookup, with_all_tools
from tests.kit.office import NUMBER, Office
from tests.kit.stubborn import Stubborn

pytestmark = pytest.mark.peers

HELLO, ANSWER, LONG = sound.utterance(21, 1.0), sound.utterance(22, 1.2), sound.utterance(23, 8.0)
QUESTION = sound.utterance(24, 0.9)
NUMBERS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
WORD_MS = 8000 / len(NUMBERS)
"""Of one character, in the long answer."""
SCRIPT = """
steps:
  - {on: greeting, say: {audio: hello.wav, text: Hello}}
  - {on: caller_turn, heard: One, say: {audio: answer.wav, text: The answer}}
"""


@pytest.fixture(autouse=True)
def sounds(tmp_path) -> None:
    for name, pcm in (("hello", HELLO), ("answer", ANSWER), ("long", LONG)):
        sound.write(tmp_path / f"{name}.wav", pcm)


def call(office: Office, model: GeminiModel, settings: dict | None = None) -> Stubborn:
    plain = {
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": model.settings,
        "agents": {"reception": {**office._agent(), "providers": ["gemini"]}},
        "numbers": {NUMBER: {"agent": "reception"}},
        "storage": {"recordings": str(office.folder / "recordings")},
    }
    gateway = office.start(settings or plain)
    phone = office.stack.enter_context(Stubborn(gateway.sip, office.ports, called=NUMBER))
    phone.call()
    return phone


@pytest.mark.report("BR-086")
def test_the_note_after_a_barge_in_holds_the_words_that_the_callers_telephone_played(gemini_office, tmp_path):
    script = f"""
        steps:
          - {{on: greeting, say: {{audio: long.wav, text: "{NUMBERS}"}}}}
          - {{on: barge_in, say: {{audio: answer.wav, text: The answer}}}}
    """
    with GeminiModel(script, tmp_path) as model:
        phone = call(gemini_office, model)
        phone.listen(3.0)
        phone.speak(QUESTION)
        phone.until_heard(ANSWER, 10, "the answer")
        [session] = model.sessions
        said = [each["text"] for each in session.conversation.contents if each["role"] == "user"]
    [note] = [text for text in said if "The caller interrupted" in text]
    words = re.search(r'heard: "(.*)"]', note)
    assert words is not None, note
    played_ms = hear(LONG, phone.heard()).heard_ms
    # Cut between words, so the note is short of the truth by at most the longest word.
    assert -100 <= played_ms - len(words[1]) * WORD_MS <= 100 + 9 * WORD_MS


@pytest.mark.report("BR-110")
def test_a_session_that_cannot_be_resumed_is_handed_over_before_it_ends(gemini_office, tmp_path):
    """As after an hour: the successor knows what was said and greets nobody."""
    with GeminiModel(SCRIPT, tmp_path, faults="no_handles,go_away:20@2", afflicted=1) as model:
        phone = call(gemini_office, model)
        phone.until_heard(HELLO, 10, "the greeting")
        phone.until(lambda: len(model.sessions) > 1, 15, "the second session")
        second = model.sessions[1]
        phone.until(lambda: second.setup is not None, 5, "its set-up")
        assert not second.setup.handle
        phone.speak(QUESTION)
        phone.until_heard(ANSWER, 10, "the answer")
        assert {"role": "model", "text": "Hello"} in second.conversation.contents
        assert second.turns == 1


def test_a_tool_that_runs_over_the_end_of_a_connection_is_answered_once(gemini_office, tmp_path):
    script = """
        steps:
          - on: greeting
            say: {audio: hello.wav, text: Hello}
            call: {tool: lookup_caller, arguments: {}}
          - {on: {tool_result: lookup_caller}, say: {audio: answer.wav, text: The answer}}
    """
    with (
        Lookup("Ada", wait=3.0) as lookup,
        GeminiModel(script, tmp_path, faults="go_away:40@1", afflicted=1) as model,
    ):
        settings = with_all_tools(model, lookup, gemini_office.folder)
        settings["agents"]["reception"]["providers"] = ["gemini"]
        phone = call(gemini_office, model, settings)
        phone.until_heard(ANSWER, 15, "what comes of the result")
        phone.until(lambda: len(model.sessions) > 1, 10, "the second connection")
        first, second = model.sessions[:2]
        phone.until(lambda: second.setup is not None, 5, "its set-up")
        conversation = first.conversation
        assert (conversation.unanswered, conversation.answered_twice, conversation.strays) == ((), (), [])
        assert [each for each in second.received if "toolResponse" in each.message] == []
        assert len(lookup.asked) == 1
