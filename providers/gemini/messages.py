"""
The messages of Gemini Live that a call has a use for.

A frame of the server may hold several things at once, so it is one struct with everything optional, in the
service's own words; what is not named here is skipped while decoding. Ours are one class each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tools.types import JsonValue

# The server's.


class Blob(msgspec.Struct, rename="camel"):
    """Audio as base64, with its rate in the type: ``audio/pcm;rate=24000``."""

    mime_type: str | None = None
    data: str = ""


class Part(msgspec.Struct, rename="camel"):
    inline_data: Blob | None = None
    thought: bool | None = None


class Content(msgspec.Struct, rename="camel"):
    parts: list[Part] | None = None


class Transcription(msgspec.Struct, rename="camel"):
    """A piece of a transcript, not the whole so far."""

    text: str | None = None
    finished: bool | None = None


class ServerContent(msgspec.Struct, rename="camel"):
    model_turn: Content | None = None
    generation_complete: bool | None = None
    turn_complete: bool | None = None
    turn_complete_reason: str | None = None
    interrupted: bool | None = None
    waiting_for_input: bool | None = None
    interaction_status: str | None = None
    input_transcription: Transcription | None = None
    output_transcription: Transcription | None = None


class FunctionCall(msgspec.Struct, rename="camel"):
    id: str | None = None
    name: str = ""
    args: msgspec.Raw = msgspec.Raw()


class ToolCallMessage(msgspec.Struct, rename="camel"):
    function_calls: list[FunctionCall] | None = None


class ToolCallCancellation(msgspec.Struct, rename="camel"):
    ids: list[str] | None = None


class GoAway(msgspec.Struct, rename="camel"):
    time_left: str | None = None


class ResumptionUpdate(msgspec.Struct, rename="camel"):
    new_handle: str | None = None
    resumable: bool | None = None


class ModalityCount(msgspec.Struct, rename="camel"):
    modality: str | None = None
    token_count: int | None = None


class UsageMetadata(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    response_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    prompt_tokens_details: list[ModalityCount] | None = None
    cache_tokens_details: list[ModalityCount] | None = None
    response_tokens_details: list[ModalityCount] | None = None


class VoiceActivity(msgspec.Struct, rename="camel"):
    type: str | None = None
    voice_activity_type: str | None = None


class ServerMessage(msgspec.Struct, rename="camel"):
    """Any frame of the server; all ``None`` for one that we have no use for."""

    server_content: ServerContent | None = None
    tool_call: ToolCallMessage | None = None
    tool_call_cancellation: ToolCallCancellation | None = None
    go_away: GoAway | None = None
    session_resumption_update: ResumptionUpdate | None = None
    usage_metadata: UsageMetadata | None = None
    voice_activity: VoiceActivity | None = None
    error: msgspec.Raw = msgspec.Raw()


# Ours.


@dataclass(frozen=True, slots=True)
class Turn:
    """One party's words; ``model`` is false for everything that is no speech of the model."""

    text: str
    model: bool = False


@dataclass(frozen=True, slots=True)
class AddTurns:
    """Put turns into the conversation; ``complete`` asks for an answer to them."""

    turns: tuple[Turn, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class SendText:
    """Text as if the caller had said it; asks for an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """
    The answer to a function call.

    Args:
        call_id: The server's; empty where it gave none.
        name: Of the function.
        output: JSON text of an object.
        scheduling: ``WHEN_IDLE`` lets the model speak about it when it has said what it is saying, ``SILENT``
            not at all; empty for functions that block, about which it always speaks.
    """

    call_id: str
    name: str
    output: str
    scheduling: str


@dataclass(frozen=True, slots=True)
class UpdateContext:
    """Change instructions or tools; ``None`` leaves a part as it is."""

    instructions: str | None
    tools: JsonValue | None


@dataclass(frozen=True, slots=True)
class EndAudio:
    """Say that no caller audio comes for a while, so that the server does not wait for the end of a word."""


ClientMessage: TypeAlias = AddTurns | SendText | AnswerCall | UpdateContext | EndAudio
