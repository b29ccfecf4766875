"""The session that each vendor is configured with: one agent, two shapes."""

from __future__ import annotations

import json

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.realtime import RealtimeSessionCreateRequest

from config.providers import OpenAISettings
from config.turns import TurnDetection
from config.voices import OPENAI
from providers.gemini import build_gemini_session_config
from providers.openai import build_openai_session_config
from providers.openai.config import build_openai_session_update, setup_warnings
from providers.types import PCM16_16K, PCMA, PCMU, SessionSetup
from tools.types import AgentToolDefinition, CallUpdate

LOOKUP = AgentToolDefinition(
    name="lookup_caller",
    description="Looks up the caller in the customer database.",
    parameters={
        "type": "object",
        "properties": {"phone_number": {"type": "string", "enum": ("+12125551234",)}},
        "required": ["phone_number"],
        "additionalProperties": False,
    },
)
END_CALL = AgentToolDefinition(
    name="end_call",
    description="Ends the current phone call.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
)


def setup(**more) -> SessionSetup:
    fields = {
        "prompt": "You answer the phone of a bakery.",
        "addendum": "## Tools\n\n### Ending the Call\n- Say goodbye.",
        "tools": (END_CALL, LOOKUP),
        "line": PCMU,
    }
    return SessionSetup(**{**fields, **more})


def openai(**more) -> OpenAISettings:
    return OpenAISettings.model_validate({"api_key": "sk-test", **more})


def wire_of_gemini(config: types.LiveConnectConfig) -> dict:
    return json.loads(config.model_dump_json(exclude_none=True, by_alias=True))


@pytest.mark.requirement("L-3")
def test_a_tool_has_the_flat_shape_of_openai() -> None:
    tools = build_openai_session_config(setup())["tools"]
    assert json.loads(json.dumps(tools)) == [
        {
            "type": "function",
            "name": "end_call",
            "description": "Ends the current phone call.",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        },
        {
            "type": "function",
            "name": "lookup_caller",
            "description": "Looks up the caller in the customer database.",
            "parameters": {
                "type": "object",
                "properties": {"phone_number": {"type": "string", "enum": ["+12125551234"]}},
                "required": ["phone_number"],
                "additionalProperties": False,
            },
        },
    ]


@pytest.mark.requirement("L-3")
def test_a_tool_is_a_function_declaration_of_gemini() -> None:
    assert wire_of_gemini(build_gemini_session_config(setup()))["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "end_call",
                    "description": "Ends the current phone call.",
                    "parametersJsonSchema": {
                        "type": "object",
                        "properties": {},
                        "additionalProperties": False,
                    },
                },
                {
                    "name": "lookup_caller",
                    "description": "Looks up the caller in the customer database.",
                    "parametersJsonSchema": {
                        "type": "object",
                        "properties": {"phone_number": {"type": "string", "enum": ["+12125551234"]}},
                        "required": ["phone_number"],
                        "additionalProperties": False,
                    },
                },
            ]
        }
    ]


@pytest.mark.report("BR-119")
def test_a_schema_with_any_keywords_reaches_gemini_as_it_is() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "q": {"type": ["string", "null"], "default": "", "pattern": "^.*$"},
            "mode": {"oneOf": [{"const": "a"}, {"const": "b"}]},
            "ref": {"$ref": "#/$defs/R"},
        },
        "$defs": {"R": {"type": "object"}},
    }
    config = build_gemini_session_config(setup(tools=(AgentToolDefinition("search", "Searches.", schema),)))
    [declaration] = wire_of_gemini(config)["tools"][0]["functionDeclarations"]
    assert declaration["parametersJsonSchema"] == schema
    assert "parameters" not in declaration


@pytest.mark.requirement("L-29")
@pytest.mark.parametrize(
    ("prompt", "addendum", "expected"),
    [
        ("Base.", "## Tools", "Base.\n\n## Tools"),
        ("Base.\n", "## Tools\n", "Base.\n\n\n## Tools\n"),
        ('Сәлем, "Gaz" & <b>', "### Қоңырау", 'Сәлем, "Gaz" & <b>\n\n### Қоңырау'),
        ("Base.", "", "Base."),
    ],
)
def test_both_vendors_get_the_prompt_and_the_addendum_byte_for_byte(prompt, addendum, expected) -> None:
    made = setup(prompt=prompt, addendum=addendum)
    instructions = build_openai_session_config(made)["instructions"]
    system_instruction = build_gemini_session_config(made).system_instruction
    assert isinstance(instructions, str)
    assert isinstance(system_instruction, str)
    assert instructions.encode() == system_instruction.encode() == expected.encode()


@pytest.mark.requirement("L-29")
@settings(deadline=None)
@given(prompt=st.text(), addendum=st.text(min_size=1))
def test_the_addendum_is_appended_alike_for_any_text(prompt: str, addendum: str) -> None:
    made = setup(prompt=prompt, addendum=addendum)
    openai, gemini = build_openai_session_config(made), build_gemini_session_config(made)
    assert openai["instructions"] == gemini.system_instruction == f"{prompt}\n\n{addendum}"


# OpenAI.


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (PCMU, {"type": "audio/pcmu"}),
        (PCMA, {"type": "audio/pcma"}),
        (PCM16_16K, {"type": "audio/pcm", "rate": 24000}),
    ],
)
def test_g711_passes_through_and_anything_else_is_24_khz(line, expected) -> None:
    """Fault 15: static, because the format was not what was assumed."""
    audio = build_openai_session_config(setup(line=line))["audio"]
    assert audio["input"]["format"] == audio["output"]["format"] == expected


def test_the_whole_session_is_as_the_sdk_types_it() -> None:
    """Fault 13: the beta's field names are refused."""
    made = setup(language="pt-BR", voice="cedar")
    config = build_openai_session_config(made, openai(turn_detection={"threshold": 0.6, "silence_ms": 400}))
    parsed = RealtimeSessionCreateRequest.model_validate(config)
    assert json.loads(parsed.model_dump_json(exclude_unset=True)) == json.loads(json.dumps(config))

    def nothing_unknown(model) -> None:
        assert not model.model_extra, model
        for name in model.model_fields_set:
            value = getattr(model, name)
            for each in value if isinstance(value, list) else [value]:
                if hasattr(each, "model_fields_set"):
                    nothing_unknown(each)

    nothing_unknown(parsed)
    assert config["audio"]["input"] == {
        "format": {"type": "audio/pcmu"},
        "noise_reduction": None,
        "transcription": {"model": "gpt-live-transcribe", "language": "pt"},
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.6,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 400,
            "idle_timeout_ms": None,
            "create_response": True,
            "interrupt_response": True,
        },
    }
    assert config["audio"]["output"]["voice"] == "cedar"
    assert config["output_modalities"] == ["audio"]


EVERYTHING = {
    "turn_detection": {"end_by": "meaning", "eagerness": "low"},
    "noise_reduction": {"type": "far_field", "strength": 0.5},
    "transcription_model": "gpt-transcribe",
    "transcription_keywords": ["Trunkline", "Müller"],
    "transcription_prompt": "Calls to a bakery.",
    "reasoning_effort": "low",
    "parallel_tool_calls": True,
    "max_output_tokens": 1024,
    "speed": 1.2,
}


def test_every_setting_of_the_operator_is_in_the_session_as_the_sdk_types_it() -> None:
    config = build_openai_session_config(setup(language="de-AT"), openai(**EVERYTHING))
    parsed = RealtimeSessionCreateRequest.model_validate(config)
    assert json.loads(parsed.model_dump_json(exclude_unset=True)) == json.loads(json.dumps(config))
    assert config["audio"]["input"] == {
        "format": {"type": "audio/pcmu"},
        "noise_reduction": {"type": "far_field", "strength": 0.5},
        "transcription": {
            "model": "gpt-transcribe",
            "language": "de",
            "keywords": ["Trunkline", "Müller"],
            "prompt": "Calls to a bakery.",
        },
        "turn_detection": {
            "type": "semantic_vad",
            "eagerness": "low",
            "create_response": True,
            "interrupt_response": True,
        },
    }
    assert config["audio"]["output"]["speed"] == 1.2
    assert config["reasoning"] == {"effort": "low"}
    assert config["parallel_tool_calls"] is True
    assert config["max_output_tokens"] == 1024


def test_what_is_not_set_is_left_out() -> None:
    """An older model refuses the whole session for a key that it does not know."""
    config = build_openai_session_config(setup())
    assert set(config) == {"type", "instructions", "output_modalities", "audio", "tools", "tool_choice"}
    assert set(config["audio"]["output"]) == {"format", "voice"}


@pytest.mark.parametrize("spoke", [False, True])
def test_an_update_keeps_the_operators_settings_of_listening(spoke: bool) -> None:
    first = build_openai_session_config(setup(), openai(**EVERYTHING))
    later = build_openai_session_update(
        setup(), CallUpdate(1, prompt="New."), openai(**EVERYTHING), spoke=spoke
    )
    assert later["audio"]["input"] == first["audio"]["input"]
    assert ("speed" in later["audio"]["output"]) is not spoke


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, ("server_vad", 0.6, 400, 9000)),
        ({}, ("server_vad", 0.6, 400, 9000)),
        ({"silence_ms": 800}, ("server_vad", 0.6, 800, 9000)),
        ({"threshold": 0.5, "idle_timeout_ms": None}, ("server_vad", 0.5, 400, None)),
        ({"end_by": "meaning"}, ("semantic_vad", None, None, None)),
    ],
)
def test_what_an_agent_says_of_turns_goes_before_the_provider(own: dict | None, expected: tuple) -> None:
    made = setup(turn_detection=None if own is None else TurnDetection.model_validate(own))
    provider = {"threshold": 0.6, "silence_ms": 400, "idle_timeout_ms": 9000}
    found = build_openai_session_config(made, openai(turn_detection=provider))["audio"]["input"][
        "turn_detection"
    ]
    keys = ("type", "threshold", "silence_duration_ms", "idle_timeout_ms")
    assert tuple(found.get(key) for key in keys) == expected


@pytest.mark.parametrize(
    ("language", "told"),
    [("it", "it"), ("de-DE", "de"), ("zh-Hant-TW", "zh"), ("PT-br", "pt"), ("fil-PH", None), (None, None)],
)
def test_the_transcriber_is_told_a_language_that_has_two_letters(language, told) -> None:
    """Any other would have the whole session refused."""
    config = build_openai_session_config(setup(language=language), openai())
    assert config["audio"]["input"]["transcription"].get("language") == told


def test_transcription_can_be_left_out() -> None:
    config = build_openai_session_config(setup(language="en"), openai(transcription_model=None))
    assert config["audio"]["input"]["transcription"] is None


@pytest.mark.parametrize("voice", OPENAI.names)
def test_a_known_voice_is_used(voice: str) -> None:
    config = build_openai_session_config(setup(voice=voice))
    assert config["audio"]["output"]["voice"] == voice
    assert setup_warnings(setup(voice=voice)) == []


@pytest.mark.parametrize("voice", ["Kore", "onyx", "Marin", ""])
def test_an_unknown_voice_is_replaced_with_a_warning(voice: str) -> None:
    """Fault 16: an unsupported name gives noise instead of speech, and no error."""
    assert build_openai_session_config(setup(voice=voice))["audio"]["output"]["voice"] == "marin"
    assert [warning.code for warning in setup_warnings(setup(voice=voice))] == ["voice_unknown"]


def test_a_custom_voice_is_named_by_its_id() -> None:
    config = build_openai_session_config(setup(voice="voice_abc"))
    assert config["audio"]["output"]["voice"] == {"id": "voice_abc"}


def test_a_description_that_is_too_long_is_cut_with_a_warning() -> None:
    """Fault 12: one long description and the whole session, its prompt too, is refused."""
    made = setup(tools=(AgentToolDefinition("long", "x" * 1025, {"type": "object"}),))
    [tool] = build_openai_session_config(made)["tools"]
    assert len(tool["description"]) == 1024
    assert set(tool) == {"type", "name", "description", "parameters"}
    assert [warning.code for warning in setup_warnings(made)] == ["tool_description_cut"]


def test_vendor_tools_that_do_not_exist_are_left_out_with_a_warning() -> None:
    made = setup(vendor_tools=("search", "url_context"))
    kinds = {tool["type"] for tool in build_openai_session_config(made)["tools"]}
    assert kinds == {"function"}
    assert [warning.code for warning in setup_warnings(made)] == ["vendor_tool_unavailable"] * 2


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (CallUpdate(1), {}),
        (CallUpdate(1, prompt="New."), {"instructions": "New.\n\n## Tools"}),
        (CallUpdate(1, tools=()), {"tools": []}),
        (CallUpdate(1, voice="ash"), {}),
        (CallUpdate(1, language="kk"), {}),
    ],
)
@pytest.mark.parametrize("spoke", [False, True])
def test_an_update_names_what_changes_and_all_of_the_audio(update: CallUpdate, expected: dict, spoke) -> None:
    """Fault 14: ``cannot_update_voice``, because the voice was repeated after it had been heard."""
    changed = SessionSetup(
        update.prompt or "Base.",
        "## Tools",
        update.tools if update.tools is not None else (END_CALL,),
        PCMU,
        update.voice or "marin",
        update.language or "en",
    )
    session = build_openai_session_update(
        changed, update, openai(transcription_model="gpt-transcribe"), spoke=spoke
    )
    audio = session.pop("audio")
    assert session == {"type": "realtime", **expected}
    assert audio["input"]["transcription"] == {"model": "gpt-transcribe", "language": changed.language}
    voice = {} if spoke else {"voice": changed.voice}
    assert audio["output"] == {"format": {"type": "audio/pcmu"}, **voice}
