"""The turns of the Gemini server, and how they are interrupted."""

import base64

import pytest

from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K, PCM16_24K
from tests.kit.gemini import PHONE, TALK, GeminiLine, dial


def test_a_text_is_answered_with_parts_of_audio_faster_than_real_time():
    line = dial()
    line.say("Greet the caller.")
    line.run(0.2)
    assert line.voice() == render(Tone(440, 1000), PCM16_24K)
    assert line.words() == "Hello, who is there"
    lengths = [len(base64.b64decode(part["inlineData"]["data"])) / 48 for part in line.parts()]
    assert set(lengths[:-1]) <= {40, 60, 80, 100}
    assert line.kinds[-1] == "generationComplete"


def test_parts_and_words_are_combined_in_every_way():
    line = dial(TALK.replace("ms: 1000, text", "ms: 3000, text", 1))
    line.say("Greet the caller.")
    line.run(1)
    turns = [m["serverContent"] for m in line.messages if "modelTurn" in m.get("serverContent", {})]
    assert {len(turn["modelTurn"]["parts"]) for turn in turns} == {1, 2}
    assert any("outputTranscription" in turn for turn in turns)
    assert "outputTranscription" in line.kinds


def test_turn_complete_waits_until_a_client_has_played_everything():
    line = dial()
    line.say("Greet the caller.")
    begun = line.now
    line.run(0.9)
    assert "turnComplete" not in line.kinds
    line.run(0.2)
    at = line.times[line.kinds.index("turnComplete")]
    assert at - begun == pytest.approx(1.0)
    done = line.times[line.kinds.index("generationComplete")]
    assert done - begun < 0.2


def test_a_turn_of_the_caller_is_heard_transcribed_and_answered():
    line = dial()
    line.turn()
    line.run(3)
    assert [each["type"] for each in line.all("voiceActivity")] == ["ACTIVITY_START", "ACTIVITY_END"]
    assert line.words("inputTranscription").strip() == "It is me"
    assert line.all("inputTranscription")[-1]["finished"] is True
    assert line.voice() == render(Tone(500, 2000), PCM16_24K)
    assert line.session.input_audio == render(Tone(300, 800), PCM16_16K) + silence(520, PCM16_16K)


def test_the_messages_of_a_turn_come_in_their_order():
    line = dial()
    line.turn()
    line.run(3)
    order = [kind for kind in line.kinds if kind != "outputTranscription"]
    first = order.index("modelTurn")
    assert order[:first] == [
        "setupComplete", "sessionResumptionUpdate", "voiceActivity", "voiceActivity",
        "sessionResumptionUpdate",
    ]  # fmt: skip
    assert order[-3:] == ["generationComplete", "turnComplete", "sessionResumptionUpdate"]
    updates = line.all("sessionResumptionUpdate")
    assert [each["resumable"] for each in updates] == [True, False, True]
    assert "newHandle" not in updates[1]


def test_usage_counts_the_context_and_the_turn_by_modality():
    line = dial()
    line.turn()
    line.run(3)
    usage = line.all("usageMetadata")[-1]
    assert usage["responseTokensDetails"] == [{"modality": "AUDIO", "tokenCount": 50}]
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["responseTokenCount"]
    prompt = {each["modality"]: each["tokenCount"] for each in usage["promptTokensDetails"]}
    assert prompt["AUDIO"] == 1300 * 25 // 1000
    line.turn()
    line.run(3)
    later = {
        each["modality"]: each["tokenCount"] for each in line.all("usageMetadata")[-1]["promptTokensDetails"]
    }
    assert later["AUDIO"] == 2 * prompt["AUDIO"] + 50


def test_without_the_wish_for_transcripts_there_are_none():
    setup = {key: value for key, value in PHONE.items() if "Transcription" not in key}
    line = GeminiLine(TALK, setup=setup)
    line.turn()
    line.run(3)
    assert line.voice() == render(Tone(500, 2000), PCM16_24K)
    assert not line.all("inputTranscription") + line.all("outputTranscription")


def test_a_barge_in_interrupts_and_ends_the_turn_without_generation_complete():
    line = dial(TALK.replace("speed: 10", "speed: 1"))
    line.say("Greet the caller.")
    line.run(0.4)
    line.forget()
    line.turn(300)
    line.run(1)
    order = [kind for kind in line.kinds if kind in ("interrupted", "generationComplete", "turnComplete")]
    assert order[:2] == ["interrupted", "turnComplete"]
    after = line.messages[line.kinds.index("interrupted") + 1 :]
    assert next(iter(after[0]["serverContent"])) == "turnComplete"
    assert render(Tone(500, 2000), PCM16_24K)[: 48 * 40] in line.voice()


def test_what_was_generated_but_is_still_played_is_interrupted_too():
    line = dial()
    line.turn()
    line.run(0.5)  # all is generated, most is not played
    line.forget()
    line.turn(300)
    assert line.kinds[:4] == ["voiceActivity", "interrupted", "turnComplete", "sessionResumptionUpdate"]
    line.run(2)
    assert line.voice() == render(Tone(550, 500), PCM16_24K)


def test_a_caller_who_speaks_when_nobody_does_interrupts_nothing():
    line = dial()
    line.turn()
    line.run(5)
    line.turn()
    line.run(5)
    assert "interrupted" not in line.kinds


def test_a_session_without_interruptions_answers_after_its_own_turn():
    config = {"automaticActivityDetection": {"silenceDurationMs": 500}, "activityHandling": "NO_INTERRUPTION"}
    line = dial(setup={"realtimeInputConfig": config})
    line.say("Greet the caller.")
    line.turn(300)
    line.run(5)
    assert "interrupted" not in line.kinds
    assert line.voice() == render(Tone(440, 1000), PCM16_24K) + render(Tone(500, 2000), PCM16_24K)


@pytest.mark.parametrize("complete", [True, False])
def test_client_content_interrupts_where_the_model_does_so(complete):
    line = dial()
    line.say("Greet the caller.")
    line.forget()
    line.send(
        client_content={"turns": [{"role": "user", "parts": [{"text": "Stop"}]}], "turn_complete": complete}
    )
    assert ("interrupted" in line.kinds) is complete
    assert {"role": "user", "text": "Stop"} in line.session.conversation.contents
