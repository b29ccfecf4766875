"""What a GPT-Live session sends, and what is kept of it."""

import json

import pytest

from providers.fakes.live_check import check_server_event
from providers.fakes.live_outbox import Outbox
from providers.fakes.openai_outbox import InvalidServerEvent
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Ids


def outbox() -> Outbox:
    return Outbox(Ids(1), check_server_event)


def test_events_have_an_id_and_name_what_they_answer_and_audio_has_neither():
    out = outbox()
    out.emit("session.input_audio.muted", cause="m-1")
    out.emit_audio(b"\xff\xff")
    event, audio = map(json.loads, out.take())
    assert event["event_id"].startswith("event_")
    assert event["client_event_id"] == "m-1"
    assert audio == {"type": "session.output_audio.delta", "delta": "//8="}
    assert out.take() == []


def test_the_record_keeps_an_event_as_it_was_and_no_audio():
    out = outbox()
    out.now = 7.0
    usage = {"seconds": 1.0}
    out.emit("session.usage.updated", usage=usage)
    out.emit_audio(b"\xff")
    usage["seconds"] = 2.0
    assert [(each.at, each.event["usage"]) for each in out.sent] == [(7.0, {"seconds": 1.0})]


def test_a_refusal_names_the_event_and_the_parameter():
    out = outbox()
    out.refuse(Problem("unknown_parameter", "No.", "session.voice"), "start")
    [event] = map(json.loads, out.take())
    assert event["error"] == {
        "type": "invalid_request_error", "code": "unknown_parameter", "message": "No.",
        "param": "session.voice", "client_event_id": "start",
    }  # fmt: skip


def test_a_stalled_outbox_sends_nothing():
    out = outbox()
    out.stalled = True
    out.emit("session.input_audio.muted")
    out.emit_audio(b"\xff")
    out.emit_raw(b"{}")
    assert out.take() == []


def test_an_event_that_the_sdk_refuses_is_a_bug_of_the_fake():
    with pytest.raises(InvalidServerEvent, match=r"session\.thinking\.appended"):
        outbox().emit("session.thinking.appended", start_ms=1)
