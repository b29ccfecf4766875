"""The JSON of both directions, checked against the SDK's own types."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent

from providers.openai import wire
from providers.openai.messages import (
    AddText,
    AgentTextReceived,
    AnswerCall,
    AudioFinished,
    AudioReceived,
    CallerTextReceived,
    CancelResponse,
    CreateResponse,
    ErrorReported,
    FunctionCall,
    FunctionCallReceived,
    ItemAdded,
    ResponseCreated,
    ResponseFinished,
    SessionCreated,
    SessionUpdated,
    SpeechBegan,
    SpeechEnded,
    TranscriptionFailed,
    TruncateItem,
    TurnCommitted,
    UpdateSession,
)
from providers.types import PCM16_24K, PCMA, PCMU, ResponseStatus, Usage
from tests.providers.openai.transcripts import NAMES, frames, server_events


def _by_type(union: object) -> dict[str, type]:
    members = get_args(get_args(union)[0]) or get_args(union)
    return {get_args(member.model_fields["type"].annotation)[0]: member for member in members}


SERVER_TYPES = _by_type(RealtimeServerEvent)
CLIENT_TYPES = _by_type(RealtimeClientEvent)


def _delta(audio: bytes, **more: object) -> bytes:
    event = {
        "type": "response.output_audio.delta",
        "event_id": "event_1",
        "response_id": "resp_1",
        "item_id": "item_1",
        "output_index": 0,
        "content_index": 0,
        "delta": base64.b64encode(audio).decode(),
    }
    return json.dumps({**event, **more}, separators=(",", ":")).encode()


# The audio path.


@settings(deadline=None)
@given(audio=st.binary(max_size=5000))
def test_the_short_way_and_the_long_way_read_a_delta_alike(audio: bytes) -> None:
    raw = _delta(audio)
    expected = AudioReceived("resp_1", "item_1", audio)
    assert wire.audio_delta(raw) == expected
    assert wire.decode(raw) == expected


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(json.loads(_delta(b"abc"))).encode(),  # spaces, as Python's json writes them
        orjson.dumps(dict(reversed(json.loads(_delta(b"abc")).items()))),  # another order of keys
        _delta(b"abc", obfuscation='x"y'),  # a key that is newer than this code
        _delta(b"abc", output_index={"item_id": "nested"}),
    ],
)
def test_a_delta_in_another_layout_takes_the_long_way(raw: bytes) -> None:
    assert wire.audio_delta(raw) is None
    assert wire.decode(raw) == AudioReceived("resp_1", "item_1", b"abc")


def test_a_delta_in_the_url_safe_alphabet_is_read_too() -> None:
    """Fault 39: URL-safe base64 decoded as standard gives corrupted audio."""
    audio = bytes([0xFB, 0xFF, 0xFE] * 50)
    raw = _delta(b"", delta=base64.urlsafe_b64encode(audio).decode())
    assert wire.audio_delta(raw) is None
    message = wire.decode(raw)
    assert isinstance(message, AudioReceived)
    assert message.audio == audio


def test_a_delta_that_is_no_base64_is_an_error_of_that_frame_only() -> None:
    raw = _delta(b"", delta="not base64!")
    assert wire.audio_delta(raw) is None
    with pytest.raises(wire.WireError, match="not base64"):
        wire.decode(raw)


@pytest.mark.report("BR-109")
def test_a_delta_of_several_megabytes_is_read() -> None:
    audio = bytes(range(256)) * 12_000
    message = wire.audio_delta(_delta(audio))
    assert message is not None
    assert message.audio == audio


def test_another_event_that_quotes_the_name_is_not_taken_for_audio() -> None:
    error = {"type": "error", "error": {"message": '{"type":"response.output_audio.delta",'}}
    assert wire.audio_delta(orjson.dumps(error)) is None


@settings(deadline=None)
@given(audio=st.binary(min_size=1, max_size=2000))
def test_appended_audio_is_a_valid_client_event(audio: bytes) -> None:
    text = wire.append_audio(audio)
    event = CLIENT_TYPES["input_audio_buffer.append"].model_validate_json(text)
    assert base64.b64decode(event.audio) == audio
    assert event.model_extra == {}


# What the server says.


@pytest.mark.parametrize("name", NAMES)
def test_recorded_events_are_what_the_sdk_knows_and_all_can_be_read(name: str) -> None:
    for event, raw in zip(server_events(name), frames(name), strict=True):
        SERVER_TYPES[event["type"]].model_validate(event)
        wire.decode(raw)


def test_a_recorded_turn_is_read_in_order() -> None:
    messages = [message for message in map(wire.decode, frames("turn")) if message is not None]
    assert [type(message) for message in messages] == [
        SessionCreated,
        SessionUpdated,
        SpeechBegan,
        SpeechEnded,
        TurnCommitted,
        ItemAdded,
        ItemAdded,
        ResponseCreated,
        ItemAdded,
        AgentTextReceived,
        AudioReceived,
        CallerTextReceived,
        CallerTextReceived,
        AudioFinished,
        AgentTextReceived,
        ItemAdded,
        ResponseFinished,
    ]
    created, updated = messages[0].session, messages[1].session
    assert (created.input, created.output, created.expires_at) == (PCM16_24K, PCM16_24K, 1796022000.0)
    assert (updated.input, updated.output, updated.tools) == (PCMU, PCMU, frozenset({"get_weather"}))
    assert messages[10] == AudioReceived("resp_1", "item_a1", b"\xff\xff\xff\xff")
    used = Usage(audio_in=13, text_out=9, seconds=1.3)
    assert messages[12] == CallerTextReceived("item_u1", "Hi there", final=True, usage=used)
    assert messages[14] == AgentTextReceived("item_a1", "Hello, how can I help?", final=True)


def test_usage_is_read_by_kind_and_cached_tokens_stand_apart() -> None:
    done = wire.decode(frames("turn")[-2])
    assert isinstance(done, ResponseFinished)
    assert done.status is ResponseStatus.COMPLETED
    assert done.usage == Usage(text_in=55, audio_in=13, cached_text_in=64, text_out=30, audio_out=91)


def test_a_function_call_is_read_with_its_status() -> None:
    messages = list(map(wire.decode, frames("tool")))
    begun = FunctionCall("call_1", "get_weather", "", completed=False)
    ended = FunctionCall("call_1", "get_weather", '{"city":"Paris"}', completed=True)
    assert FunctionCallReceived("resp_2", begun) in messages
    assert FunctionCallReceived("resp_2", ended) in messages
    [done] = [message for message in messages if isinstance(message, ResponseFinished)]
    assert done.calls == (ended,)
    assert ItemAdded("item_o1", "call_1") in messages


def test_the_ends_of_responses_carry_their_reasons() -> None:
    ends = [m for m in map(wire.decode, frames("barge") + frames("misc")) if isinstance(m, ResponseFinished)]
    assert [(m.status, m.reason, m.error) for m in ends] == [
        (ResponseStatus.CANCELLED, "turn_detected", ""),
        (ResponseStatus.FAILED, "", "server_error"),
        (ResponseStatus.INCOMPLETE, "max_output_tokens", ""),
    ]


def test_the_code_of_a_failure_counts_before_its_type() -> None:
    details = {"type": "failed", "error": {"type": "insufficient_quota", "code": "rate_limit_exceeded"}}
    response = {"id": "r1", "status": "failed", "status_details": details, "output": []}
    message = wire.decode(orjson.dumps({"type": "response.done", "response": response}))
    assert isinstance(message, ResponseFinished)
    assert message.error == "rate_limit_exceeded"


def test_an_error_names_the_client_event_that_it_answers() -> None:
    errors = [m for m in map(wire.decode, frames("misc")) if isinstance(m, ErrorReported)]
    assert [(m.code, m.event_id) for m in errors] == [
        ("response_cancel_not_active", ""),
        ("conversation_already_has_active_response", "c-17"),
        ("input_audio_buffer_commit_empty", ""),
        ("session_expired", ""),
    ]


def test_a_failed_transcription_is_read() -> None:
    raw = orjson.dumps(
        {
            "type": "conversation.item.input_audio_transcription.failed",
            "item_id": "item_1",
            "content_index": 0,
            "error": {"code": "audio_unintelligible", "message": "…"},
        }
    )
    assert wire.decode(raw) == TranscriptionFailed("item_1", "audio_unintelligible")


@pytest.mark.parametrize("wire_format", [{"type": "audio/pcma"}, {"type": "audio/g722"}, None])
def test_a_format_that_we_do_not_know_is_not_guessed(wire_format: dict | None) -> None:
    session = {"type": "realtime", "audio": {"input": {"format": wire_format}}}
    message = wire.decode(orjson.dumps({"type": "session.updated", "session": session}))
    assert isinstance(message, SessionUpdated)
    known = wire_format == {"type": "audio/pcma"}
    assert message.session.input == (PCMA if known else None)
    assert message.session.output is None
    assert message.session.tools is None


@pytest.mark.parametrize("kind", ["response.sparkles.delta", "output_audio_buffer.started", "session.closed"])
def test_events_that_a_call_does_not_need_are_ignored(kind: str) -> None:
    assert wire.decode(orjson.dumps({"type": kind, "delta": {"any": ["thing"]}})) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"event_id":"e"}',
        b'{"type":7}',
        b'{"type":"response.done"}',
        b'{"type":"response.done","response":{"id":"r","status":"exploded"}}',
        b'{"type":"response.created","response":null}',
        b'{"type":"error","error":"no object"}',
        b'{"type":"response.output_audio.delta","response_id":1,"item_id":"i","delta":"AAAA"}',
        b'{"type":"response.output_audio.delta","event_id":"","response_id":"r","item_id":"\xff","a":0,"b":0,"delta":""}',
    ],
)
def test_a_broken_frame_is_an_error_of_the_wire(raw: bytes) -> None:
    assert wire.audio_delta(raw) is None
    with pytest.raises(wire.WireError):
        wire.decode(raw)


@settings(deadline=None)
@given(
    event=st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["response", "item", "error", "session", "id", "status", "output", "audio"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ),
    kind=st.sampled_from(sorted(SERVER_TYPES)),
)
def test_no_event_escapes_as_another_exception(event: object, kind: str) -> None:
    body = {**event, "type": kind} if isinstance(event, dict) else event
    with suppress(wire.WireError):
        wire.decode(orjson.dumps(body))


# What we say.


@pytest.mark.parametrize(
    "message",
    [
        CreateResponse("create-1"),
        CreateResponse("create-2", instructions="Greet the caller.", tools=False),
        CreateResponse("create-3", audio_only=True),
        CancelResponse("cancel-1", "resp_1"),
        TruncateItem("cut-1", "item_1", 1140),
        AddText("text-1", "item_text-1", "user", "DTMF 5 pressed"),
        AddText("text-2", "item_text-2", "system", "The transfer failed."),
        AddText("text-3", "item_text-3", "assistant", "earlier reply"),
        AnswerCall("answer-1", "call_1", '{"ok":true}'),
        UpdateSession("update-1", {"type": "realtime", "instructions": "x", "tools": []}),
    ],
)
def test_client_events_are_what_the_sdk_knows(message) -> None:
    event = json.loads(wire.encode(message))
    parsed = CLIENT_TYPES[event["type"]].model_validate(event)
    assert parsed.event_id == message.event_id
    assert parsed.model_extra == {}
    assert json.loads(parsed.model_dump_json(exclude_unset=True)) == event


@pytest.mark.report("BR-131")
def test_a_tool_result_is_a_string_of_json_in_a_function_call_output() -> None:
    output = '{"name":"Ann Example","plan":"gold"}'
    event = json.loads(wire.encode(AnswerCall("answer-1", "call_3", output)))
    assert event["item"] == {"type": "function_call_output", "call_id": "call_3", "output": output}


def test_text_beyond_ascii_is_sent_as_it_is() -> None:
    text = wire.encode(AddText("text-1", "item_text-1", "user", "Привет, Қазақстан"))
    assert "Привет, Қазақстан".encode() in text
