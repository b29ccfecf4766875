"""
The session object of OpenAI Realtime (GA) for a call.

``session.update`` is atomic: one field that the service does not know and nothing of it is
applied, so that a call would run without its prompt. Only documented keys are written here,
and what cannot be used is left out with a warning instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from config.providers import OpenAISettings, TurnDetection
from config.voices import OPENAI
from providers.types import PCM16_24K, PCMA, PCMU, AudioFormat, ProviderWarning, SessionSetup
from tools.types import AgentToolDefinition, CallUpdate, JsonValue

DEFAULT_TRANSCRIPTION_MODEL = OpenAISettings.model_fields["transcription_model"].default
DESCRIPTION_LIMIT = 1024
"""Characters of a tool's description; one more and the service refuses the whole session."""
_PREFIX_PADDING_MS = 300

Session = dict[str, JsonValue]


def build_openai_session_config(
    setup: SessionSetup,
    *,
    turn_detection: TurnDetection | None = None,
    transcription_model: str | None = DEFAULT_TRANSCRIPTION_MODEL,
) -> Session:
    """
    Build the whole ``session`` of the first ``session.update``.

    The line's G.711 passes through in both directions; any other line gets PCM16 at 24 kHz.
    ``instructions`` is the prompt and the tools' addendum (L-29).

    Args:
        setup: What the call wants.
        turn_detection: How the end of the caller's turn is found.
        transcription_model: Writes down the caller; ``None`` for no transcripts.
    """
    turns = turn_detection or TurnDetection()
    wire_format = audio_format(setup.line)
    return {
        "type": "realtime",
        "instructions": setup.instructions,
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": wire_format,
                "noise_reduction": None,
                "transcription": transcription(transcription_model, setup.language),
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": turns.threshold,
                    "prefix_padding_ms": _PREFIX_PADDING_MS,
                    "silence_duration_ms": turns.silence_ms,
                    "create_response": True,
                    "interrupt_response": True,
                },
            },
            "output": {"format": wire_format, "voice": voice(setup.voice) or OPENAI.default},
        },
        "tools": [function_tool(tool) for tool in setup.tools],
        "tool_choice": "auto",
    }


def build_openai_session_update(
    setup: SessionSetup,
    update: CallUpdate,
    *,
    turn_detection: TurnDetection | None = None,
    transcription_model: str | None,
    spoke: bool = False,
) -> Session:
    """
    Build the part of a session that ``update`` names, and all of its audio.

    The audio is repeated because a server that takes a partial update for a new one falls back to its
    defaults: 24 kHz PCM, which a telephone hears as noise. Only the voice is not, once it was heard: the
    server refuses the whole update then, though the voice is the same.

    Args:
        setup: What the call wants, with the update already in it.
        update: Says which parts changed.
        turn_detection: As in the first update.
        transcription_model: As in the first update.
        spoke: Whether the model has said anything.
    """
    whole = build_openai_session_config(
        setup, turn_detection=turn_detection, transcription_model=transcription_model
    )
    audio = whole["audio"]
    assert isinstance(audio, dict)
    if spoke:
        audio["output"] = {"format": audio_format(setup.line)}
    session: Session = {"type": "realtime", "audio": audio}
    if update.prompt is not None:
        session["instructions"] = whole["instructions"]
    if update.tools is not None:
        session["tools"] = whole["tools"]
    return session


def setup_warnings(setup: SessionSetup) -> list[ProviderWarning]:
    """List what of ``setup`` this provider leaves out or changes."""
    warnings = [
        ProviderWarning("vendor_tool_unavailable", f"{token} does not exist in OpenAI Realtime")
        for token in setup.vendor_tools
    ]
    if setup.voice is not None and voice(setup.voice) is None:
        warnings.append(
            ProviderWarning("voice_unknown", f"{setup.voice} is no OpenAI voice: {OPENAI.default} is used")
        )
    warnings += (
        ProviderWarning(
            "tool_description_cut",
            f"{tool.name}: OpenAI takes {DESCRIPTION_LIMIT} characters of a description",
        )
        for tool in setup.tools
        if len(tool.description) > DESCRIPTION_LIMIT
    )
    return warnings


def audio_format(line: AudioFormat) -> JsonValue:
    """Return the wire's name of the format for a line."""
    if line == PCMU:
        return {"type": "audio/pcmu"}
    if line == PCMA:
        return {"type": "audio/pcma"}
    return {"type": "audio/pcm", "rate": PCM16_24K.rate}


def voice(name: str | None) -> JsonValue:
    """Return the wire's form of a voice, ``None`` for one that does not exist."""
    if name is None:
        return None
    if OPENAI.is_custom(name):
        return {"id": name}
    return name if name in OPENAI else None


def transcription(model: str | None, language: str | None) -> JsonValue:
    """Return the transcription settings; a language such as ``pt-BR`` becomes ISO-639-1."""
    if model is None:
        return None
    return {"model": model, "language": language.split("-")[0].lower()} if language else {"model": model}


def function_tool(tool: AgentToolDefinition) -> JsonValue:
    """Return a tool in the flat form of Realtime, with the four known keys and no other."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description[:DESCRIPTION_LIMIT],
        "parameters": _plain(tool.parameters),
    }


def _plain(value: JsonValue) -> JsonValue:
    """Copy a JSON value into dicts and lists, which every serializer knows."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
