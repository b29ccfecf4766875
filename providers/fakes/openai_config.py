"""
The session object: its defaults, and ``session.update`` applied whole or not at all. No I/O.

An update merges: only the fields that are present change, ``null`` clears what may be cleared. One bad
field refuses the whole update, as on the real service.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping

from providers.fakes import openai_wire as wire
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Json, JsonView
from providers.fakes.vad import VadSettings
from providers.types import AudioFormat

_SERVER_VAD: Json = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 200,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_SEMANTIC_VAD: Json = {
    "type": "semantic_vad",
    "eagerness": "auto",
    "create_response": True,
    "interrupt_response": True,
}
_EAGERNESS_MS = {"low": 800, "auto": 500, "medium": 500, "high": 300}
"""Silence that ends a turn. The service asks a model here; an energy detector cannot."""

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DESCRIPTION_LENGTH = 1024
_LIST_MODELS = ("gpt-transcribe", "gpt-live-transcribe")


class SessionConfig:
    """
    One session's settings.

    Args:
        session_id: ``sess_…``.
        model: As named in the URL; it cannot change.
        expires_at: Seconds since 1970.
    """

    def __init__(self, session_id: str, model: str, expires_at: int) -> None:
        pcm = {"type": "audio/pcm", "rate": 24000}
        self.session: Json = {
            "type": "realtime",
            "object": "realtime.session",
            "id": session_id,
            "model": model,
            "output_modalities": ["audio"],
            "instructions": "You are a helpful assistant. Speak as soon as you are spoken to.",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
            "tracing": None,
            "truncation": "auto",
            "prompt": None,
            "expires_at": expires_at,
            "include": None,
            "audio": {
                "input": {
                    "format": dict(pcm),
                    "transcription": None,
                    "noise_reduction": None,
                    "turn_detection": dict(_SERVER_VAD),
                },
                "output": {"format": dict(pcm), "voice": "marin", "speed": 1.0},
            },
        }

    def update(self, changes: JsonView, *, spoken: bool, speaking: bool) -> Problem | None:
        """
        Merge ``changes`` (already checked for names and types), or return why nothing changed.

        Args:
            changes: The ``session`` of a ``session.update``.
            spoken: Whether audio was sent in this session: the voice is then fixed.
            speaking: Whether a response is running: the speed is then fixed.
        """
        if changes["type"] != "realtime":
            return Problem(
                "invalid_value",
                "Passing a transcription session update event to a realtime session is not allowed.",
                "session.type",
            )
        problem = self._fixed(changes, spoken=spoken, speaking=speaking) or _first_problem(changes)
        if problem is None:
            self.session = _merged(self.session, changes)
        return problem

    def _fixed(self, changes: JsonView, *, spoken: bool, speaking: bool) -> Problem | None:
        if changes.get("model", self.session["model"]) != self.session["model"]:
            return Problem("invalid_value", "The model of a session cannot be changed.", "session.model")
        tracing = self.session["tracing"]
        if tracing is not None and changes.get("tracing", tracing) != tracing:
            return Problem(
                "invalid_value", "Tracing cannot be modified once it is enabled.", "session.tracing"
            )
        output = changes.get("audio", {}).get("output", {})
        mine = self.session["audio"]["output"]
        if spoken and output.get("voice", mine["voice"]) != mine["voice"]:
            message = "Cannot update a conversation's voice if assistant audio is present."
            return Problem("cannot_update_voice", message, None)
        if speaking and output.get("speed", mine["speed"]) != mine["speed"]:
            message = "The speed can only be changed in between turns."
            return Problem("invalid_value", message, "session.audio.output.speed")
        return None

    @property
    def input(self) -> AudioFormat:
        return wire.format_of(self.session["audio"]["input"]["format"])

    @property
    def turn_detection(self) -> Json | None:
        detection: Json | None = self.session["audio"]["input"]["turn_detection"]
        return detection

    @property
    def transcriber(self) -> str | None:
        """The model that writes down the caller."""
        transcription: Json | None = self.session["audio"]["input"]["transcription"]
        return None if transcription is None else str(transcription.get("model") or "gpt-live-transcribe")

    @property
    def instructions(self) -> str:
        return str(self.session["instructions"])

    def vad(self) -> VadSettings:
        """Return the detector's settings; those of a semantic one are an estimate."""
        detection = self.turn_detection or _SERVER_VAD
        if detection["type"] == "semantic_vad":
            return VadSettings(silence_ms=_EAGERNESS_MS[detection["eagerness"]])
        return VadSettings(
            threshold=float(detection["threshold"]),
            prefix_padding_ms=int(detection["prefix_padding_ms"]),
            silence_ms=int(detection["silence_duration_ms"]),
        )


def check_response(request: JsonView) -> Problem | None:
    """Return what is wrong with the ``response`` of a ``response.create`` beyond names and types."""
    problems = (
        *_modalities(request, "response"),
        *_tokens(request, "response"),
        *_tools(request, "response"),
        *_voice(request.get("audio", {}).get("output", {}), "response.audio.output"),
        *_metadata(request.get("metadata") or {}),
    )
    return next(iter(problems), None)


def _merged(session: Json, changes: JsonView) -> Json:
    session = copy.deepcopy(session)
    rest = copy.deepcopy(dict(changes))
    audio = rest.pop("audio", {})
    session.update(rest)
    incoming = audio.get("input", {})
    if "turn_detection" in incoming:
        incoming["turn_detection"] = _detection(
            session["audio"]["input"]["turn_detection"], incoming["turn_detection"]
        )
    for side in (incoming, audio.get("output", {})):
        if side.get("format", {}).get("type") == "audio/pcm":
            side["format"] = {"type": "audio/pcm", "rate": 24000}
    session["audio"]["input"].update(incoming)
    session["audio"]["output"].update(audio.get("output", {}))
    return session


def _detection(now: Json | None, wanted: Json | None) -> Json | None:
    if wanted is None:
        return None
    if now is not None and now["type"] == wanted["type"]:
        return {**now, **wanted}
    return {**(_SERVER_VAD if wanted["type"] == "server_vad" else _SEMANTIC_VAD), **wanted}


def _first_problem(changes: JsonView) -> Problem | None:
    return next(_problems(changes), None)


def _problems(changes: JsonView) -> Iterator[Problem]:
    yield from _modalities(changes, "session")
    yield from _tokens(changes, "session")
    yield from _tools(changes, "session")
    audio = changes.get("audio", {})
    for side in ("input", "output"):
        spec = audio.get(side, {}).get("format")
        if spec is not None and "type" not in spec:
            yield _missing(f"session.audio.{side}.format.type")
    yield from _voice(audio.get("output", {}), "session.audio.output")
    yield from _vad(audio.get("input", {}).get("turn_detection") or {})
    yield from _transcription(audio.get("input", {}).get("transcription") or {})


def _modalities(request: JsonView, path: str) -> Iterator[Problem]:
    wanted = request.get("output_modalities")
    if wanted is not None and len(set(wanted)) != 1:
        message = f"Invalid modalities: {wanted}. Supported combinations are: ['text'] and ['audio']."
        yield Problem("invalid_value", message, f"{path}.output_modalities")


def _tokens(request: JsonView, path: str) -> Iterator[Problem]:
    tokens = request.get("max_output_tokens")
    if isinstance(tokens, int) and not 1 <= tokens <= 4096:
        yield _range(f"{path}.max_output_tokens", tokens, 1, 4096)


def _tools(request: JsonView, path: str) -> Iterator[Problem]:
    for index, tool in enumerate(request.get("tools", ())):
        at = f"{path}.tools[{index}]"
        if "type" not in tool:
            yield _missing(f"{at}.type")
        elif tool["type"] == "function":
            yield from _function(tool, at)
        elif not any(tool.get(key) for key in ("server_url", "connector_id", "tunnel_id")):
            yield _missing(f"{at}.server_url")


def _function(tool: JsonView, at: str) -> Iterator[Problem]:
    if "name" not in tool:
        yield _missing(f"{at}.name")
    elif not _TOOL_NAME.fullmatch(tool["name"]):
        message = (
            f"Invalid '{at}.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        )
        yield Problem("invalid_value", message, f"{at}.name")
    length = len(tool.get("description", ""))
    if length > _DESCRIPTION_LENGTH:
        message = (
            f"Invalid '{at}.description': string too long. Expected a string with maximum length "
            f"{_DESCRIPTION_LENGTH}, but got a string with length {length} instead."
        )
        yield Problem("string_above_max_length", message, f"{at}.description")
    if not isinstance(tool.get("parameters", {}), Mapping):
        message = f"Invalid type for '{at}.parameters': expected an object."
        yield Problem("invalid_type", message, f"{at}.parameters")


def _voice(output: JsonView, path: str) -> Iterator[Problem]:
    voice = output.get("voice")
    if isinstance(voice, str) and voice not in wire.VOICES:
        listed = ", ".join(f"'{name}'" for name in wire.VOICES[:-1])
        message = f"Invalid value: '{voice}'. Supported values are: {listed}, and '{wire.VOICES[-1]}'."
        yield Problem("invalid_value", message, f"{path}.voice")
    speed = output.get("speed")
    if speed is not None and not 0.25 <= speed <= 1.5:
        yield _range(f"{path}.speed", speed, 0.25, 1.5)


def _vad(detection: JsonView) -> Iterator[Problem]:
    limits = {
        "threshold": (0.0, 1.0),
        "prefix_padding_ms": (0, 5000),
        "silence_duration_ms": (0, 10000),
        "idle_timeout_ms": (5000, 30000),
    }
    for name, (low, high) in limits.items():
        value = detection.get(name)
        if value is not None and not low <= value <= high:
            yield _range(f"session.audio.input.turn_detection.{name}", value, low, high)


def _transcription(spec: JsonView) -> Iterator[Problem]:
    for name in ("languages", "keywords"):
        if name in spec and spec.get("model") not in _LIST_MODELS:
            message = f"'{name}' is only supported by {' and '.join(_LIST_MODELS)}."
            yield Problem("invalid_value", message, f"session.audio.input.transcription.{name}")


def _metadata(metadata: Mapping[str, str]) -> Iterator[Problem]:
    too_long = any(len(key) > 64 or len(value) > 512 for key, value in metadata.items())
    if len(metadata) > 16 or too_long:
        message = "Invalid 'response.metadata': at most 16 pairs of 64 and 512 characters are allowed."
        yield Problem("invalid_value", message, "response.metadata")


def _missing(at: str) -> Problem:
    return Problem("missing_required_parameter", f"Missing required parameter: '{at}'.", at)


def _range(at: str, value: float, low: float, high: float) -> Problem:
    code = "decimal_below_min_value" if value < low else "decimal_above_max_value"
    if isinstance(value, int):
        code = code.replace("decimal", "integer")
    return Problem(
        code, f"Invalid '{at}': expected a value from {low:g} to {high:g}, but got {value:g} instead.", at
    )
