"""Server events against the SDK's own models."""

import pytest

from providers.fakes.openai_check import check_server_event


def test_a_good_event_passes():
    event = {
        "type": "input_audio_buffer.speech_started",
        "event_id": "e",
        "audio_start_ms": 1,
        "item_id": "i",
    }
    assert check_server_event(event) is None


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"type": "session.mood", "event_id": "e"}, "no such event"),
        ({"type": "input_audio_buffer.speech_started", "event_id": "e", "item_id": "i"}, "audio_start_ms"),
        ({"type": "input_audio_buffer.cleared", "event_id": "e", "mood": 1}, "mood"),
        ({"type": "response.done", "event_id": "e", "response": {"id": "r", "mood": 1}}, "response.mood"),
    ],
)
def test_a_bad_event_is_explained(event, says):
    assert says in check_server_event(event)


def test_every_server_event_of_the_golden_transcripts_passes(golden):
    events = [event for side, event in golden if side == "S"]
    assert len(events) > 30
    assert [problem for event in events if (problem := check_server_event(event))] == []
