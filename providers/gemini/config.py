"""The set-up of a Gemini Live session for a call, in the SDK's own types."""

from __future__ import annotations

from google.genai import types

from config.voices import GEMINI
from providers.types import SessionSetup
from tools.types import AgentToolDefinition

SEARCH_TOKENS = frozenset({"search", "web_search", "google_search"})
"""Vendor tools that Live has; the socket is closed on any other, so they are left out."""


def build_gemini_session_config(setup: SessionSetup) -> types.LiveConnectConfig:
    """
    Build the configuration of ``client.aio.live.connect``.

    ``system_instruction`` is the prompt and the tools' addendum (L-29), byte for byte the
    ``instructions`` of OpenAI. A voice that Gemini does not have is left to its default. The
    native-audio models choose the language of their speech themselves; ``setup.language`` is
    a hint for the transcript of the caller.
    """
    languages = [setup.language] if setup.language else None
    return types.LiveConnectConfig(
        response_modalities=[types.Modality.AUDIO],
        speech_config=_speech(setup.voice),
        system_instruction=setup.instructions,
        tools=_tools(setup) or None,
        input_audio_transcription=types.AudioTranscriptionConfig(language_codes=languages),
        output_audio_transcription=types.AudioTranscriptionConfig(),
        session_resumption=types.SessionResumptionConfig(),
        # Without compression an audio session ends after a quarter of an hour.
        context_window_compression=types.ContextWindowCompressionConfig(sliding_window=types.SlidingWindow()),
    )


def _speech(voice: str | None) -> types.SpeechConfig | None:
    if voice is None or voice not in GEMINI:
        return None
    prebuilt = types.PrebuiltVoiceConfig(voice_name=voice)
    return types.SpeechConfig(voice_config=types.VoiceConfig(prebuilt_voice_config=prebuilt))


def _tools(setup: SessionSetup) -> types.ToolListUnion:
    tools: types.ToolListUnion = []
    if setup.tools:
        tools.append(types.Tool(function_declarations=[_function(tool) for tool in setup.tools]))
    if SEARCH_TOKENS.intersection(setup.vendor_tools):
        tools.append(types.Tool(google_search=types.GoogleSearch()))
    return tools


def _function(tool: AgentToolDefinition) -> types.FunctionDeclaration:
    # parameters_json_schema carries a closed schema unchanged; ``parameters`` is a subset of OpenAPI.
    return types.FunctionDeclaration(
        name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
    )
