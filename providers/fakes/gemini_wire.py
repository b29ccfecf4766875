"""
The Gemini Live wire as dictionaries: server messages, and audio out of client messages. No I/O.

Shapes as in the SDK's types (google-genai 3.6) and in transcripts of the service; ``gemini_check`` validates
every message that the server sends with those types.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

from providers.fakes.gemini_setup import INVALID, UNSUPPORTED
from providers.fakes.gemini_shapes import Json, JsonView, Refused
from providers.types import PCM16_24K, AudioFormat

OUTPUT = PCM16_24K
OUTPUT_MIME = "audio/pcm;rate=24000"
TOKENS_PER_SECOND = 25
"""Of audio, both ways."""
INTERNAL = "Internal error encountered."
EXPIRED = "Deadline expired before operation could complete."
CLOSE_REASONS = {1000: "", 1007: INVALID, 1008: UNSUPPORTED, 1011: INTERNAL}

_URL_SAFE = str.maketrans("-_", "+/")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_MIME = re.compile(r"audio/(?:pcm|l16)\s*;\s*rate=(\d{4,6})", re.IGNORECASE)
_RATES = (8000, 48000)
_BAD_BASE64 = "Invalid value at 'realtime_input.audio.data' (TYPE_BYTES), Base64 decoding failed."
_STATUS_CODES = {"INVALID_ARGUMENT": 3, "RESOURCE_EXHAUSTED": 8, "INTERNAL": 13, "UNAVAILABLE": 14}


def decode_audio(blob: JsonView) -> tuple[bytes, AudioFormat]:
    """
    Return the samples of a ``Blob`` and their format; raise :exc:`Refused`.

    Both base64 alphabets are read, with and without padding, as protobuf JSON does. A rate is taken for the
    next lower multiple of 1 kHz.
    """
    mime = str(blob.get("mimeType", ""))
    found = _MIME.fullmatch(mime)
    rate = int(found[1]) if found else 0
    if not _RATES[0] <= rate <= _RATES[1]:
        raise Refused(1007, f"Unsupported mime type {mime!r}: audio/pcm;rate=16000 is expected.")
    audio = decode_base64(str(blob.get("data", "")))
    return audio[: len(audio) & ~1], AudioFormat("pcm16", rate // 1000 * 1000)


def decode_base64(text: str) -> bytes:
    text = text.translate(_URL_SAFE)
    if not _BASE64.fullmatch(text):
        raise Refused(1007, _BAD_BASE64)
    bare = text.rstrip("=")
    try:
        return binascii.a2b_base64(bare + "=" * (-len(bare) % 4))
    except binascii.Error as error:
        raise Refused(1007, _BAD_BASE64) from error


def duration(seconds: float) -> str:
    """Return a protobuf duration: ``50s``, ``1.280s``."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds:.3f}s"


def content(**fields: object) -> Json:
    return {"serverContent": fields}


def audio_part(audio: bytes) -> Json:
    return {"inlineData": {"mimeType": OUTPUT_MIME, "data": base64.b64encode(audio).decode()}}


def model_turn(parts: Iterable[Json]) -> Json:
    return {"role": "model", "parts": list(parts)}


def tool_call(calls: Iterable[tuple[str, str, Json]]) -> Json:
    """Return a message with these calls: id, name, arguments."""
    return {
        "toolCall": {"functionCalls": [{"id": id_, "name": name, "args": args} for id_, name, args in calls]}
    }


def grounding(queries: Iterable[str]) -> Json:
    """Return what was searched for and one page that was found for each."""
    asked = list(queries)
    pages = [{"web": {"uri": "https://example.com/", "title": query}} for query in asked]
    return {"webSearchQueries": asked, "groundingChunks": pages}


def resumption(handle: str, *, consumed: int | None) -> Json:
    """Return an update with a handle, or one that says that now is no time to resume."""
    update: Json = {"newHandle": handle, "resumable": True} if handle else {"resumable": False}
    if consumed is not None:
        update["lastConsumedClientMessageIndex"] = consumed
    return {"sessionResumptionUpdate": update}


def voice_activity(kind: str, at_ms: int) -> Json:
    return {"voiceActivity": {"type": kind, "audioOffset": duration(at_ms / 1000)}}


def vad_signal(kind: str) -> Json:
    return {"voiceActivityDetectionSignal": {"vadSignalType": kind}}


def usage(*, text_in: int, audio_in: int, text_out: int, audio_out: int) -> Json:
    """Return ``usageMetadata``; the total is the sum of its parts, as the service's is."""
    return {
        "promptTokenCount": text_in + audio_in,
        "responseTokenCount": text_out + audio_out,
        "totalTokenCount": text_in + audio_in + text_out + audio_out,
        "promptTokensDetails": _details(text_in, audio_in),
        "responseTokensDetails": _details(text_out, audio_out),
    }


def _details(text: int, audio: int) -> list[Json]:
    counts = (("TEXT", text), ("AUDIO", audio))
    return [{"modality": modality, "tokenCount": count} for modality, count in counts if count]


def error(status: str) -> Json:
    """Return a message that the SDK does not know: the service's own error object."""
    name = status if status in _STATUS_CODES else "INTERNAL"
    return {"error": {"code": _STATUS_CODES[name], "message": INTERNAL, "status": name}}
