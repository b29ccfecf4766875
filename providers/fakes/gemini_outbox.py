"""
What a Gemini Live session sends, the record of it, and what the session's parts share. No I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from providers.fakes.agenda import Agenda
from providers.fakes.faults import Faults
from providers.fakes.gemini_conversation import Conversation
from providers.fakes.gemini_setup import Setup
from providers.fakes.gemini_shapes import Json, JsonView
from providers.fakes.journal import Note
from providers.fakes.script import Script

MAX_RECORDED = 5_000
"""Messages of a session that are kept for tests."""


class InvalidServerMessage(Exception):
    """The server made a message that the SDK's types refuse: a bug of the fake."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message and when it came or went, in the owner's clock; audio is left out."""

    at: float
    message: JsonView

    @property
    def kind(self) -> str:
        """The first key of the message."""
        return next(iter(self.message), "")


class Outbox:
    """
    Server messages on their way.

    Args:
        check: Returns what is wrong with a message, for ``--validate``.
        note: Is told what is sent.
    """

    def __init__(self, check: Callable[[Json], str | None] | None, note: Note | None = None) -> None:
        self._check = check
        self._note = note
        self._waiting: list[bytes] = []
        self.sent: deque[Sent] = deque(maxlen=MAX_RECORDED)
        self.now = 0.0
        self.stalled = False

    def send(self, message: Json) -> None:
        """Send a message; nothing leaves a stalled outbox."""
        if self.stalled:
            return
        problem = self._check(message) if self._check else None
        if problem:
            raise InvalidServerMessage(f"{message}: {problem}"[:2000])
        self._waiting.append(orjson.dumps(message))
        quiet = _without_audio(message)
        self.sent.append(Sent(self.now, quiet))
        if self._note is not None:
            self._note("server", quiet)

    def send_raw(self, frame: bytes) -> None:
        """Send a frame as it is, for faults."""
        if not self.stalled:
            self._waiting.append(frame)

    def take(self) -> list[bytes]:
        """Return what is to be sent, in order, and forget it."""
        waiting, self._waiting = self._waiting, []
        return waiting


def _without_audio(message: Json) -> JsonView:
    turn = message.get("serverContent", {}).get("modelTurn")
    if turn is None:
        return message
    parts = [
        {"inlineData": {"mimeType": part["inlineData"]["mimeType"]}} if "inlineData" in part else part
        for part in turn["parts"]
    ]
    return {**message, "serverContent": {**message["serverContent"], "modelTurn": {**turn, "parts": parts}}}


@dataclass(slots=True)
class Context:
    """What ear and mouth of one session have in common."""

    setup: Setup
    conversation: Conversation
    outbox: Outbox
    agenda: Agenda
    faults: Faults
    script: Script
