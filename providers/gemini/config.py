"""The set-up of a Gemini Live session for a call, in the SDK's own types."""

from __future__ import annotations

from google.genai import types

from config.providers import GeminiTurnDetection
from config.voices import GEMINI
from providers.gemini.history import account_of
from providers.gemini.models import MODEL, History, Profile, profile_of
from providers.types import ProviderWarning, SessionSetup
from tools.types import AgentToolDefinition, JsonValue

SEARCH_TOKENS = frozenset({"search", "web_search", "google_search"})
"""Vendor tools that Live has; the socket is closed on any other, so they are left out."""
SENSITIVE_BELOW = 0.5
"""A threshold below this is what Gemini calls a high sensitivity."""
LEAST_SILENCE_MS = 100
_START = {
    "low": types.StartSensitivity.START_SENSITIVITY_LOW,
    "high": types.StartSensitivity.START_SENSITIVITY_HIGH,
}
_END = {"low": types.EndSensitivity.END_SENSITIVITY_LOW, "high": types.EndSensitivity.END_SENSITIVITY_HIGH}


def build_gemini_session_config(
    setup: SessionSetup,
    *,
    profile: Profile | None = None,
    turn_detection: GeminiTurnDetection | None = None,
    transcribes: bool = True,
    handle: str = "",
) -> types.LiveConnectConfig:
    """
    Build the configuration of ``client.aio.live.connect``.

    ``system_instruction`` is the prompt and the tools' addendum (L-29), byte for byte the
    ``instructions`` of OpenAI. A voice that Gemini does not have is left to its default. The
    native-audio models choose the language of their speech themselves; ``setup.language`` is
    a hint for the transcript of the caller.

    Args:
        setup: What the call wants.
        profile: What the model can do; the default model's if left out.
        turn_detection: How the ends of the caller's turn are found.
        transcribes: Whether the caller's words are written down.
        handle: Goes on with this session, which knows what was said.
    """
    known = profile or profile_of(MODEL, vertex=False)
    languages = [setup.language] if setup.language else None
    announced = known.history is History.OPENING and setup.history and not handle
    return types.LiveConnectConfig(
        response_modalities=[types.Modality.AUDIO],
        speech_config=_speech(setup.voice),
        system_instruction=instructions(setup, known),
        tools=_tools(setup, known) or None,
        realtime_input_config=_listening(_turns(setup, turn_detection or GeminiTurnDetection())),
        input_audio_transcription=(
            types.AudioTranscriptionConfig(language_codes=languages) if transcribes else None
        ),
        output_audio_transcription=types.AudioTranscriptionConfig(),
        session_resumption=types.SessionResumptionConfig(handle=handle or None),
        # Without compression an audio session ends after a quarter of an hour.
        context_window_compression=types.ContextWindowCompressionConfig(sliding_window=types.SlidingWindow()),
        history_config=types.HistoryConfig(initial_history_in_client_content=True) if announced else None,
    )


def instructions(setup: SessionSetup, profile: Profile) -> str:
    """Return the system instruction; with the call so far, for a model that is told of it no other way."""
    account = account_of(setup.history) if profile.history is History.INSTRUCTIONS else ""
    return f"{setup.instructions}\n\n{account}" if account else setup.instructions


def tools_json(setup: SessionSetup, profile: Profile) -> JsonValue:
    """Return the tools as the wire has them, for a change in mid-session."""
    tools = types.LiveConnectConfig(tools=_tools(setup, profile))
    made: JsonValue = tools.model_dump(mode="json", by_alias=True, exclude_none=True).get("tools", [])
    return made


def setup_warnings(setup: SessionSetup) -> list[ProviderWarning]:
    """List what of ``setup`` this provider leaves out."""
    warnings = [
        ProviderWarning("vendor_tool_unavailable", f"{token} does not exist in Gemini Live")
        for token in setup.vendor_tools
        if token not in SEARCH_TOKENS
    ]
    if setup.voice is not None and setup.voice not in GEMINI:
        warnings.append(
            ProviderWarning("voice_unknown", f"{setup.voice} is no Gemini voice: its default is used")
        )
    return warnings


def _turns(setup: SessionSetup, settings: GeminiTurnDetection) -> GeminiTurnDetection:
    """Return how the ends of a turn are found: what the agent says of it, over the provider's settings."""
    own = setup.turn_detection
    if own is None:
        return settings
    said = {
        "start_sensitivity": ("threshold", "high" if own.threshold < SENSITIVE_BELOW else "low"),
        "end_sensitivity": ("eagerness", "high" if own.eagerness == "high" else "low"),
        "silence_ms": ("silence_ms", max(own.silence_ms, LEAST_SILENCE_MS)),
    }
    changed = {key: value for key, (word, value) in said.items() if word in own.model_fields_set}
    return settings.model_copy(update=changed)


def _listening(turns: GeminiTurnDetection) -> types.RealtimeInputConfig:
    return types.RealtimeInputConfig(
        automatic_activity_detection=types.AutomaticActivityDetection(
            start_of_speech_sensitivity=_START[turns.start_sensitivity],
            end_of_speech_sensitivity=_END[turns.end_sensitivity],
            prefix_padding_ms=turns.prefix_padding_ms,
            silence_duration_ms=turns.silence_ms,
        )
    )


def _speech(voice: str | None) -> types.SpeechConfig | None:
    if voice is None or voice not in GEMINI:
        return None
    prebuilt = types.PrebuiltVoiceConfig(voice_name=voice)
    return types.SpeechConfig(voice_config=types.VoiceConfig(prebuilt_voice_config=prebuilt))


def _tools(setup: SessionSetup, profile: Profile) -> types.ToolListUnion:
    tools: types.ToolListUnion = []
    if setup.tools:
        tools.append(types.Tool(function_declarations=[_function(tool, profile) for tool in setup.tools]))
    if SEARCH_TOKENS.intersection(setup.vendor_tools):
        tools.append(types.Tool(google_search=types.GoogleSearch()))
    return tools


def _function(tool: AgentToolDefinition, profile: Profile) -> types.FunctionDeclaration:
    # parameters_json_schema carries a closed schema unchanged; ``parameters`` is a subset of OpenAPI.
    return types.FunctionDeclaration(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=dict(tool.parameters),
        behavior=types.Behavior.NON_BLOCKING if profile.declares_async else None,
    )
