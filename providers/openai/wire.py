"""
JSON of the OpenAI Realtime API (GA) to and from :mod:`providers.openai.messages`.

Audio goes a short way in both directions: one delta is taken apart by position and one frame
is put together from a prefix, neither by a JSON library or an SDK model (about ten times the
CPU). Whatever does not look exactly as the service writes it takes the long way, with the
same result.
"""

from __future__ import annotations

import binascii
import re
from typing import Any

import orjson
import pybase64

from providers.openai import usage
from providers.openai.messages import (
    AddText,
    AgentTextReceived,
    AnswerCall,
    AskWhetherAlive,
    AudioFinished,
    AudioReceived,
    CallerIdle,
    CallerTextReceived,
    CancelResponse,
    ClientMessage,
    CreateResponse,
    ErrorReported,
    FunctionCall,
    FunctionCallReceived,
    ItemAdded,
    RateLimited,
    RepeatCall,
    ResponseCreated,
    ResponseFinished,
    ServerMessage,
    SessionCreated,
    SessionFacts,
    SessionUpdated,
    SpeechBegan,
    SpeechEnded,
    TranscriptionFailed,
    TruncateItem,
    TurnCommitted,
    UpdateSession,
)
from providers.types import PCMA, PCMU, AudioFormat, ResponseStatus


class WireError(Exception):
    """A frame that is no event: not JSON, or a known type without what it must have."""


# The audio path.

_APPEND = b'{"type":"input_audio_buffer.append","audio":"'
_DELTA = b'{"type":"response.output_audio.delta",'
_TRY_AGAIN = re.compile(r"try again in (?P<number>\d{1,6}(\.\d{1,6})?) ?(?P<unit>ms|s)\b")


def append_audio(audio: bytes) -> bytes:
    """Build ``input_audio_buffer.append``, the payload of a text frame."""
    return _APPEND + pybase64.b64encode(audio) + b'"}'


def audio_delta(raw: bytes) -> AudioReceived | None:
    """
    Read ``response.output_audio.delta`` by the position of its keys.

    ``None`` says only that this is not that event in the service's usual layout; then
    :func:`decode` knows. The layout is checked: the keys where they are expected, and after
    ``delta`` nothing but base64 to the end of the frame.
    """
    if not raw.startswith(_DELTA):
        return None
    parts = raw.split(b'"', 23)
    if len(parts) != 24 or parts[9] != b"response_id" or parts[13] != b"item_id" or parts[21] != b"delta":
        return None
    payload = parts[23]
    if not payload.endswith(b'"}'):
        return None
    try:
        audio = pybase64.b64decode(payload[:-2], validate=True)
        return AudioReceived(parts[11].decode(), parts[15].decode(), audio)
    except (binascii.Error, UnicodeDecodeError):
        return None


def _audio(text: str) -> bytes:
    """Decode base64 in either alphabet: a proxy may have written the URL-safe one."""
    if "-" in text or "_" in text:
        text = text.replace("-", "+").replace("_", "/")
    try:
        return pybase64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise WireError("an audio delta is not base64") from exc


# Events of the server.


def decode(raw: bytes) -> ServerMessage | None:
    """
    Read one frame; ``None`` for an event that a call has no use for, known or not.

    Raises:
        WireError: The frame is broken. The session can go on without it.
    """
    try:
        event: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise WireError("a frame is not JSON") from exc
    if not isinstance(event, dict):
        raise WireError("a frame is not a JSON object")
    kind = event.get("type")
    if not isinstance(kind, str):
        raise WireError("an event has no type")
    try:
        return _message(kind, event)
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        # Whatever shape was not expected: the name of the event says where to look.
        raise WireError(f"an event of type {kind[:80]} is not as documented") from exc


def _message(kind: str, event: dict[str, Any]) -> ServerMessage | None:
    match kind:
        case "response.output_audio.delta":
            audio = _audio(_text(event, "delta"))
            return AudioReceived(_text(event, "response_id"), _text(event, "item_id"), audio)
        case "response.output_audio.done":
            return AudioFinished(_text(event, "item_id"))
        case "response.output_audio_transcript.delta":
            return AgentTextReceived(_text(event, "item_id"), _text(event, "delta"), final=False)
        case "response.output_audio_transcript.done":
            return AgentTextReceived(_text(event, "item_id"), _text(event, "transcript"), final=True)
        case "response.created":
            return ResponseCreated(_text(event["response"], "id"))
        case "response.output_item.added" | "response.output_item.done":
            call = _function_call(event["item"])
            return None if call is None else FunctionCallReceived(_text(event, "response_id"), call)
        case "response.done":
            return _finished(event["response"])
        case _:
            return _session_message(kind, event) or _caller_message(kind, event)


def _session_message(kind: str, event: dict[str, Any]) -> ServerMessage | None:
    match kind:
        case "session.created":
            return SessionCreated(_facts(event["session"]))
        case "session.updated":
            return SessionUpdated(_facts(event["session"]))
        case "error":
            error = event["error"]
            return ErrorReported(
                kind=str(error.get("type") or ""),
                code=str(error.get("code") or ""),
                message=str(error.get("message") or ""),
                event_id=str(error.get("event_id") or ""),
                param=str(error.get("param") or ""),
            )
        case "rate_limits.updated":
            used_up = [limit for limit in event["rate_limits"] if limit.get("remaining") == 0]
            resets = [float(limit.get("reset_seconds") or 0) for limit in used_up]
            return RateLimited(max(resets)) if resets else None
        case _:
            return None


def _caller_message(kind: str, event: dict[str, Any]) -> ServerMessage | None:
    match kind:
        case "input_audio_buffer.speech_started":
            return SpeechBegan()
        case "input_audio_buffer.speech_stopped":
            return SpeechEnded()
        case "input_audio_buffer.committed":
            return TurnCommitted(_text(event, "item_id"))
        case "input_audio_buffer.timeout_triggered":
            return CallerIdle(_text(event, "item_id"))
        case "conversation.item.input_audio_transcription.delta":
            return CallerTextReceived(_text(event, "item_id"), event.get("delta") or "", final=False)
        case "conversation.item.input_audio_transcription.completed":
            used = usage.read(event.get("usage") or {}, speaks=False)
            text = event.get("transcript") or ""
            return CallerTextReceived(_text(event, "item_id"), text, final=True, usage=used)
        case "conversation.item.input_audio_transcription.failed":
            return TranscriptionFailed(
                _text(event, "item_id"), str((event.get("error") or {}).get("code") or "")
            )
        case "conversation.item.added" | "conversation.item.created" | "conversation.item.done":
            item = event["item"]
            output = item.get("type") == "function_call_output"
            return ItemAdded(_text(item, "id"), _text(item, "call_id") if output else "")
        case _:
            return None  # not needed by a call, or newer than this code


def _text(event: dict[str, Any], key: str) -> str:
    value = event[key]
    if not isinstance(value, str):
        raise TypeError(key)
    return value


def _facts(session: dict[str, Any]) -> SessionFacts:
    audio = session.get("audio") or {}
    tools = session.get("tools")
    expires_at = session.get("expires_at")
    return SessionFacts(
        input=_format((audio.get("input") or {}).get("format")),
        output=_format((audio.get("output") or {}).get("format")),
        tools=None if tools is None else frozenset(tool["name"] for tool in tools if "name" in tool),
        expires_at=float(expires_at) if expires_at else None,
    )


def _format(value: dict[str, Any] | None) -> AudioFormat | None:
    match value:
        case {"type": "audio/pcmu"}:
            return PCMU
        case {"type": "audio/pcma"}:
            return PCMA
        case {"type": "audio/pcm", "rate": int(rate)}:
            return AudioFormat("pcm16", rate)
        case _:
            return None


def _function_call(item: dict[str, Any]) -> FunctionCall | None:
    if item.get("type") != "function_call":
        return None
    return FunctionCall(
        call_id=_text(item, "call_id"),
        name=_text(item, "name"),
        arguments=item.get("arguments") or "",
        completed=item.get("status") == "completed",
    )


def _finished(response: dict[str, Any]) -> ResponseFinished:
    details = response.get("status_details") or {}
    error = details.get("error") or {}
    calls = (_function_call(item) for item in response.get("output") or ())
    return ResponseFinished(
        response_id=_text(response, "id"),
        status=ResponseStatus(response["status"]),
        reason=str(details.get("reason") or ""),
        error=str(error.get("code") or error.get("type") or ""),
        retry_after=_retry_after(str(error.get("message") or "")),
        calls=tuple(call for call in calls if call is not None),
        usage=usage.read(response.get("usage") or {}),
    )


def _retry_after(message: str) -> float | None:
    """Find "Please try again in 1.5s" (or 250ms), which is all that a failed response says of it."""
    found = _TRY_AGAIN.search(message)
    if found is None:
        return None
    return float(found["number"]) / (1000 if found["unit"] == "ms" else 1)


# Events of ours.


def encode(message: ClientMessage) -> bytes:
    """Write one client event as JSON, the payload of a text frame."""
    return orjson.dumps(_event(message))


def _event(message: ClientMessage) -> dict[str, Any]:
    match message:
        case UpdateSession(event_id, session):
            return {"type": "session.update", "event_id": event_id, "session": session}
        case CreateResponse(event_id):
            event: dict[str, Any] = {"type": "response.create", "event_id": event_id}
            if options := _response_options(message):
                event["response"] = options
            return event
        case CancelResponse(event_id, response_id):
            return {"type": "response.cancel", "event_id": event_id, "response_id": response_id}
        case TruncateItem(event_id, item_id, heard_ms):
            return {
                "type": "conversation.item.truncate",
                "event_id": event_id,
                "item_id": item_id,
                "content_index": 0,
                "audio_end_ms": heard_ms,
            }
        case AddText(event_id, item_id, role, text):
            content = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
            item = {"id": item_id, "type": "message", "role": role, "content": [content]}
            return {"type": "conversation.item.create", "event_id": event_id, "item": item}
        case RepeatCall(event_id, call_id, name, arguments):
            item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
            return {"type": "conversation.item.create", "event_id": event_id, "item": item}
        case AnswerCall(event_id, call_id, output):
            item = {"type": "function_call_output", "call_id": call_id, "output": output}
            return {"type": "conversation.item.create", "event_id": event_id, "item": item}
        case AskWhetherAlive(event_id):
            return {"type": "conversation.item.retrieve", "event_id": event_id, "item_id": "item_none"}


def _response_options(message: CreateResponse) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if message.instructions is not None:
        options["instructions"] = message.instructions
    if not message.tools:
        options["tool_choice"] = "none"
    if message.audio_only:
        options["output_modalities"] = ["audio"]
    return options
