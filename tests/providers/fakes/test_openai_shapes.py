"""Client events against the SDK's own parameter types."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.openai_shapes import Problem, check_event


def session(**fields):
    return {"type": "session.update", "session": {"type": "realtime", **fields}}


GOOD = [
    {"type": "input_audio_buffer.append", "audio": "AAAA"},
    {"type": "input_audio_buffer.commit", "event_id": "e1"},
    session(audio={"input": {"format": {"type": "audio/pcmu"}}}),
    session(audio={"input": {"noise_reduction": None, "transcription": None}}),
    session(audio={"input": {"turn_detection": None}, "output": {"voice": {"id": "voice_1"}, "speed": 1}}),
    session(tool_choice={"type": "function", "name": "x"}, max_output_tokens="inf", truncation="auto"),
    session(tools=[{"type": "function", "name": "x", "parameters": {"type": "object", "anything": [1]}}]),
    session(tools=[{"type": "mcp", "server_label": "crm", "server_url": "https://a.b"}]),
    session(truncation={"type": "retention_ratio", "retention_ratio": 0.8}),
    {"type": "response.create", "response": {"input": [{"type": "item_reference", "id": "item_1"}]}},
    {"type": "conversation.item.create", "previous_item_id": None, "item": {
        "type": "message", "role": "system", "content": [{"type": "input_text", "text": "x"}]}},
]  # fmt: skip


@pytest.mark.parametrize("event", GOOD, ids=str)
def test_what_the_sdk_allows_is_allowed(event):
    assert check_event(event) is None


BAD = [
    ({}, "missing_required_parameter", "type"),
    ({"type": 5}, "missing_required_parameter", "type"),
    ({"type": "session.upgrade"}, "invalid_value", "type"),
    ({"type": "input_audio_buffer.append"}, "missing_required_parameter", "audio"),
    ({"type": "input_audio_buffer.append", "audio": 1}, "invalid_type", "audio"),
    ({"type": "session.update", "session": {}}, "missing_required_parameter", "session.type"),
    ({"type": "session.update", "session": []}, "invalid_type", "session"),
    (session(input_audio_format="g711_ulaw"), "unknown_parameter", "session.input_audio_format"),
    (
        session(audio={"input": {"format": {"type": "audio/pcmu", "rate": 8000}}}),
        "unknown_parameter",
        "session.audio.input.format.rate",
    ),
    (
        session(audio={"output": {"format": {"type": "audio/pcm", "rate": 16000}}}),
        "invalid_value",
        "session.audio.output.format.rate",
    ),
    (
        session(audio={"input": {"format": {"type": "audio/opus"}}}),
        "invalid_value",
        "session.audio.input.format.type",
    ),
    (
        session(tools=[{"type": "function", "name": "x", "strict": True}]),
        "unknown_parameter",
        "session.tools[0].strict",
    ),
    (session(tool_choice="maybe"), "invalid_value", "session.tool_choice"),
    (session(parallel_tool_calls="yes"), "invalid_type", "session.parallel_tool_calls"),
    (session(output_modalities=["video"]), "invalid_value", "session.output_modalities[0]"),
    (session(output_modalities="audio"), "invalid_type", "session.output_modalities"),
    (session(instructions=None), "invalid_type", "session.instructions"),
    (session(max_output_tokens=True), "invalid_value", "session.max_output_tokens"),
    ({"type": "response.create", "response": {"metadata": {"a": 1}}}, "invalid_type", "response.metadata.a"),
    (
        {"type": "conversation.item.create", "item": {"type": "message", "role": "robot", "content": []}},
        "invalid_value",
        "item.role",
    ),
    (
        {"type": "conversation.item.truncate", "item_id": "i", "content_index": 0, "audio_end_ms": 1.5},
        "invalid_type",
        "audio_end_ms",
    ),
]


@pytest.mark.parametrize(("event", "code", "param"), BAD, ids=[f"{code} {param}" for _, code, param in BAD])
def test_what_the_sdk_forbids_is_refused_by_name(event, code, param):
    problem = check_event(event)
    assert (problem.code, problem.param) == (code, param)
    assert problem.message


def test_every_client_event_of_the_golden_transcripts_is_allowed(golden):
    events = [event for side, event in golden if side == "C"]
    assert len(events) > 10
    assert [check_event(event) for event in events] == [None] * len(events)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "session", "item", "audio", "role", "content", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
KINDS = ["session.update", "conversation.item.create", "response.create", "response.cancel"]


@settings(deadline=None)
@given(
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(["session", "item", "response", "event_id"]), JSON),
)
def test_any_json_gets_an_answer_and_never_an_exception(kind, fields):
    problem = check_event({"type": kind, **fields})
    assert problem is None or isinstance(problem, Problem)
