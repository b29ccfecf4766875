"""JSON to messages and back, with events that the official SDK accepts."""

import base64
import json
import os
from pathlib import Path

import pytest
from openai.types.live.client_event import ClientEvent
from pydantic import TypeAdapter

from providers.fakes.live_check import check_server_event
from providers.fakes.live_shapes import check_event
from providers.openai.messages import FunctionCall
from providers.openai_live import wire
from providers.openai_live.messages import (
    Acknowledged,
    AgentTextReceived,
    AnswerCall,
    AppendContext,
    AudioReceived,
    CallerTextReceived,
    CloseSession,
    Context,
    ContinueResponse,
    ErrorReported,
    FunctionCallReceived,
    ResponseBegan,
    ResponseFinished,
    SendSilence,
    SessionClosed,
    SessionFacts,
    SessionStarted,
    StartSession,
    TaskDelegated,
    UpdateSession,
    UsageReported,
)
from providers.types import PCMU, AudioFormat, ResponseStatus, Usage

ORACLES = Path(os.environ.get("SHARED_ORACLES") or Path(__file__).parents[4] / "shared/oracles")
TAPE = ORACLES / "aimock-fixtures" / "openai-live-client.json"
"""A conversation written by the makers of another server (npm @copilotkit/aimock); it stays with them."""


def tape(direction: str) -> list[dict]:
    if not TAPE.exists():
        return []
    entries = json.loads(TAPE.read_text())["fixtures"][0]["response"]["live"]["entries"]
    return [entry["event"] for entry in entries if entry["direction"] == direction]


def decode(**event) -> object:
    return wire.decode(json.dumps(event).encode())


def test_audio_is_read_by_its_prefix_and_any_other_layout_in_the_long_way():
    audio = bytes(range(256))
    text = base64.b64encode(audio).decode()
    usual = f'{{"type":"session.output_audio.delta","delta":"{text}"}}'.encode()
    assert wire.audio_delta(usual) == AudioReceived(audio)
    assert wire.decode(usual) == AudioReceived(audio)
    for other in (
        f'{{"type": "session.output_audio.delta", "delta": "{text}"}}',
        f'{{"delta":"{text}","type":"session.output_audio.delta"}}',
        f'{{"type":"session.output_audio.delta","delta":"{text}","start_ms":1,"end_ms":2}}',
        f'{{"type":"session.output_audio.delta","delta":"{base64.urlsafe_b64encode(audio).decode()}"}}',
    ):
        assert wire.audio_delta(other.encode()) is None
        assert wire.decode(other.encode()) == AudioReceived(audio)


def test_a_frame_of_the_caller_is_what_the_sdk_would_write():
    event = json.loads(wire.append_audio(b"\xff" * 160))
    assert event == {"type": "session.input_audio.append", "audio": base64.b64encode(b"\xff" * 160).decode()}


@pytest.mark.skipif(not TAPE.exists(), reason="the oracles are not here")
def test_the_events_of_an_independent_server_are_read():
    events = tape("server")
    assert len(events) >= 7
    for event in events:
        assert check_server_event(event) is None, event["type"]
        assert wire.decode(json.dumps(event).encode()) is not None, event["type"]


@pytest.mark.skipif(not TAPE.exists(), reason="the oracles are not here")
def test_the_events_of_an_independent_client_are_accepted_by_our_server():
    events = tape("client")
    assert len(events) >= 5
    assert [check_event(event) for event in events] == [None] * len(events)


def test_the_session_says_what_was_applied():
    session = {
        "id": "live_1", "expires_at": 1796022000, "model": "gpt-live-1.1", "status": "active",
        "audio": {"format": {"type": "audio/pcmu", "rate": 8000}},
        "delegation": {"type": "responses", "responses": {"tools": [{"type": "function", "name": "a"}]}},
    }  # fmt: skip
    started = decode(type="session.started", event_id="e", session=session)
    assert started == SessionStarted(SessionFacts(PCMU, frozenset({"a"}), 1796022000.0))
    bare = decode(type="session.started", session={"id": "live_1"})
    assert bare == SessionStarted(SessionFacts())
    wide = {"audio": {"format": {"type": "audio/pcm", "rate": 16000}}}
    assert decode(type="session.started", session=wide).session.format == AudioFormat("pcm16", 16000)


def test_words_usage_acknowledgements_and_the_end_are_read():
    assert decode(
        type="session.input_transcript.delta", delta="Hi", start_ms=1, end_ms=2
    ) == CallerTextReceived("Hi", 1, 2)
    assert decode(
        type="session.output_transcript.delta", delta="Yo", start_ms=1, end_ms=2
    ) == AgentTextReceived("Yo", 1, 2)
    assert decode(type="session.usage.updated", usage={"seconds": 3}) == UsageReported(3.0)
    assert decode(type="session.thinking.appended", client_event_id="t-1") == Acknowledged("t-1")
    assert decode(type="session.closed", reason="expired", usage={"seconds": 9}) == SessionClosed(
        "expired", 9.0
    )
    target = {"id": "dlg_1", "type": "delegation", "target": "client"}
    assert decode(type="session.delegation.created", delegation=target, offset_ms=0) == TaskDelegated(
        "dlg_1", to_client=True
    )


def test_an_error_names_the_event_that_it_is_about():
    error = {
        "type": "invalid_request_error",
        "code": "unknown_parameter",
        "message": "No.",
        "client_event_id": "s-1",
    }
    assert decode(type="error", error=error) == ErrorReported(
        "invalid_request_error", "unknown_parameter", "No.", "s-1"
    )


def nested(**event) -> object:
    return decode(type="response.event", delegation_id="dlg_1", event=event)


def test_the_backend_s_stream_is_read_from_its_envelope():
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look_up", "arguments": "{}"}
    assert nested(type="response.created", response={"id": "resp_1"}) == ResponseBegan("dlg_1", "resp_1")
    begun = nested(type="response.output_item.added", output_index=0, item={**item, "arguments": ""})
    assert begun == FunctionCallReceived("dlg_1", FunctionCall("call_1", "look_up", "", completed=False))
    done = nested(type="response.output_item.done", output_index=0, item={**item, "status": "completed"})
    assert done == FunctionCallReceived("dlg_1", FunctionCall("call_1", "look_up", "{}", completed=True))
    message = {"type": "message", "id": "msg_1", "content": []}
    assert nested(type="response.output_item.done", output_index=0, item=message) is None
    assert nested(type="response.output_text.delta", delta="x") is None
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3}
    finished = nested(type="response.completed", response={"id": "resp_1", "usage": usage})
    tokens = Usage(text_in=6, cached_text_in=4, text_out=3)
    assert finished == ResponseFinished("dlg_1", "resp_1", ResponseStatus.COMPLETED, "", tokens)
    failed = nested(type="response.failed", response={"id": "resp_1", "error": {"code": "server_error"}})
    assert (failed.status, failed.error) == (ResponseStatus.FAILED, "server_error")
    cut = nested(
        type="response.incomplete",
        response={"id": "r", "incomplete_details": {"reason": "max_output_tokens"}},
    )
    assert (cut.status, cut.error) == (ResponseStatus.INCOMPLETE, "max_output_tokens")
    assert nested(type="error", code="server_error", message="x").status is ResponseStatus.FAILED


def test_a_stream_without_a_delegation_has_an_empty_one():
    event = {"type": "response.created", "response": {"id": "resp_1"}}
    assert decode(type="response.event", delegation_id=None, event=event) == ResponseBegan("", "resp_1")


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b'{"type": 1}', b'{"type":"error"}', b'{"type":"session.started"}',
        b'{"type":"session.output_audio.delta","delta":"@@@"}',
        b'{"type":"session.input_transcript.delta","delta":"x"}',
        b'{"type":"response.event","delegation_id":"d","event":{}}',
        b'{"type":"session.usage.updated","usage":{}}',
    ],
)  # fmt: skip
def test_a_broken_frame_is_an_error_of_ours(raw):
    with pytest.raises(wire.WireError):
        wire.decode(raw)


def test_an_unknown_event_is_nothing():
    assert decode(type="session.mood.updated", mood="curious") is None
    assert decode(type="info", code="x", message="y") is None


@pytest.mark.parametrize(
    "message",
    [
        StartSession("start", {"model": "gpt-live-1.1"}),
        UpdateSession(
            "update-1", {"delegation": {"type": "responses", "responses": {"tool_choice": "none"}}}
        ),
        AppendContext("thinking-1", Context.THINKING, "DTMF 5 pressed"),
        AppendContext("commentary-1", Context.COMMENTARY, "Greet.", "dlg_1"),
        AppendContext("instructions-1", Context.INSTRUCTIONS, "Be brief."),
        AnswerCall("answer-1", "call_1", "{}"),
        ContinueResponse("continue-1"),
        CloseSession("close"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_we_send_is_what_the_service_takes(message):
    event = json.loads(wire.encode(message))
    assert check_event(event) is None
    assert TypeAdapter(ClientEvent).validate_python(event).event_id == message.event_id


def test_silence_is_audio_and_no_event():
    with pytest.raises(ValueError, match="silence"):
        wire.encode(SendSilence(20))
