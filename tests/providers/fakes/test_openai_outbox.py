"""What a session sends."""

import json

import pytest

from providers.fakes.openai_check import check_server_event
from providers.fakes.openai_outbox import MAX_RECORDED, InvalidServerEvent, Outbox
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Ids


@pytest.fixture
def outbox():
    return Outbox(Ids(1), check_server_event)


def test_events_leave_once_in_order_with_an_id(outbox):
    outbox.emit("input_audio_buffer.cleared")
    outbox.refuse(Problem("server_error", "no"), "mine")
    cleared, refused = map(json.loads, outbox.take())
    assert cleared["event_id"].startswith("event_")
    assert (refused["error"]["type"], refused["error"]["event_id"]) == ("server_error", "mine")
    assert outbox.take() == []


def test_an_event_that_the_sdk_refuses_is_a_bug(outbox):
    with pytest.raises(InvalidServerEvent, match="audio_end_ms"):
        outbox.emit("input_audio_buffer.speech_stopped", item_id="i")


def test_a_stalled_outbox_is_silent(outbox):
    outbox.stalled = True
    outbox.emit("input_audio_buffer.cleared")
    outbox.emit_raw(b"x")
    assert outbox.take() == []


def test_the_record_is_bounded_has_no_audio_and_keeps_items_as_they_were(outbox):
    item = {
        "id": "i",
        "object": "realtime.item",
        "type": "function_call",
        "name": "x",
        "arguments": "",
        "status": "in_progress",
    }
    outbox.emit("conversation.item.added", previous_item_id=None, item=item)
    item["status"] = "completed"
    assert outbox.sent[0].event["item"]["status"] == "in_progress"
    where = {"response_id": "r", "item_id": "i", "output_index": 0, "content_index": 0}
    for _ in range(MAX_RECORDED):
        outbox.emit("response.output_audio.delta", **where, delta="AAAA")
    assert len(outbox.sent) == MAX_RECORDED
    assert "delta" not in outbox.sent[-1].event
