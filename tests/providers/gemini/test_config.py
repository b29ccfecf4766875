"""The set-up of a Gemini Live session, as the SDK writes it to the wire."""

from __future__ import annotations

import pytest
from google.genai import Client, _common, _live_converters

from config.providers import GeminiTurnDetection
from config.turns import TurnDetection
from providers.gemini import build_gemini_session_config
from providers.types import PCMU, SessionSetup
from tools.types import AgentToolDefinition

TOOL = AgentToolDefinition("end_call", "Ends the current phone call.", {"type": "object", "properties": {}})


def wire(**more) -> dict:
    """The ``setup`` message for Google AI, made by the SDK's own converter."""
    made = SessionSetup(**{"prompt": "P", "addendum": "A", "tools": (TOOL,), "line": PCMU, **more})
    config = build_gemini_session_config(made).model_dump(exclude_none=True)
    message = _live_converters._LiveConnectParameters_to_mldev(
        api_client=Client(api_key="no-key")._api_client,
        from_object={"model": "models/gemini-3.8-live", "config": config},
    )
    return _common.convert_to_dict(message)["setup"]


def test_the_sdk_writes_the_setup_for_google_ai() -> None:
    message = wire(language="kk-KZ", voice="Kore")
    assert message["generationConfig"]["responseModalities"] == ["AUDIO"]
    assert message["generationConfig"]["speechConfig"]["voice_config"] == {
        "prebuilt_voice_config": {"voice_name": "Kore"}
    }
    assert message["systemInstruction"]["parts"] == [{"text": "P\n\nA"}]
    assert message["inputAudioTranscription"]["language_codes"] == ["kk-KZ"]
    assert message["outputAudioTranscription"] == {}
    assert message["sessionResumption"] == {}
    assert message["contextWindowCompression"] == {"sliding_window": {}}


def test_without_tools_the_setup_names_none() -> None:
    assert "tools" not in wire(tools=())


@pytest.mark.parametrize("token", ["search", "web_search", "google_search"])
def test_search_is_googles_own(token: str) -> None:
    assert wire(tools=(), vendor_tools=(token, "search"))["tools"] == [{"googleSearch": {}}]


@pytest.mark.parametrize("token", ["url_context", "code_execution", "file_search", "maps", "unheard_of"])
def test_what_live_does_not_have_is_left_out(token: str) -> None:
    assert "tools" not in wire(tools=(), vendor_tools=(token,))


@pytest.mark.parametrize("voice", ["marin", "kore", "", None])
def test_a_voice_of_another_vendor_is_left_to_the_default(voice: str | None) -> None:
    assert "speechConfig" not in wire(voice=voice)["generationConfig"]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, ("LOW", "LOW", 900)),
        ({}, ("LOW", "LOW", 900)),
        ({"threshold": 0.3}, ("HIGH", "LOW", 900)),
        ({"threshold": 0.7}, ("LOW", "LOW", 900)),
        ({"eagerness": "high"}, ("LOW", "HIGH", 900)),
        ({"eagerness": "low", "silence_ms": 400}, ("LOW", "LOW", 400)),
        ({"silence_ms": 60}, ("LOW", "LOW", 100)),
    ],
)
def test_what_an_agent_says_of_turns_goes_before_the_provider(own: dict | None, expected: tuple) -> None:
    turns = None if own is None else TurnDetection.model_validate(own)
    made = SessionSetup("P", "A", (TOOL,), PCMU, turn_detection=turns)
    config = build_gemini_session_config(made, turn_detection=GeminiTurnDetection(silence_ms=900))
    found = config.realtime_input_config.automatic_activity_detection
    assert found.start_of_speech_sensitivity.value == f"START_SENSITIVITY_{expected[0]}"
    assert found.end_of_speech_sensitivity.value == f"END_SENSITIVITY_{expected[1]}"
    assert found.silence_duration_ms == expected[2]
