"""Turns of the caller as the server hears them."""

import base64

import pytest

from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_24K, PCMU


def test_a_turn_is_announced_committed_and_answered_in_the_documented_order(dial):
    line = dial()
    start = len(line.events)
    line.turn()
    line.run(5)
    order = [kind for kind in line.types(start) if "transcription" not in kind and "delta" not in kind]
    assert order == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
        "rate_limits.updated",
    ]


def test_offsets_count_all_audio_of_the_session_with_padding_and_silence(dial):
    line = dial()
    line.audio(silence(1000, PCMU))
    line.turn(800)
    assert line.last("input_audio_buffer.speech_started")["audio_start_ms"] == 700
    assert line.last("input_audio_buffer.speech_stopped")["audio_end_ms"] == 2300
    assert line.session.heard_ms == 2320


def test_the_item_id_is_the_same_from_speech_to_transcript(dial):
    line = dial()
    line.turn()
    line.run(1)
    item_id = line.last("input_audio_buffer.speech_started")["item_id"]
    assert line.last("input_audio_buffer.speech_stopped")["item_id"] == item_id
    assert line.last("input_audio_buffer.committed")["item_id"] == item_id
    completed = line.last("conversation.item.input_audio_transcription.completed")
    assert (completed["item_id"], completed["transcript"]) == (item_id, "It is me")


def test_pcm_of_24_khz_is_heard_on_the_same_clock(dial):
    line = dial(raw=True)
    line.audio(
        silence(400, PCM16_24K) + render(Tone(300, 600), PCM16_24K) + silence(300, PCM16_24K), PCM16_24K
    )
    assert line.last("input_audio_buffer.speech_started")["audio_start_ms"] == 100
    assert line.last("input_audio_buffer.speech_stopped")["audio_end_ms"] == 1200


def test_a_change_of_format_keeps_the_clock(dial):
    line = dial(raw=True)
    line.audio(silence(1000, PCM16_24K), PCM16_24K)
    line.phone()
    line.audio(silence(500, PCMU))
    assert line.session.heard_ms == 1500


def test_without_turn_detection_the_client_commits(dial):
    line = dial()
    line.send("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    line.speak(500)
    assert not line.all("input_audio_buffer.speech_started")
    line.send("input_audio_buffer.commit")
    assert line.types()[-3:] == [
        "input_audio_buffer.committed", "conversation.item.added", "conversation.item.done",
    ]  # fmt: skip
    assert not line.all("response.created")


def test_committing_less_than_100_ms_is_an_error(dial):
    line = dial()
    line.audio(silence(80, PCMU))
    line.send("input_audio_buffer.commit", event_id="mine")
    assert line.error()["code"] == "input_audio_buffer_commit_empty"
    assert line.error()["event_id"] == "mine"


def test_clearing_forgets_audio_but_not_the_clock(dial):
    line = dial()
    line.speak(300)
    line.send("input_audio_buffer.clear")
    assert line.types()[-1] == "input_audio_buffer.cleared"
    line.send("input_audio_buffer.commit")
    assert line.error()["code"] == "input_audio_buffer_commit_empty"
    assert line.session.heard_ms == 300


def test_audio_that_is_not_base64_is_refused(dial):
    line = dial()
    line.send("input_audio_buffer.append", audio="***")
    assert (line.error()["code"], line.error()["param"]) == ("invalid_value", "audio")


def test_url_safe_base64_is_refused(dial):
    line = dial()
    line.send("input_audio_buffer.append", audio=base64.urlsafe_b64encode(b"\xff\xfe\xfd" * 8).decode())
    assert line.error()["code"] == "invalid_value"


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [("transcript:failed", ["failed"]), ("transcript:empty", ["completed"])],
)
def test_transcripts_fail_or_are_empty_on_demand(dial, fault, kinds):
    line = dial(faults=fault)
    line.turn()
    line.run(1)
    prefix = "conversation.item.input_audio_transcription."
    found = [kind.removeprefix(prefix) for kind in line.types() if kind.startswith(prefix)]
    assert found == kinds
    if fault.endswith("empty"):
        assert line.last(f"{prefix}completed")["transcript"] == ""


def test_unordered_transcripts_come_in_the_wrong_order(dial):
    line = dial(faults="transcript:unordered")
    line.turn()
    line.run(3)
    line.turn()
    line.run(3)
    turns = [event["item_id"] for event in line.all("input_audio_buffer.committed")]
    told = [e["item_id"] for e in line.all("conversation.item.input_audio_transcription.completed")]
    assert told == turns[::-1]


def test_a_late_transcript_comes_after_the_response(dial):
    line = dial(faults="transcript:late")
    line.turn()
    line.run(5)
    kinds = line.types()
    assert kinds.index("conversation.item.input_audio_transcription.completed") > kinds.index("response.done")


def test_without_a_transcription_model_there_is_no_transcript(dial):
    line = dial()
    line.send("session.update", session={"type": "realtime", "audio": {"input": {"transcription": None}}})
    line.turn()
    line.run(2)
    assert not line.all("conversation.item.input_audio_transcription.completed")


def test_a_timeline_replaces_the_detector(dial):
    line = dial(
        "{hearing: {timeline: [{start_ms: 200, stop_ms: 700}]}, steps: [{on: caller_turn, say: okay.flac}]}"
    )
    line.audio(silence(1000, PCMU))
    assert line.last("input_audio_buffer.speech_started")["audio_start_ms"] == 200
    assert line.last("input_audio_buffer.speech_stopped")["audio_end_ms"] == 700
    assert line.all("response.created")


def test_after_the_idle_time_the_server_commits_silence_and_speaks(dial):
    line = dial("steps: [{on: greeting, say: {tone: 440, ms: 1000}}, {on: idle, say: still_there.flac}]")
    detection = {"type": "server_vad", "idle_timeout_ms": 5000}
    line.send(
        "session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
    )
    line.send("response.create")
    line.run(5.9)
    assert not line.all("input_audio_buffer.timeout_triggered")
    line.run(3)
    assert line.all("input_audio_buffer.timeout_triggered")
    assert "Are you still there?" in str(line.last("response.done"))


def test_other_settings_in_the_middle_of_a_turn_do_not_begin_it_again(dial):
    line = dial()
    line.speak(200)
    detection = {"type": "server_vad", "silence_duration_ms": 200}
    line.send(
        "session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
    )
    line.speak(200)
    line.audio(silence(200, PCMU))
    assert len(line.all("input_audio_buffer.speech_started")) == 1
    assert line.last("input_audio_buffer.speech_stopped")["audio_end_ms"] == 600


def test_a_turn_that_was_heard_without_turn_detection_does_not_stop_with_it(dial):
    line = dial()
    line.send("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    line.speak(200)
    detection = {"type": "server_vad", "silence_duration_ms": 200}
    line.send(
        "session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
    )
    line.audio(silence(300, PCMU))
    assert not line.all("input_audio_buffer.speech_stopped")
