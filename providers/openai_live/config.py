"""
The session object of GPT-Live for a call, and texts cut to what one event may hold.

``session.start`` is atomic: one field that the service does not know and there is no session. Model, voice,
format and instructions cannot be changed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from config.providers import LiveSettings
from config.voices import OPENAI_LIVE
from providers.types import (
    PCM16_16K,
    PCM16_24K,
    PCMA,
    PCMU,
    AudioFormat,
    HistoryItem,
    ProviderWarning,
    Said,
    SessionSetup,
    ToolUsed,
)
from tools.types import AgentToolDefinition, CallUpdate, JsonValue

HISTORY_MESSAGES = 128
HISTORY_BYTES = 16_000
"""Of UTF-8: well below the 8,192 tokens that the history may have, in any language."""
CONTENT_BYTES = 1_500
"""Of UTF-8: what one appended text may have, well below 500 tokens in any language."""

Session = dict[str, JsonValue]


def build_live_session_config(setup: SessionSetup, settings: LiveSettings) -> Session:
    """
    Build the ``session`` of ``session.start``.

    Voice and backend get the same instructions, which are the prompt and the tools' addendum (L-29): the
    voice must know what it may promise, and the backend when to call which tool. The line's G.711 passes
    through in both directions; any other line gets PCM16.
    """
    session: Session = {
        "model": settings.model,
        "instructions": setup.instructions,
        "audio": {
            "format": audio_format(setup.line),
            "output": {"voice": voice(setup.voice) or OPENAI_LIVE.default},
        },
        "delegation": {
            "type": "responses",
            "responses": {
                "model": settings.backend_model,
                "instructions": setup.instructions,
                "tools": [function_tool(tool) for tool in setup.tools],
                "tool_choice": "auto",
                "parallel_tool_calls": True,
            },
        },
        "store": False,
    }
    if setup.history:
        session["input"] = history_input(setup.history)
    return session


def build_backend_update(update: CallUpdate, setup: SessionSetup) -> Session | None:
    """Build the ``session`` of a ``session.update``, where ``update`` changes something of the backend."""
    backend: Session = {}
    if update.prompt is not None:
        backend["instructions"] = setup.instructions
    if update.tools is not None:
        backend["tools"] = [function_tool(tool) for tool in setup.tools]
    return backend_session(backend) if backend else None


def backend_session(changes: Session) -> Session:
    """Wrap changes of the backend as the ``session`` of a ``session.update``."""
    return {"delegation": {"type": "responses", "responses": changes}}


def history_input(history: tuple[HistoryItem, ...]) -> list[JsonValue]:
    """Return the newest part of the call so far that fits, as messages, the oldest first."""
    messages: list[JsonValue] = []
    room = HISTORY_BYTES
    for item in reversed(history):
        role, text = _as_message(item)
        room -= len(text.encode())
        if room < 0 or len(messages) == HISTORY_MESSAGES:
            break
        kind = "output_text" if role == "assistant" else "input_text"
        messages.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
    return messages[::-1]


def _as_message(item: HistoryItem) -> tuple[str, str]:
    match item:
        case Said("caller", text):
            return "user", text
        case Said("agent", text):
            return "assistant", text
        case Said(text=text):
            return "developer", text
        case ToolUsed(call, output):
            used = f"The tool {call.name} was called with {call.arguments}"
            return "developer", f"{used} and answered: {output}"


def setup_warnings(setup: SessionSetup) -> list[ProviderWarning]:
    """List what of ``setup`` this provider leaves out or changes."""
    warnings = [
        ProviderWarning("vendor_tool_unavailable", f"{token} is not offered with GPT-Live")
        for token in setup.vendor_tools
    ]
    if setup.voice is not None and voice(setup.voice) is None:
        text = f"{setup.voice} is no voice of GPT-Live: {OPENAI_LIVE.default} is used"
        warnings.append(ProviderWarning("voice_unknown", text))
    return warnings


def audio_format(line: AudioFormat) -> JsonValue:
    """Return the wire's name of the format for a line; the rate is required for G.711, too."""
    if line == PCMU:
        return {"type": "audio/pcmu", "rate": 8000}
    if line == PCMA:
        return {"type": "audio/pcma", "rate": 8000}
    return {"type": "audio/pcm", "rate": session_format(line).rate}


def session_format(line: AudioFormat) -> AudioFormat:
    """Return the format of a session for a line: G.711 as it is, wideband without changing its rate."""
    if line in (PCMU, PCMA, PCM16_16K):
        return line
    return PCM16_24K


def voice(name: str | None) -> JsonValue:
    """Return the wire's form of a voice, ``None`` for one that does not exist."""
    if name is None:
        return None
    if OPENAI_LIVE.is_custom(name):
        return {"id": name}
    return name if name in OPENAI_LIVE else None


def function_tool(tool: AgentToolDefinition) -> JsonValue:
    """Return a tool of the backend, with the four known keys and no other."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": _plain(tool.parameters),
    }


def pieces(text: str, limit: int = CONTENT_BYTES) -> Iterator[str]:
    """Cut a text into pieces of at most ``limit`` bytes of UTF-8, between words where there are any."""
    while len(text.encode()) > limit:
        head = text.encode()[:limit].decode(errors="ignore")
        cut = max(head.rfind(" "), head.rfind("\n"))
        head = head[: cut + 1] if cut > 0 else head
        yield head.rstrip()
        text = text[len(head) :].lstrip()
    if text.strip():
        yield text


def _plain(value: JsonValue) -> JsonValue:
    """Copy a JSON value into dicts and lists, which every serializer knows."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
