"""
The session object of OpenAI Realtime (GA) for a call.

``session.update`` is atomic: one field that the service does not know and nothing of it is
applied, so that a call would run without its prompt. Only documented keys are written here,
and what cannot be used is left out with a warning instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from config.providers import NoiseReduction, OpenAISettings
from config.turns import TurnDetection
from config.voices import OPENAI
from providers.types import PCM16_24K, PCMA, PCMU, AudioFormat, ProviderWarning, SessionSetup
from tools.types import AgentToolDefinition, CallUpdate, JsonValue

DEFAULTS = OpenAISettings(api_key=SecretStr("none"))
"""For the shape of a session alone, which names no key."""
DESCRIPTION_LIMIT = 1024
"""Characters of a tool's description; one more and the service refuses the whole session."""

Session = dict[str, JsonValue]


def build_openai_session_config(setup: SessionSetup, settings: OpenAISettings = DEFAULTS) -> Session:
    """
    Build the whole ``session`` of the first ``session.update``.

    The line's G.711 passes through in both directions; any other line gets PCM16 at 24 kHz.
    ``instructions`` is the prompt and the tools' addendum (L-29). What is not set is left out, since an
    older model refuses a whole session for a key that it does not know.

    Args:
        setup: What the call wants.
        settings: What the operator wants of this provider.
    """
    wire_format = audio_format(setup.line)
    output: Session = {"format": wire_format, "voice": voice(setup.voice) or OPENAI.default}
    if settings.speed != 1.0:
        output["speed"] = settings.speed
    session: Session = {
        "type": "realtime",
        "instructions": setup.instructions,
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": wire_format,
                "noise_reduction": noise_reduction(settings.noise_reduction),
                "transcription": transcription(settings, setup.language),
                "turn_detection": turn_detection(turns(setup, settings)),
            },
            "output": output,
        },
        "tools": [function_tool(tool) for tool in setup.tools],
        "tool_choice": "auto",
    }
    if settings.reasoning_effort is not None:
        session["reasoning"] = {"effort": settings.reasoning_effort}
    if settings.parallel_tool_calls is not None:
        session["parallel_tool_calls"] = settings.parallel_tool_calls
    if settings.max_output_tokens is not None:
        session["max_output_tokens"] = settings.max_output_tokens
    return session


def build_openai_session_update(
    setup: SessionSetup, update: CallUpdate, settings: OpenAISettings = DEFAULTS, *, spoke: bool = False
) -> Session:
    """
    Build the part of a session that ``update`` names, and all of its audio.

    The audio is repeated because a server that takes a partial update for a new one falls back to its
    defaults: 24 kHz PCM, which a telephone hears as noise. Only the voice is not, once it was heard: the
    server refuses the whole update then, though the voice is the same; nor the speed, which it takes only
    while nothing is said.

    Args:
        setup: What the call wants, with the update already in it.
        update: Says which parts changed.
        settings: As in the first update.
        spoke: Whether the model has said anything.
    """
    whole = build_openai_session_config(setup, settings)
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


def turns(setup: SessionSetup, settings: OpenAISettings) -> TurnDetection:
    """Return how the end of a turn is found: the agent's words over the provider's."""
    own = setup.turn_detection
    return settings.turn_detection if own is None else own.over(settings.turn_detection)


def turn_detection(turns: TurnDetection) -> JsonValue:
    """Return the wire's form, with everything said: the service's own defaults are not as documented."""
    if turns.end_by == "meaning":
        return {
            "type": "semantic_vad",
            "eagerness": turns.eagerness,
            "create_response": True,
            "interrupt_response": True,
        }
    return {
        "type": "server_vad",
        "threshold": turns.threshold,
        "prefix_padding_ms": turns.prefix_padding_ms,
        "silence_duration_ms": turns.silence_ms,
        "idle_timeout_ms": turns.idle_timeout_ms,
        "create_response": True,
        "interrupt_response": True,
    }


def noise_reduction(settings: NoiseReduction | None) -> JsonValue:
    return None if settings is None else {"type": settings.type, "strength": settings.strength}


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


def transcription(settings: OpenAISettings, language: str | None) -> JsonValue:
    """
    Return the transcription settings; a language such as ``pt-BR`` becomes ISO-639-1.

    A language that has no code of two letters is left out: the service refuses a session with another one.
    """
    if settings.transcription_model is None:
        return None
    wanted: Session = {"model": settings.transcription_model}
    primary = (language or "").partition("-")[0].lower()
    if len(primary) == 2:
        wanted["language"] = primary
    if settings.transcription_keywords:
        wanted["keywords"] = list(settings.transcription_keywords)
    if settings.transcription_prompt is not None:
        wanted["prompt"] = settings.transcription_prompt
    return wanted


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
