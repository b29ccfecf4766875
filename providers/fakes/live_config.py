"""
The session of GPT-Live: ``session.start`` and ``session.update``, each whole or not at all. No I/O.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

from providers.fakes import live_wire as wire
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Json, JsonView
from providers.types import PCM16_24K, AudioFormat

MAX_INPUT = 128
MAX_INPUT_TOKENS = 8_192
MAX_INSTRUCTIONS_TOKENS = 16_384
MAX_CONTENT_TOKENS = 500
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class LiveConfig:
    """
    One session's settings.

    Args:
        session_id: ``live_…``.
        expires_at: Seconds since 1970.
    """

    def __init__(self, session_id: str, expires_at: int) -> None:
        self.session: Json = {"id": session_id, "expires_at": expires_at, "status": "active", "model": ""}
        self.format: AudioFormat = PCM16_24K
        self.started = False

    def start(self, wanted: JsonView) -> Problem | None:
        """Take the ``session`` of a ``session.start`` whose names and types are known to be right."""
        problem = next(_start_problems(wanted), None)
        if problem is not None:
            return problem
        audio = wanted.get("audio") or {}
        spec = audio.get("format") or {"type": "audio/pcm", "rate": 24000}
        fmt = wire.format_of(spec)
        assert fmt is not None  # _format_problems has looked
        self.format = fmt
        self.session |= {
            "model": wanted["model"].partition("~")[0],
            "instructions": wanted.get("instructions") or "You are a helpful assistant.",
            "audio": {"format": spec, "output": {"voice": "marin", **(audio.get("output") or {})}},
            "delegation": copy.deepcopy(wanted.get("delegation")) or {"type": "client"},
            "input": copy.deepcopy(list(wanted.get("input") or ())),
            "store": wanted.get("store") or False,
        }
        self.started = True
        return None

    def update(self, changes: JsonView) -> Problem | None:
        """Merge the ``session`` of a ``session.update``; only the delegation may change."""
        delegation = changes.get("delegation")
        if changes.get("triggers"):
            return _unsupported("Triggers are not served by this fake.", "session.triggers")
        if delegation is None:
            return None
        if delegation["type"] != self.session["delegation"]["type"]:
            return Problem(
                "invalid_value", "The delegation type of a session cannot change.", "session.delegation.type"
            )
        responses = delegation.get("responses") or {}
        problem = next(_tool_problems(responses), None)
        if problem is None:
            merged = copy.deepcopy(self.session["delegation"])
            merged.update({key: value for key, value in delegation.items() if key != "responses"})
            if responses:
                merged["responses"].update(copy.deepcopy(dict(responses)))
            self.session["delegation"] = merged
        return problem

    @property
    def instructions(self) -> str:
        return str(self.session["instructions"])

    @property
    def backend(self) -> Json | None:
        """The settings of the Responses backend; nothing when the client does the work."""
        backend: Json | None = self.session["delegation"].get("responses")
        return backend

    @property
    def calls_tools(self) -> bool:
        backend = self.backend
        return backend is None or backend.get("tool_choice") != "none"


def check_content(event: JsonView, *, backend: bool) -> Problem | None:
    """Return what is wrong with appended instructions, thinking or commentary."""
    if wire.tokens(event["content"]) > MAX_CONTENT_TOKENS:
        message = f"Invalid 'content': at most {MAX_CONTENT_TOKENS} tokens are allowed."
        return Problem("string_above_max_length", message, "content")
    if not event["content"].strip():
        return Problem("invalid_value", "Invalid 'content': it must not be empty.", "content")
    if backend and event["delegation_id"] is not None:
        message = "delegation_id is not accepted with Responses delegation."
        return Problem("invalid_value", message, "delegation_id")
    return None


def _start_problems(wanted: JsonView) -> Iterator[Problem]:
    model = wanted["model"].partition("~")[0]
    if model not in wire.MODELS:
        yield Problem("model_not_found", f"The model '{model}' does not exist.", "session.model")
    if wire.tokens(wanted.get("instructions") or "") > MAX_INSTRUCTIONS_TOKENS:
        message = f"Invalid 'session.instructions': at most {MAX_INSTRUCTIONS_TOKENS} tokens are allowed."
        yield Problem("string_above_max_length", message, "session.instructions")
    yield from _audio_problems(wanted.get("audio") or {})
    yield from _input_problems(list(wanted.get("input") or ()))
    for name in ("client", "triggers"):
        if wanted.get(name):
            yield _unsupported(f"'{name}' is not served by this fake.", f"session.{name}")
    delegation = wanted.get("delegation") or {"type": "client"}
    if delegation["type"] == "decisions":
        yield _unsupported("Decisions are not served by this fake.", "session.delegation.type")
    yield from _tool_problems(delegation.get("responses") or {})


def _audio_problems(audio: JsonView) -> Iterator[Problem]:
    spec = audio.get("format")
    if spec is not None and wire.format_of(spec) is None:
        yield Problem(
            "invalid_value",
            f"Invalid value: {spec['rate']}. {spec['type']} does not support this sample rate.",
            "session.audio.format.rate",
        )
    voice = (audio.get("output") or {}).get("voice", "marin")
    if isinstance(voice, str) and voice not in wire.VOICES:
        listed = ", ".join(f"'{name}'" for name in wire.VOICES)
        message = f"Invalid value: '{voice}'. Supported values are: {listed}."
        yield Problem("invalid_value", message, "session.audio.output.voice")


def _input_problems(items: list[JsonView]) -> Iterator[Problem]:
    if len(items) > MAX_INPUT:
        message = f"Invalid 'session.input': at most {MAX_INPUT} messages are allowed, but got {len(items)}."
        yield Problem("array_above_max_length", message, "session.input")
    for index, item in enumerate(items):
        if len(item["content"]) != 1:
            message = f"Invalid 'session.input[{index}].content': exactly one part is allowed."
            yield Problem("invalid_value", message, f"session.input[{index}].content")
    if sum(wire.tokens(part["text"]) for item in items for part in item["content"]) > MAX_INPUT_TOKENS:
        message = f"Invalid 'session.input': at most {MAX_INPUT_TOKENS} tokens are allowed."
        yield Problem("string_above_max_length", message, "session.input")


def _tool_problems(responses: JsonView) -> Iterator[Problem]:
    names: set[str] = set()
    for index, tool in enumerate(responses.get("tools") or ()):
        if tool["type"] != "function":
            continue
        at = f"session.delegation.responses.tools[{index}].name"
        if not _TOOL_NAME.fullmatch(tool["name"]):
            message = (
                f"Invalid '{at}': string does not match pattern. "
                "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            )
            yield Problem("invalid_value", message, at)
        if tool["name"] in names:
            yield Problem("invalid_value", f"Duplicate tool name: '{tool['name']}'.", at)
        names.add(tool["name"])


def _unsupported(message: str, at: str) -> Problem:
    return Problem("unsupported_parameter", message, at)
