"""Client messages of Gemini Live: names, spellings and types."""

import json

import pytest
from google import genai
from google.genai import _common, _live_converters, types
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.gemini_shapes import MAX_REASON, Refused, read_message


def refusal(message):
    with pytest.raises(Refused) as refused:
        read_message(message)
    assert refused.value.code == 1007
    return refused.value.reason


@pytest.mark.parametrize(
    "message",
    [
        {"realtime_input": {"audio": {"data": "AAAA", "mime_type": "audio/pcm;rate=16000"}}},
        {"realtimeInput": {"audio": {"data": "AAAA", "mimeType": "audio/pcm;rate=16000"}}},
        {"realtime_input": {"audio": {"data": "AAAA", "mimeType": "audio/pcm;rate=16000"}}},
    ],
)
def test_both_spellings_are_one_message(message):
    wanted = {"realtimeInput": {"audio": {"data": "AAAA", "mimeType": "audio/pcm;rate=16000"}}}
    assert read_message(message) == wanted


def test_data_keeps_its_own_names():
    schema = {"type": "object", "properties": {"first_name": {"type": "string", "min_length": 1}}}
    function = {"name": "x", "parameters_json_schema": schema}
    read = read_message({"setup": {"tools": [{"function_declarations": [function]}]}})
    assert read["setup"]["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == schema
    answer = {"id": "1", "name": "x", "response": {"first_name": "Ann", "a": {"b_c": [1, None]}}}
    read = read_message({"tool_response": {"function_responses": [answer]}})
    assert read["toolResponse"]["functionResponses"][0]["response"] == answer["response"]


def test_names_of_properties_are_data_and_their_schemas_are_messages():
    parameters = {"type": "object", "properties": {"first_name": {"type": "STRING", "max_length": "20"}}}
    function = {"name": "x", "parameters": parameters}
    read = read_message({"setup": {"tools": [{"functionDeclarations": [function]}]}})
    [declared] = read["setup"]["tools"][0]["functionDeclarations"]
    assert declared["parameters"] == {
        "type": "OBJECT", "properties": {"first_name": {"type": "STRING", "maxLength": 20}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ([], "invalid argument"),
        ({}, "not 0"),
        ({"setup": {}, "client_content": {}}, "not 2"),
        ({"hello": {}}, 'Unknown name "hello": Cannot find field.'),
        ({"setup": {"session": {}}}, "Unknown name \"session\" at 'setup'"),
        ({"setup": {"generation_config": {"voice": "Kore"}}}, "at 'setup.generation_config'"),
        ({"setup": {"systemInstruction": "You are"}}, "Invalid value at 'setup.systemInstruction'"),
        ({"setup": {"tools": {}}}, "Invalid value at 'setup.tools'"),
        ({"setup": {"labels": []}}, "Invalid value at 'setup.labels'"),
        (
            {"clientContent": {"turnComplete": "yes"}},
            "Invalid value at 'clientContent.turnComplete' (TYPE_BOOL)",
        ),
        ({"realtimeInput": {"text": 5}}, "(TYPE_STR)"),
        ({"setup": {"generationConfig": {"temperature": "hot"}}}, "(TYPE_DOUBLE)"),
        ({"setup": {"generationConfig": {"maxOutputTokens": 1.5}}}, "(TYPE_INT64)"),
        ({"setup": {"generationConfig": {"responseModalities": ["SOUND"]}}}, "responseModalities[0]"),
    ],
)
def test_what_the_service_does_not_know_is_refused_with_its_place(message, says):
    assert says in refusal(message)


def test_a_reason_fits_into_a_close_frame():
    assert len(refusal({"setup": {"ä" * 300: 1}}).encode()) <= MAX_REASON


def test_null_is_nothing():
    assert read_message({"setup": {"model": "m", "tools": None}}) == {"setup": {"model": "m"}}


def test_what_the_sdk_makes_of_a_configuration_is_read():
    """Its mixture of both spellings is the real one."""
    config = types.LiveConnectConfig(
        response_modalities=["AUDIO"],
        temperature=0.7,
        speech_config={"voice_config": {"prebuilt_voice_config": {"voice_name": "Kore"}}},
        system_instruction=types.Content(parts=[types.Part(text="Hello")]),
        tools=[
            types.Tool(function_declarations=[{"name": "x", "parameters_json_schema": {"a_b": 1}}]),
            types.Tool(google_search=types.GoogleSearch()),
        ],
        realtime_input_config={"automatic_activity_detection": {"silence_duration_ms": 500}},
        session_resumption={"handle": "h"},
        context_window_compression={"sliding_window": {"target_tokens": 50_000}},
        input_audio_transcription={"language_codes": ["de-DE"]},
        history_config={"initial_history_in_client_content": True},
    )
    client = genai.Client(api_key="x")
    wire = _live_converters._LiveConnectParameters_to_mldev(
        api_client=client._api_client,
        from_object=types.LiveConnectParameters(model="models/m", config=config).model_dump(
            exclude_none=True
        ),
    )
    read = read_message({"setup": json.loads(json.dumps(_common.convert_to_dict(wire["setup"])))})["setup"]
    assert read["generationConfig"]["speechConfig"]["voiceConfig"]["prebuiltVoiceConfig"] == {
        "voiceName": "Kore"
    }
    assert read["realtimeInputConfig"] == {"automaticActivityDetection": {"silenceDurationMs": 500}}
    assert read["contextWindowCompression"]["slidingWindow"] == {"targetTokens": 50_000}
    assert read["historyConfig"] == {"initialHistoryInClientContent": True}
    functions = [each for tool in read["tools"] for each in tool.get("functionDeclarations", ())]
    assert functions == [{"name": "x", "parametersJsonSchema": {"a_b": 1}}]


NAMES = st.sampled_from(
    [
        "setup",
        "realtime_input",
        "clientContent",
        "tools",
        "model",
        "audio",
        "data",
        "turns",
        "parts",
        "text",
        "x",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, max_examples=100)
@given(JSON)
def test_anything_is_read_or_refused(value):
    try:
        fields = len(read_message(value))
    except Refused:
        return
    assert fields == 1
