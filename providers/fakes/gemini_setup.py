"""
The first message of a Gemini Live session: what it asks for, and why the service would refuse it. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from providers.fakes.gemini_models import (
    NATIVE_TOOLS,
    VOICES,
    Backend,
    Behavior,
    Model,
    bare_name,
    find_model,
)
from providers.fakes.gemini_shapes import Json, JsonView, Refused
from providers.fakes.vad import VadSettings

INVALID = "Request contains an invalid argument."
UNSUPPORTED = f"Operation is {'not'} implemented, or supported, or enabled."
_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_MAX_MS = 60_000
_ONSET_MS = 60
_START_THRESHOLD = {"START_SENSITIVITY_HIGH": 0.4, "START_SENSITIVITY_LOW": 0.6}
_END_SILENCE_MS = {"END_SENSITIVITY_HIGH": 300, "END_SENSITIVITY_LOW": 800}
"""The service asks a model here; an energy detector cannot."""
_STUDIO_ONLY = ("labels", "historyConfig")
_VERTEX_ONLY = ("explicitVadSignal",)


@dataclass(frozen=True, slots=True)
class Setup:
    """A session's configuration, as the service understands it."""

    backend: Backend
    name: str
    """The model's own name."""
    model: Model
    instructions: str = ""
    tools: Mapping[str, Behavior] = field(default_factory=dict)
    searches: bool = False
    """Whether the model may ask Google."""
    vad: VadSettings | None = VadSettings()  # noqa: RUF009
    """``None`` where the client says itself when somebody speaks."""
    interrupts: bool = True
    """Whether speech stops the model."""
    hears_words: bool = False
    """Whether the caller is transcribed."""
    shows_words: bool = False
    """Whether the model's own words come as text, too."""
    resumption: bool = False
    transparent: bool = False
    """Whether updates say which client message was the last to be consumed."""
    handle: str = ""
    compression: bool = False
    history_first: bool = False
    vad_signals: bool = False
    voice: str = ""
    raw: JsonView = field(default_factory=dict)
    """The message itself, with camelCase keys."""

    def updated(self, update: JsonView) -> Setup:
        """Return the configuration after a ``contextUpdate``."""
        changed = self
        if "systemInstruction" in update:
            changed = replace(changed, instructions=text_of(update["systemInstruction"]))
        if "tools" in update:
            changed = replace(changed, tools=_tools(update["tools"].get("tools", ()), self.model))
        return changed


def read_setup(setup: JsonView, backend: Backend) -> Setup:
    """Return what a checked ``setup`` asks for; raise :exc:`Refused`."""
    name = str(setup.get("model", ""))
    model = find_model(name, backend)
    if model is None:
        raise Refused(1008, f"{name or 'models/'} is not found, or is not supported for bidiGenerateContent.")
    _check_backend(setup, backend)
    _check_generation(setup.get("generationConfig", {}), model)
    _check_proactivity(setup.get("proactivity", {}), model)
    resumption = setup.get("sessionResumption")
    if resumption and "transparent" in resumption and backend is Backend.STUDIO:
        raise Refused(1007, _unknown("transparent", "setup.session_resumption"))
    return Setup(
        backend=backend,
        name=bare_name(name),
        model=model,
        instructions=text_of(setup.get("systemInstruction", {})),
        tools=_tools(setup.get("tools", ()), model),
        searches=any("googleSearch" in tool for tool in setup.get("tools", ())),
        vad=_vad(setup.get("realtimeInputConfig", {}).get("automaticActivityDetection", {})),
        interrupts=setup.get("realtimeInputConfig", {}).get("activityHandling") != "NO_INTERRUPTION",
        hears_words="inputAudioTranscription" in setup,
        shows_words="outputAudioTranscription" in setup,
        resumption=resumption is not None,
        transparent=bool((resumption or {}).get("transparent")),
        handle=(resumption or {}).get("handle", ""),
        compression="contextWindowCompression" in setup,
        history_first=bool(setup.get("historyConfig", {}).get("initialHistoryInClientContent")),
        vad_signals=bool(setup.get("explicitVadSignal")),
        voice=_voice(setup.get("generationConfig", {}).get("speechConfig", {})),
        raw=setup,
    )


def text_of(content: JsonView) -> str:
    """Return the text parts of a ``Content``, joined by line breaks."""
    return "\n".join(str(part["text"]) for part in content.get("parts", ()) if "text" in part)


def _unknown(name: str, where: str) -> str:
    return f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': Cannot find field."


def _check_backend(setup: JsonView, backend: Backend) -> None:
    for name in _VERTEX_ONLY if backend is Backend.STUDIO else _STUDIO_ONLY:
        if name in setup:
            raise Refused(1007, _unknown(name, "setup"))


def _check_generation(config: JsonView, model: Model) -> None:
    modalities = config.get("responseModalities", ["AUDIO"])
    if modalities == ["TEXT"]:
        raise Refused(1007, "Cannot extract voices from a non-audio request.")
    if modalities != ["AUDIO"]:
        raise Refused(1007, INVALID)
    if "thinkingConfig" in config and not model.thinking:
        raise Refused(1007, "Thinking config is not supported for this model.")
    if config.get("enableAffectiveDialog") and not model.affective:
        raise Refused(1007, "Affective dialog is not supported for this model.")
    if not 0 <= config.get("temperature", 1.0) <= 2:
        raise Refused(1007, INVALID)
    voice = _voice(config.get("speechConfig", {}))
    if voice and voice not in VOICES:
        raise Refused(1007, f"Requested voice api_name '{voice}' is not available for this model.")


def _voice(speech: JsonView) -> str:
    return str(speech.get("voiceConfig", {}).get("prebuiltVoiceConfig", {}).get("voiceName", ""))


def _check_proactivity(proactivity: JsonView, model: Model) -> None:
    if model.always_proactive and proactivity.get("proactiveAudio") is False:
        raise Refused(1007, "Proactive audio cannot be disabled for this model.")


def _vad(detection: JsonView) -> VadSettings | None:
    if detection.get("disabled"):
        return None
    for name in ("prefixPaddingMs", "silenceDurationMs"):
        if not 0 <= detection.get(name, 0) <= _MAX_MS:
            raise Refused(1007, INVALID)
    start = detection.get("startOfSpeechSensitivity", "START_SENSITIVITY_HIGH")
    end = detection.get("endOfSpeechSensitivity", "END_SENSITIVITY_HIGH")
    usual_ms = _END_SILENCE_MS.get(end, _END_SILENCE_MS["END_SENSITIVITY_HIGH"])
    return VadSettings(
        threshold=_START_THRESHOLD.get(start, _START_THRESHOLD["START_SENSITIVITY_HIGH"]),
        prefix_padding_ms=0,
        silence_ms=max(20, detection.get("silenceDurationMs", usual_ms)),
        onset_ms=detection.get("prefixPaddingMs", _ONSET_MS),
    )


def _tools(tools: Iterable[Json], model: Model) -> dict[str, Behavior]:
    """Return each function's behaviour by name."""
    found: dict[str, Behavior] = {}
    for tool in tools:
        for native in tool.keys() - {"functionDeclarations"}:
            if native not in NATIVE_TOOLS:
                raise Refused(1008, UNSUPPORTED)
        for function in tool.get("functionDeclarations", ()):
            name = str(function.get("name", ""))
            if not _TOOL_NAME.fullmatch(name):
                raise Refused(1007, f"Invalid function name: {name!r}.")
            if name in found:
                raise Refused(1007, f"Duplicate function declaration found: {name}")
            if "parameters" in function and "parametersJsonSchema" in function:
                raise Refused(1007, "Only one of parameters and parametersJsonSchema may be set.")
            found[name] = _behavior(function, model)
    return found


def _behavior(function: JsonView, model: Model) -> Behavior:
    name = function.get("behavior", "UNSPECIFIED")
    behavior = model.default_behavior if name == "UNSPECIFIED" else Behavior(name)
    if behavior not in model.behaviors:
        raise Refused(1007, f"Function behavior {behavior} is not supported for this model.")
    return behavior
