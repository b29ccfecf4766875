"""
What a server session sends, and the record of it. No I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from providers.fakes.journal import Note
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Ids, Json, JsonField, JsonView, error, error_kind

MAX_RECORDED = 5_000
"""Events of a session that are kept for tests."""


class InvalidServerEvent(Exception):
    """The server made an event that the SDK's types refuse: a bug of the fake."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event and when it came or went, in the owner's clock; audio is left out."""

    at: float
    event: JsonView

    @property
    def type(self) -> str:
        return str(self.event.get("type", ""))


class Outbox:
    """
    Server events on their way.

    Args:
        check: Returns what is wrong with an event, for ``--validate``.
        note: Writes down what is sent, without audio.
    """

    def __init__(
        self, ids: Ids, check: Callable[[Json], str | None] | None, note: Note | None = None
    ) -> None:
        self._ids = ids
        self._check = check
        self._note = note
        self._waiting: list[bytes] = []
        self.sent: deque[Recorded] = deque(maxlen=MAX_RECORDED)
        self.now = 0.0
        self.stalled = False

    def emit(self, kind: str, **fields: JsonField) -> None:
        """Send an event; nothing leaves a stalled outbox."""
        if self.stalled:
            return
        event = {"type": kind, "event_id": self._ids.new("event"), **fields}
        problem = self._check(event) if self._check else None
        if problem:
            raise InvalidServerEvent(f"{kind}: {problem}")
        self._waiting.append(orjson.dumps(event))
        kept = (
            fields
            if kind != "response.output_audio.delta"
            else {k: v for k, v in fields.items() if k != "delta"}
        )
        # Items change after they were sent (status, content): the record keeps them as they were.
        self.sent.append(Recorded(self.now, orjson.loads(orjson.dumps({"type": kind, **kept}))))
        if self._note is not None:
            self._note("server", self.sent[-1].event)

    def emit_raw(self, frame: bytes) -> None:
        """Send a frame as it is, for faults."""
        if not self.stalled:
            self._waiting.append(frame)

    def refuse(self, problem: Problem, event_id: str | None) -> None:
        self.emit("error", error=error(problem, event_id, kind=error_kind(problem.code)))

    def take(self) -> list[bytes]:
        """Return what is to be sent, in order, and forget it."""
        waiting, self._waiting = self._waiting, []
        return waiting
