"""
The OpenAI Realtime (GA) wire as dictionaries: ids, items, responses, errors. No I/O.

Shapes as in the SDK's types (openai 3.57, ``openai.types.realtime``) and in recorded sessions; the tests
validate every event that the server emits with those types.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping
from typing import Any, TypeAlias

from providers.fakes.openai_shapes import Problem
from providers.types import PCM16_24K, PCMA, PCMU, AudioFormat

Json: TypeAlias = dict[str, Any]
"""A JSON object that this side builds or has checked."""
JsonView: TypeAlias = Mapping[str, Any]
"""The same, to read only."""
JsonField: TypeAlias = Any
"""A field of an event that this side builds; ``openai_check`` and the tests validate the whole."""

FORMATS: dict[str, AudioFormat] = {"audio/pcm": PCM16_24K, "audio/pcmu": PCMU, "audio/pcma": PCMA}

VOICES = ("alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar")

SESSION_EXPIRED = "Your session hit the maximum duration of 60 minutes."

_ID_LETTERS = string.ascii_letters + string.digits

ERROR_MESSAGES: dict[str, str] = {
    "server_error": "The server had an error while processing your request. Sorry about that!",
    "rate_limit_exceeded": "Rate limit reached for this model. Please try again in 1.5s.",
    "inference_rate_limit_exceeded": "The inference rate limit was exceeded. Please try again later.",
    "insufficient_quota": "You exceeded your current quota, please check your plan and billing details.",
    "invalid_api_key": "Incorrect API key provided.",
    "session_expired": SESSION_EXPIRED,
}


class Ids:
    """Makes ids such as ``item_`` and 21 letters; a seed makes them the same in every run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def new(self, prefix: str) -> str:
        return f"{prefix}_{''.join(self._random.choices(_ID_LETTERS, k=21))}"


SHUTDOWN_DATES: dict[str, str | None] = {
    "gpt-realtime-2.1": None,
    "gpt-realtime-2.1-mini": None,
    "gpt-realtime-2": None,
    "gpt-realtime-1.5": None,
    "gpt-realtime": "2027-01-20",
    "gpt-realtime-mini": "2027-01-20",
    "gpt-live-transcribe": None,
    "gpt-transcribe": None,
    "whisper-1": "2027-02-26",
    "gpt-4o-transcribe": "2027-02-26",
    "gpt-4o-mini-transcribe": "2027-02-26",
}


def format_of(spec: JsonView) -> AudioFormat:
    """Return the format that ``{"type": "audio/pcmu"}`` names."""
    return FORMATS[spec["type"]]


def user_audio_item(item_id: str, transcript: str | None = None) -> Json:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_audio", "transcript": transcript}],
    }


def assistant_item(item_id: str, status: str, content: list[Json]) -> Json:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def function_call_item(item_id: str, call_id: str, name: str, arguments: str, status: str) -> Json:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "function_call",
        "status": status,
        "name": name,
        "call_id": call_id,
        "arguments": arguments,
    }


def client_item(item: JsonView, item_id: str) -> Json:
    """Return an item that a client created, as the server repeats it."""
    return {**item, "id": item_id, "object": "realtime.item", "status": item.get("status", "completed")}


def error(problem: Problem, event_id: str | None, *, kind: str = "invalid_request_error") -> Json:
    """Return the ``error`` object of an error event."""
    return {
        "type": kind,
        "code": problem.code,
        "message": problem.message,
        "param": problem.param,
        "event_id": event_id,
    }


def error_kind(code: str) -> str:
    """Return the ``type`` that goes with an error's ``code``."""
    return code if code == "server_error" else "invalid_request_error"


def error_message(code: str) -> str:
    return ERROR_MESSAGES.get(code, f"The request failed: {code}.")


def failure(code: str) -> Json:
    """Return the ``status_details`` of a failed response."""
    kind = "server_error" if code == "server_error" else "invalid_request_error"
    if "rate_limit" in code:
        kind = "rate_limit_error"
    return {"type": "failed", "error": {"type": kind, "code": code, "message": error_message(code)}}


def usage(
    *, text_in: int, audio_in: int, text_out: int, audio_out: int, cached_text: int = 0, cached_audio: int = 0
) -> Json:
    """Return a usage object; totals are the sums of their parts, and cached tokens are input tokens, too."""
    return {
        "total_tokens": text_in + audio_in + text_out + audio_out,
        "input_tokens": text_in + audio_in,
        "output_tokens": text_out + audio_out,
        "input_token_details": {
            "text_tokens": text_in,
            "audio_tokens": audio_in,
            "image_tokens": 0,
            "cached_tokens": cached_text + cached_audio,
            "cached_tokens_details": {
                "text_tokens": cached_text,
                "audio_tokens": cached_audio,
                "image_tokens": 0,
            },
        },
        "output_token_details": {"text_tokens": text_out, "audio_tokens": audio_out},
    }


def model_list() -> Json:
    """Return the answer of ``GET /models``: what a telephone needs, with the announced dates."""
    return {
        "object": "list",
        "data": [
            {
                "id": name,
                "object": "model",
                "created": 1_788_000_000,
                "owned_by": "openai",
                "shutdown_date": date,
            }
            for name, date in SHUTDOWN_DATES.items()
        ],
    }


def rate_limits(used: int) -> list[Json]:
    return [{"name": "tokens", "limit": 40000, "remaining": max(0, 40000 - used), "reset_seconds": 1.5}]


def http_error(status: int) -> tuple[str, Json]:
    """Return the error code and the body with which the service refuses a handshake."""
    code, kind, message = {
        401: ("invalid_api_key", "invalid_request_error", "Incorrect API key provided."),
        403: ("unsupported_country_region_territory", "request_forbidden", "Access is not allowed."),
        404: (
            "model_not_found",
            "invalid_request_error",
            "The model does not exist or you have no access to it.",
        ),
        429: ("rate_limit_exceeded", "requests", "Rate limit reached. Please try again later."),
    }.get(status, ("server_error", "server_error", "The server is overloaded. Please try again later."))
    return code, {"error": {"message": message, "type": kind, "param": None, "code": code}}
