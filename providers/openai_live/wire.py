"""
JSON of the OpenAI Live API to and from :mod:`providers.openai_live.messages`.

Audio goes a short way in both directions: one delta is taken apart by position and one frame is put together
from a prefix. Whatever does not look exactly as expected takes the long way, with the same result.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any

import orjson
import pybase64

from providers.openai.messages import FunctionCall
from providers.openai_live.messages import (
    Acknowledged,
    AgentTextReceived,
    AnswerCall,
    AppendContext,
    AudioReceived,
    CallerTextReceived,
    ClientMessage,
    CloseSession,
    ContinueResponse,
    ErrorReported,
    FunctionCallReceived,
    ResponseBegan,
    ResponseFinished,
    SendSilence,
    ServerMessage,
    SessionClosed,
    SessionFacts,
    SessionStarted,
    StartSession,
    TaskDelegated,
    UpdateSession,
    UsageReported,
)
from providers.types import AudioFormat, ResponseStatus, Usage


class WireError(Exception):
    """A frame that is no event: not JSON, or a known type without what it must have."""


# The audio path.

_APPEND = b'{"type":"session.input_audio.append","audio":"'
_DELTA = b'{"type":"session.output_audio.delta","delta":"'
_ENCODINGS: Mapping[str, str] = {"audio/pcmu": "pcmu", "audio/pcma": "pcma", "audio/pcm": "pcm16"}
_ACKNOWLEDGEMENTS = frozenset(
    {
        "session.updated",
        "session.instructions.appended",
        "session.thinking.appended",
        "session.commentary.appended",
    }
)
_ENDS: Mapping[str, ResponseStatus] = {
    "response.completed": ResponseStatus.COMPLETED,
    "response.failed": ResponseStatus.FAILED,
    "response.incomplete": ResponseStatus.INCOMPLETE,
}


def append_audio(audio: bytes) -> bytes:
    """Build ``session.input_audio.append``, the payload of a text frame."""
    return _APPEND + pybase64.b64encode(audio) + b'"}'


def audio_delta(raw: bytes) -> AudioReceived | None:
    """
    Read ``session.output_audio.delta`` by its prefix.

    ``None`` says only that this is not that event in the expected layout; then :func:`decode` knows.
    """
    if not (raw.startswith(_DELTA) and raw.endswith(b'"}')):
        return None
    try:
        return AudioReceived(pybase64.b64decode(raw[len(_DELTA) : -2], validate=True))
    except binascii.Error:
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
        raise WireError(f"an event of type {kind[:80]} is not as documented") from exc


def _message(kind: str, event: dict[str, Any]) -> ServerMessage | None:
    match kind:
        case "session.output_audio.delta":
            return AudioReceived(_audio(_text(event, "delta")))
        case "session.input_transcript.delta":
            return CallerTextReceived(_text(event, "delta"), int(event["start_ms"]), int(event["end_ms"]))
        case "session.output_transcript.delta":
            return AgentTextReceived(_text(event, "delta"), int(event["start_ms"]), int(event["end_ms"]))
        case "response.event":
            return _backend_message(event.get("delegation_id") or "", event["event"])
        case "session.delegation.created":
            delegation = event["delegation"]
            return TaskDelegated(_text(delegation, "id"), delegation.get("target") == "client")
        case "session.usage.updated":
            return UsageReported(float(event["usage"]["seconds"]))
        case _ if kind in _ACKNOWLEDGEMENTS:
            return Acknowledged(str(event.get("client_event_id") or ""))
        case _:
            return _session_message(kind, event)


def _session_message(kind: str, event: dict[str, Any]) -> ServerMessage | None:
    match kind:
        case "session.started":
            return SessionStarted(_facts(event["session"]))
        case "session.closed":
            usage = event.get("usage") or {}
            return SessionClosed(str(event.get("reason") or "closed"), float(usage.get("seconds") or 0.0))
        case "error":
            error = event["error"]
            return ErrorReported(
                kind=str(error.get("type") or ""),
                code=str(error.get("code") or ""),
                message=str(error.get("message") or ""),
                event_id=str(error.get("client_event_id") or event.get("client_event_id") or ""),
            )
        case _:
            return None


def _backend_message(delegation_id: str, event: dict[str, Any]) -> ServerMessage | None:
    """Read a nested event of the Responses API; the snapshots in it have no output."""
    kind = _text(event, "type")
    match kind:
        case "response.created":
            return ResponseBegan(delegation_id, _text(event["response"], "id"))
        case "response.output_item.added" | "response.output_item.done":
            item = event["item"]
            if item.get("type") != "function_call":
                return None
            call = FunctionCall(
                call_id=_text(item, "call_id"),
                name=_text(item, "name"),
                arguments=item.get("arguments") or "",
                completed=kind == "response.output_item.done" and item.get("status") != "incomplete",
            )
            return FunctionCallReceived(delegation_id, call)
        case "response.completed" | "response.failed" | "response.incomplete":
            return _finished(delegation_id, _ENDS[kind], event["response"])
        case "error":
            error = str(event.get("code") or "server_error")
            return ResponseFinished(delegation_id, "", ResponseStatus.FAILED, error)
        case _:
            return None


def _finished(delegation_id: str, status: ResponseStatus, response: dict[str, Any]) -> ResponseFinished:
    error = (response.get("error") or {}).get("code")
    reason = (response.get("incomplete_details") or {}).get("reason")
    usage = response.get("usage") or {}
    cached = int((usage.get("input_tokens_details") or {}).get("cached_tokens") or 0)
    return ResponseFinished(
        delegation_id,
        _text(response, "id"),
        status,
        str(error or reason or ""),
        Usage(
            text_in=int(usage.get("input_tokens") or 0) - cached,
            cached_text_in=cached,
            text_out=int(usage.get("output_tokens") or 0),
        ),
    )


def _facts(session: dict[str, Any]) -> SessionFacts:
    backend = (session.get("delegation") or {}).get("responses") or {}
    tools = backend.get("tools")
    expires_at = session.get("expires_at")
    return SessionFacts(
        format=_format((session.get("audio") or {}).get("format")),
        tools=None if tools is None else frozenset(str(tool.get("name")) for tool in tools),
        expires_at=None if expires_at is None else float(expires_at),
    )


def _format(spec: dict[str, Any] | None) -> AudioFormat | None:
    if spec is None or spec.get("type") not in _ENCODINGS:
        return None
    match _ENCODINGS[spec["type"]]:
        case "pcmu":
            return AudioFormat("pcmu", int(spec["rate"]))
        case "pcma":
            return AudioFormat("pcma", int(spec["rate"]))
        case _:
            return AudioFormat("pcm16", int(spec["rate"]))


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


# Events of ours.


def encode(message: ClientMessage) -> bytes:
    """Write one client event as JSON, the payload of a text frame; silence goes by :func:`append_audio`."""
    return orjson.dumps(_event(message))


def _event(message: ClientMessage) -> dict[str, Any]:
    match message:
        case StartSession(event_id, session):
            return {"type": "session.start", "event_id": event_id, "session": session}
        case UpdateSession(event_id, session):
            return {"type": "session.update", "event_id": event_id, "session": session}
        case AppendContext(event_id, context, text, delegation_id):
            return {
                "type": f"session.{context.value}.append",
                "event_id": event_id,
                "content": text,
                "delegation_id": delegation_id,
            }
        case AnswerCall(event_id, call_id, output):
            item = {"type": "function_call_output", "call_id": call_id, "output": output}
            return {"type": "response.item.create", "event_id": event_id, "item": item}
        case ContinueResponse(event_id):
            return {"type": "response.create", "event_id": event_id}
        case CloseSession(event_id):
            return {"type": "session.close", "event_id": event_id}
        case SendSilence():
            raise ValueError("silence is audio, not an event")
