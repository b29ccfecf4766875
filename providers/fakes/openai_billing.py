"""
What the fake service bills, by the rules of the real one. No I/O.

Every response bills the whole conversation again: instructions, tools and all items. Audio of the caller
is one token for 100 ms, audio of the model one for 50 ms; a truncated item costs what is left of it. What
the response before it had read too comes from the cache, in blocks. Text is estimated at four characters
a token: the real tokenizer is nobody's business here.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from providers.fakes.openai_conversation import Conversation
from providers.fakes.openai_wire import Json, JsonView

CALLER_MS_PER_TOKEN = 100
AGENT_MS_PER_TOKEN = 50
CHARACTERS_PER_TOKEN = 4
CACHE_BLOCK = 64
"""Tokens that are cached together."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a response has read, in tokens; the cached ones are contained in the others."""

    text: int = 0
    audio: int = 0
    cached_text: int = 0
    cached_audio: int = 0


class Billing:
    """Counts what each response of a session reads."""

    def __init__(self) -> None:
        self._last = Read()

    def read(self, session: JsonView, conversation: Conversation) -> Read:
        """Bill a response that begins now."""
        text = text_tokens(session["instructions"])
        text += sum(text_tokens(orjson.dumps(tool).decode()) for tool in session["tools"])
        audio = 0
        for item in conversation.items:
            text += _text_of(item)
            per_token = AGENT_MS_PER_TOKEN if item.get("role") == "assistant" else CALLER_MS_PER_TOKEN
            audio += _up(conversation.audio_ms(item["id"]), per_token)
        read = Read(text, audio, _blocks(text, self._last.text), _blocks(audio, self._last.audio))
        self._last = read
        return read


def text_tokens(text: str) -> int:
    return _up(len(text), CHARACTERS_PER_TOKEN)


def transcription(model: str, audio_ms: int, text: str) -> Json:
    """Return the usage of one transcript: by length for the whisper models, by tokens for all others."""
    if "whisper" in model:
        return {"type": "duration", "seconds": audio_ms / 1000}
    heard, written = _up(audio_ms, CALLER_MS_PER_TOKEN), text_tokens(text)
    return {
        "type": "tokens",
        "total_tokens": heard + written,
        "input_tokens": heard,
        "output_tokens": written,
        "input_token_details": {"text_tokens": 0, "audio_tokens": heard},
    }


def _text_of(item: JsonView) -> int:
    match item["type"]:
        case "message":
            # A transcript beside audio is for people: the model reads the audio.
            return sum(text_tokens(part.get("text") or "") for part in item["content"])
        case "function_call":
            return text_tokens(item["name"] + item["arguments"])
        case "function_call_output":
            return text_tokens(item["output"])
        case _:
            return 0


def _blocks(now: int, before: int) -> int:
    return min(now, before) // CACHE_BLOCK * CACHE_BLOCK


def _up(amount: int, per_token: int) -> int:
    return -(-amount // per_token)
