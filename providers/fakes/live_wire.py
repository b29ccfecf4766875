"""
The GPT-Live wire as dictionaries: formats, voices, errors, the nested events of the backend. No I/O.

Shapes as in the SDK's types (openai 3.57, ``openai.types.live`` and ``openai.types.responses``); the tests
validate every event that the server emits with those types.
"""

from __future__ import annotations

from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Json, JsonView, error_kind, error_message
from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU, AudioFormat

MODELS = ("gpt-live-1", "gpt-live-1.1")

VOICES = (
    "alloy", "ash", "ballad", "beacon", "bossa", "cedar", "cinder", "coral", "delta", "echo", "gleam",
    "marin", "meridian", "quartz", "ripple", "sage", "shida", "shimmer", "stone", "tempo", "verse", "vesper",
    "willow",
)  # fmt: skip

_FORMATS: dict[tuple[str, int], AudioFormat] = {
    ("audio/pcm", 16000): PCM16_16K,
    ("audio/pcm", 24000): PCM16_24K,
    ("audio/pcmu", 8000): PCMU,
    ("audio/pcma", 8000): PCMA,
}


def format_of(spec: JsonView) -> AudioFormat | None:
    """Return the format that ``{"type": "audio/pcmu", "rate": 8000}`` names, if there is one."""
    return _FORMATS.get((spec["type"], spec["rate"]))


def tokens(text: str) -> int:
    """Estimate the tokens of a text; the service counts with a tokenizer of its own."""
    return -(-len(text.encode()) // 4)


def error(problem: Problem, client_event_id: str | None) -> Json:
    """Return the ``error`` object of an error event."""
    return {
        "type": error_kind(problem.code),
        "code": problem.code,
        "message": problem.message,
        "param": problem.param,
        "client_event_id": client_event_id,
    }


# Nested events of the backend: the Responses API's stream.


def response(response_id: str, model: str, status: str, **more: object) -> Json:
    """Return a snapshot of a response; tools, output and instructions are cleared, as the service does."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": status,
        "instructions": None,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        **more,
    }


def response_usage(text_in: int, text_out: int) -> Json:
    return {
        "input_tokens": text_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": text_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": text_in + text_out,
    }


def response_failure(code: str) -> Json:
    """Return the ``error`` of a failed response."""
    known = "rate_limit_exceeded" if "rate_limit" in code else "server_error"
    return {"code": known, "message": error_message(code)}


def function_call(item_id: str, call_id: str, name: str, arguments: str, status: str) -> Json:
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        "name": name,
        "call_id": call_id,
        "arguments": arguments,
    }


def message(item_id: str, text: str | None) -> Json:
    """Return a message of the backend's model; without a text it has only begun."""
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": "in_progress" if text is None else "completed",
        "content": [] if text is None else [text_part(text)],
    }


def text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
