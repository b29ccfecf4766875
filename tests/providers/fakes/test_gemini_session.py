"""A session of the Gemini server, without a socket and without a clock."""

import json

import pytest

from providers.fakes.gemini_models import Backend
from providers.fakes.pump import Close
from providers.fakes.speech import Tone, render
from providers.types import PCM16_24K
from tests.kit.gemini import PHONE, TALK, TOOLS, GeminiLine, dial, functions, resumptions


def test_a_session_begins_with_setup_complete_and_a_handle():
    line = dial()
    assert line.messages == [
        {"setupComplete": {"sessionId": "session-1"}},
        {"sessionResumptionUpdate": {"newHandle": "h-0001", "resumable": True}},
    ]
    assert line.session.setup.instructions == "You answer the phone."


@pytest.mark.parametrize("message", [{"realtime_input": {"text": "hi"}}, {}, {"hello": 1}, []])
def test_the_first_message_must_be_a_setup(message):
    line = GeminiLine(TALK)
    line.session.receive(json.dumps(message), line.now)
    assert line.session.closing.code == 1007
    assert line.session.to_send() == []


def test_what_is_said_is_noted_without_audio_and_so_is_a_refusal():
    notes = []
    line = dial(note=lambda side, event: notes.append((side, event)))
    blob = {"data": "AAAA", "mimeType": "audio/pcm;rate=16000"}
    line.send(realtimeInput={"audio": blob})
    line.send(realtimeInput={"audio": blob, "audioStreamEnd": True})
    line.send(realtimeInput={"activityStart": {}})
    assert [next(iter(event)) for _, event in notes[:3]] == [
        "setup",
        "setupComplete",
        "sessionResumptionUpdate",
    ]
    kept = {"audio": {"mimeType": "audio/pcm;rate=16000"}, "audioStreamEnd": True}
    assert notes[3] == ("client", {"realtimeInput": kept})
    assert notes[-1][1]["close"]["code"] == 1007


def test_what_is_not_json_closes_with_1007():
    line = GeminiLine(TALK)
    line.session.receive("{", line.now)
    assert line.session.closing == Close(1007, "Invalid JSON payload received.")


def test_a_second_setup_is_refused():
    line = dial()
    line.send(setup=PHONE)
    assert line.session.closing.code == 1007


def test_history_before_the_first_turn_is_not_answered():
    line = dial(setup={"historyConfig": {"initial_history_in_client_content": True}})
    line.turn()
    assert line.session.turns == 0
    turns = [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Hello"}]}]
    line.send(client_content={"turns": turns, "turn_complete": True})
    line.run(1)
    assert line.session.turns == 0
    assert line.session.conversation.contents == [
        {"role": "user", "text": "Hi"},
        {"role": "model", "text": "Hello"},
    ]
    line.turn()
    line.run(1)
    assert line.session.turns == 1


def test_content_needs_roles():
    line = dial()
    line.send(client_content={"turns": [{"parts": [{"text": "Hi"}]}]})
    assert line.session.closing.code == 1007


def test_an_older_model_takes_content_only_as_history():
    """Fault 26."""
    old = {"model": "models/gemini-3.1-flash-live-preview"}
    content = {"turns": [{"role": "user", "parts": [{"text": "Hi"}]}], "turnComplete": True}
    line = dial(setup=old)
    line.send(clientContent=content)
    assert line.session.closing.code == 1007
    line = dial(setup=old | {"historyConfig": {"initialHistoryInClientContent": True}})
    line.send(clientContent=content)
    assert line.session.closing is None


def test_the_context_can_be_updated():
    script = """
    scenes:
      - {when: {instructions: sales}, steps: [{on: greeting, say: {tone: 500, ms: 100, text: Sales}}]}
      - {steps: []}
    """
    line = dial(script)
    line.send(
        contextUpdate={
            "systemInstruction": {"parts": [{"text": "You are sales"}]},
            "tools": {"tools": functions("BLOCKING", "order")},
        }
    )
    line.say("Greet the caller.")
    line.run(1)
    assert line.words() == "Sales"
    assert dict(line.session.setup.tools) == {"order": "BLOCKING"}


def test_an_older_model_has_no_updates():
    line = dial(setup={"model": "models/gemini-3.1-flash-live-preview"})
    line.send(contextUpdate={})
    assert line.session.closing.code == 1007


def test_a_handle_brings_the_conversation_back():
    line = dial()
    line.turn()
    line.run(5)
    line.session.disconnected()
    again = dial(store=line.store, now=line.now, setup={"sessionResumption": {"handle": line.handle()}})
    again.turn()
    again.run(3)
    assert again.voice() == render(Tone(600, 1000), PCM16_24K)
    assert again.session.conversation.contents[:2] == [
        {"role": "user", "text": "It is me"}, {"role": "model", "text": "Good to hear you again"},
    ]  # fmt: skip


def test_a_handle_is_refused_while_its_connection_is_open():
    """Fault 29."""
    line = dial()
    again = dial(store=line.store, setup={"sessionResumption": {"handle": line.handle()}})
    assert again.session.closing.code == 1011
    assert again.messages == []


@pytest.mark.parametrize("handle", ["h-9999", "8f14e45f-client-uuid"])
def test_an_unknown_handle_is_refused(handle):
    line = dial(setup={"sessionResumption": {"handle": handle}})
    assert line.session.closing == Close(1008, "BidiGenerateContent session not found")


def test_a_handle_is_good_for_two_hours_and_for_its_model():
    line = dial()
    line.session.disconnected()
    resume = {"sessionResumption": {"handle": line.handle()}}
    late = dial(store=line.store, now=line.now + 7201, setup=resume)
    assert late.session.closing.code == 1008
    other = dial(store=line.store, setup=resume | {"model": "models/gemini-3.1-flash-live-preview"})
    assert other.session.closing.code == 1007


def test_a_handle_stands_for_the_moment_when_it_was_given():
    line = dial()
    line.turn()
    line.run(0.1)  # in the middle of the answer
    handle = line.handle()
    line.session.disconnected()
    again = dial(store=line.store, now=line.now, setup={"sessionResumption": {"handle": handle}})
    assert again.session.conversation.contents == []
    again.turn()
    again.run(3)
    assert again.voice() == render(Tone(500, 2000), PCM16_24K)


def test_without_the_wish_to_resume_there_are_no_handles():
    setup = {key: value for key, value in PHONE.items() if key != "sessionResumption"}
    line = GeminiLine(TALK, setup=setup)
    line.turn()
    line.run(3)
    assert "sessionResumptionUpdate" not in line.kinds


def test_vertex_says_what_was_consumed():
    model = "projects/p/locations/l/publishers/google/models/gemini-3.8-live"
    line = dial(backend=Backend.VERTEX, setup={"model": model, "sessionResumption": {"transparent": True}})
    line.say("Greet the caller.")
    line.run(3)
    assert line.all("sessionResumptionUpdate")[-1]["lastConsumedClientMessageIndex"] == 1


def test_old_handles_of_a_connection_are_forgotten():
    line = dial()
    first = line.handle()
    for _ in range(5):
        line.turn(200)
        line.run(5)
    line.session.disconnected()
    assert dial(store=line.store, setup={"sessionResumption": {"handle": first}}).session.closing.code == 1008


def test_a_connection_is_warned_before_it_ends():
    line = dial(connection_seconds=600)
    line.run(539)
    assert "goAway" not in line.kinds
    line.run(2)
    assert line.messages[-1] == {"goAway": {"timeLeft": "60s"}}
    line.run(59)
    assert line.session.closing == Close(1011, "Deadline expired before operation could complete.")


def test_a_conversation_without_compression_ends_after_a_quarter_of_an_hour():
    setup = {key: value for key, value in PHONE.items() if key != "contextWindowCompression"}
    store = resumptions()
    line = GeminiLine(TALK, setup=setup, store=store)
    line.run(500)
    line.say("Greet the caller.")
    line.run(10)
    line.session.disconnected()
    again = GeminiLine(
        TALK, setup=setup | {"sessionResumption": {"handle": line.handle()}}, store=store, now=line.now
    )
    again.run(320)
    assert again.session.closing is None
    again.run(80)
    assert again.session.closing.code == 1011


def test_the_script_can_lose_a_session():
    line = dial("{lose_after: 3, steps: []}")
    line.run(4)
    assert line.session.closing.code == 1011


def test_a_model_that_thinks_in_the_background_reports_its_progress():
    line = dial(TOOLS, setup={"model": "models/gemini-3.8-live-extended-thinking"})
    line.say("Greet the caller.")
    line.run(1)
    line.answer(*line.calls())
    line.run(1)
    ends = [m["serverContent"] for m in line.messages if "turnComplete" in m.get("serverContent", {})]
    assert [end["interactionStatus"] for end in ends] == ["IN_PROGRESS", "IDLE"]


def test_the_default_behaviour_is_that_of_the_model():
    assert set(dial().session.setup.tools.values()) == {"NON_BLOCKING"}
    old = dial(setup={"model": "models/gemini-3.1-flash-live-preview"})
    assert set(old.session.setup.tools.values()) == {"BLOCKING"}
