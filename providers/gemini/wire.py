"""
JSON of the Gemini Live API to and from :mod:`providers.gemini.messages`.

The official SDK opens the connection and sends the set-up; all later frames are read and written here,
because its models cost ten times more than the audio is worth, and one frame that it does not know makes
its reader raise ``TypeError`` (``reference/providers.md`` 4.6). What the service writes is camelCase, and so
is what we write; it takes both.
"""

from __future__ import annotations

import binascii
import re

import msgspec
import orjson
import pybase64

from providers.gemini.messages import (
    AddTurns,
    AnswerCall,
    Blob,
    ClientMessage,
    EndAudio,
    SendText,
    ServerMessage,
    Turn,
    UpdateContext,
)
from tools.types import JsonValue

OUTPUT_RATE = 24000
_MIME = f"audio/pcm;rate={OUTPUT_RATE}"
_RATE = re.compile(r";\s*rate\s*=\s*(\d{4,6})\b")
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_BEFORE = b'{"realtimeInput":{"audio":{"mimeType":"audio/pcm;rate=16000","data":"'
_AFTER = b'"}}}'
_SPACE = b" \n\r\t"
_HEAD_AT_MOST = 400
_BLOB = b'"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"'
_HEADS = frozenset(
    {b'{"serverContent":{"modelTurn":{"role":"model",' + _BLOB, b'{"serverContent":{"modelTurn":{' + _BLOB}
)
_TAILS = frozenset({b'"}}]}}}', b'"}}],"role":"model"}}}'})
_decoder = msgspec.json.Decoder(ServerMessage)


class WireError(Exception):
    """A frame that is no message: not JSON, or a known key with something else in it."""


# The audio path.


def send_audio(audio: bytes) -> bytes:
    """Build ``realtimeInput`` of PCM16 at 16 kHz, the payload of a text frame."""
    return _BEFORE + pybase64.b64encode(audio) + _AFTER


def audio_at_once(raw: bytes) -> bytes | None:
    """
    Cut the audio out of a frame that holds nothing else, by the position of its keys.

    ``None`` says only that the frame is not laid out as usual; then :func:`decode` knows. The layout is
    checked on both sides of the audio, but for white space, and the audio is base64 to its end.
    """
    key = raw.find(b'"data"', 0, _HEAD_AT_MOST)
    begin = raw.find(b'"', key + 6) + 1
    end = raw.find(b'"', begin)
    if key < 0 or begin <= 0 or end < 0:
        return None
    if raw[:begin].translate(None, _SPACE) not in _HEADS or raw[end:].translate(None, _SPACE) not in _TAILS:
        return None
    try:
        return pybase64.b64decode(raw[begin:end], validate=True)
    except binascii.Error:
        return None


def decode(raw: bytes) -> ServerMessage:
    """
    Read one frame.

    Raises:
        WireError: The frame is broken. The session can go on without it.
    """
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as exc:  # a ValidationError names the key, not the value
        raise WireError(f"a frame cannot be read: {exc}") from None


def audio(blob: Blob) -> bytes:
    """
    Decode a piece of audio, in either alphabet of base64.

    Raises:
        WireError: It is not base64.
    """
    data = blob.data
    try:
        return pybase64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        pass
    plain = data.replace("-", "+").replace("_", "/")
    try:
        return pybase64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise WireError("a piece of audio is not base64") from None


def has_rate(blob: Blob) -> bool:
    """Say whether a piece of audio has the one rate that the line was prepared for."""
    mime = blob.mime_type
    if mime == _MIME or not mime:
        return True
    named = _RATE.search(mime)
    return mime.startswith("audio/pcm") and (named is None or int(named[1]) == OUTPUT_RATE)


def duration(text: str | None) -> float | None:
    """Read protobuf's ``"50s"`` in seconds; ``None`` for anything else."""
    found = _DURATION.fullmatch(text or "")
    return float(found[1]) if found else None


# Messages of the client.


def encode(message: ClientMessage) -> bytes:
    """Build the payload of a text frame."""
    return orjson.dumps(_object(message))


def _object(message: ClientMessage) -> dict[str, object]:
    match message:
        case AddTurns():
            turns = [_content(turn) for turn in message.turns]
            return {"clientContent": {"turns": turns, "turnComplete": message.complete}}
        case SendText():
            return {"realtimeInput": {"text": message.text}}
        case AnswerCall():
            return {"toolResponse": {"functionResponses": [_response(message)]}}
        case UpdateContext():
            return {"contextUpdate": _context(message)}
        case EndAudio():
            return {"realtimeInput": {"audioStreamEnd": True}}


def _content(turn: Turn) -> JsonValue:
    return {"role": "model" if turn.model else "user", "parts": [{"text": turn.text}]}


def _response(answer: AnswerCall) -> dict[str, object]:
    response: dict[str, object] = {"name": answer.name, "response": orjson.Fragment(answer.output)}
    if answer.call_id:
        response["id"] = answer.call_id
    if answer.scheduling:
        response["scheduling"] = answer.scheduling
    return response


def _context(update: UpdateContext) -> dict[str, object]:
    context: dict[str, object] = {}
    if update.instructions is not None:
        context["systemInstruction"] = {"parts": [{"text": update.instructions}], "role": "user"}
    if update.tools is not None:
        context["tools"] = {"tools": update.tools}
    return context
