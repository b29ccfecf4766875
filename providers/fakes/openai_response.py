"""
One response of the server: the beats of a performance as wire events, in the service's order. No I/O.

A run emits ``response.created``, then for each item ``output_item.added`` to ``output_item.done``, then
``response.done``. Stopped early, it closes what is open first: a client always sees a closed tree.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from providers.fakes import openai_wire as wire
from providers.fakes.openai_billing import AGENT_MS_PER_TOKEN, Read, text_tokens
from providers.fakes.openai_conversation import Conversation
from providers.fakes.openai_wire import Ids, Json, JsonField, JsonView
from providers.fakes.performance import (
    ArgumentsPiece,
    Beat,
    CallBegan,
    CallEnded,
    Piece,
    SpeechBegan,
    SpeechEnded,
    SpeechPiece,
)
from providers.types import AudioFormat


class Emit(Protocol):
    """Sends one server event."""

    def __call__(self, kind: str, **fields: JsonField) -> None: ...


@dataclass(frozen=True, slots=True)
class Ending:
    """How a response ends: ``response.status`` and ``response.status_details``."""

    status: str
    details: Json | None = None


COMPLETED = Ending("completed")


def cancelled(reason: str) -> Ending:
    return Ending("cancelled", {"type": "cancelled", "reason": reason})


def incomplete(reason: str) -> Ending:
    return Ending("incomplete", {"type": "incomplete", "reason": reason})


def failed(code: str) -> Ending:
    return Ending("failed", wire.failure(code))


@dataclass(slots=True)
class _Open:
    """The output item that is being made."""

    item: Json
    index: int
    said: str = ""
    audio_bytes: int = 0
    call_id: str = ""
    previous: str | None = None


@dataclass(slots=True)
class ResponseRun:
    """
    A response from ``response.created`` to ``response.done``.

    Args:
        beats: What to perform; ``ending`` is how it ends when they are over.
        settings: The effective ``output_modalities, max_output_tokens, audio, metadata``.
        conversation: Where items are added; ``None`` for an out-of-band response.
        read: What it reads, for the bill.
        audio_sent: Told of each delta's length in milliseconds.
    """

    emit: Emit
    ids: Ids
    conversation: Conversation | None
    settings: JsonView
    format: AudioFormat
    beats: Iterator[Beat]
    ending: Ending
    read: Read
    audio_sent: Callable[[int], None]
    due: float = 0.0
    done: bool = False
    id: str = ""
    late_deltas: int = 0
    stray_deltas: int = 0
    _next: Piece | None = None
    _output: list[Json] = field(default_factory=list)
    _open: _Open | None = None
    _text_out: int = 0
    _audio_out_ms: int = 0

    def begin(self, now: float) -> None:
        self.id = self.ids.new("resp")
        self.emit("response.created", response=self._resource("in_progress", None, with_usage=False))
        self.due = now
        self._fetch()

    def advance(self, now: float) -> None:
        """Emit everything that is due."""
        while not self.done and self.due <= now:
            if self._next is None:
                self._finish(self.ending)
            else:
                self._play(self._next)
                self._fetch()

    def stop(self, ending: Ending) -> None:
        """End early: late deltas if there are to be any, the open item closed, ``response.done``."""
        self._overrun(self.late_deltas)
        opened = self._open
        self._finish(ending)
        self._open = opened
        self._overrun(self.stray_deltas)
        self._open = None

    def _fetch(self) -> None:
        wait, self._next = next(self.beats, (0.0, None))
        self.due += wait

    def _overrun(self, deltas: int) -> None:
        for _ in range(deltas):
            if isinstance(self._next, SpeechPiece) and self._open is not None:
                self._play(self._next)
                self._fetch()

    def _play(self, piece: Piece) -> None:
        match piece:
            case SpeechBegan():
                self._begin_message()
            case SpeechPiece(audio, text):
                self._message_delta(audio, text)
            case SpeechEnded():
                self._close_item("completed")
            case CallBegan(tool):
                self._begin_call(tool)
            case ArgumentsPiece(text):
                self._arguments_delta(text)
            case CallEnded():
                self._close_item("completed")

    @property
    def _in_text(self) -> bool:
        return bool(self.settings["output_modalities"] == ["text"])

    def _begin_message(self) -> None:
        self._add(wire.assistant_item(self.ids.new("item"), "in_progress", []))
        part = {"type": "text", "text": ""} if self._in_text else {"type": "audio", "transcript": ""}
        self.emit("response.content_part.added", **self._where(), part=part)

    def _begin_call(self, tool: str) -> None:
        call_id = self.ids.new("call")
        self._add(wire.function_call_item(self.ids.new("item"), call_id, tool, "", "in_progress"), call_id)

    def _add(self, item: Json, call_id: str = "") -> None:
        opened = _Open(item, len(self._output), call_id=call_id)
        self._open = opened
        self._output.append(item)
        self.emit(
            "response.output_item.added", response_id=self.id, output_index=opened.index, item=dict(item)
        )
        if self.conversation is not None:
            opened.previous = self.conversation.add(item)
            self.emit("conversation.item.added", previous_item_id=opened.previous, item=dict(item))

    def _where(self) -> Json:
        assert self._open is not None
        return {
            "response_id": self.id,
            "item_id": self._open.item["id"],
            "output_index": self._open.index,
            "content_index": 0,
        }

    def _message_delta(self, audio: bytes, text: str) -> None:
        assert self._open is not None
        self._open.said += text
        if self._in_text:
            if text:
                self.emit("response.output_text.delta", **self._where(), delta=text)
            return
        if text:
            self.emit("response.output_audio_transcript.delta", **self._where(), delta=text)
        if audio:
            self._open.audio_bytes += len(audio)
            if self.conversation is not None:
                ms = self._open.audio_bytes // self.format.bytes_per_ms
                self.conversation.spoke(self._open.item["id"], ms)
            self.audio_sent(len(audio) // self.format.bytes_per_ms)
            self._audio_out_ms += len(audio) // self.format.bytes_per_ms
            self.emit("response.output_audio.delta", **self._where(), delta=base64.b64encode(audio).decode())

    def _arguments_delta(self, text: str) -> None:
        assert self._open is not None
        self._open.said += text
        self.emit("response.function_call_arguments.delta", **self._call_where(), delta=text)

    def _call_where(self) -> Json:
        assert self._open is not None
        where = self._where() | {"call_id": self._open.call_id}
        del where["content_index"]
        return where

    def _close_item(self, status: str) -> None:
        opened = self._open
        if opened is None:
            return
        if opened.call_id:
            self._close_call(opened)
        else:
            self._close_message(opened)
        opened.item["status"] = status
        if self.conversation is not None and status == "completed":
            if opened.call_id:
                self.conversation.called(opened.call_id, opened.item["name"])
            self.emit("conversation.item.done", previous_item_id=opened.previous, item=dict(opened.item))
        self.emit(
            "response.output_item.done",
            response_id=self.id,
            output_index=opened.index,
            item=dict(opened.item),
        )
        self._open = None

    def _close_call(self, opened: _Open) -> None:
        opened.item["arguments"] = opened.said
        self._text_out += text_tokens(opened.item["name"] + opened.said)
        self.emit(
            "response.function_call_arguments.done",
            **self._call_where(),
            arguments=opened.said,
            name=opened.item["name"],
        )

    def _close_message(self, opened: _Open) -> None:
        where = self._where()
        self._text_out += text_tokens(opened.said)
        if self._in_text:
            opened.item["content"] = [{"type": "output_text", "text": opened.said}]
            self.emit("response.output_text.done", **where, text=opened.said)
            part = {"type": "text", "text": opened.said}
        else:
            opened.item["content"] = [{"type": "output_audio", "transcript": opened.said}]
            self.emit("response.output_audio.done", **where)
            self.emit("response.output_audio_transcript.done", **where, transcript=opened.said)
            part = {"type": "audio", "transcript": opened.said}
        self.emit("response.content_part.done", **where, part=part)

    def _finish(self, ending: Ending) -> None:
        self._close_item("incomplete")
        self.done = True
        self.emit("response.done", response=self._resource(ending.status, ending.details, with_usage=True))

    def usage(self) -> Json:
        audio_out = self._audio_out_ms // AGENT_MS_PER_TOKEN
        return wire.usage(
            text_in=self.read.text,
            audio_in=self.read.audio,
            cached_text=self.read.cached_text,
            cached_audio=self.read.cached_audio,
            text_out=self._text_out,
            audio_out=audio_out,
        )

    def _resource(self, status: str, details: Json | None, *, with_usage: bool) -> Json:
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": [dict(item) for item in self._output] if status != "in_progress" else [],
            "conversation_id": self.conversation.id if self.conversation is not None else None,
            "output_modalities": self.settings["output_modalities"],
            "max_output_tokens": self.settings["max_output_tokens"],
            "audio": {"output": self.settings["audio_output"]},
            "usage": self.usage() if with_usage and status != "failed" else None,
            "metadata": self.settings["metadata"],
        }
