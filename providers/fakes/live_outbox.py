"""
What a GPT-Live session sends, and the record of it. No I/O.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable

import orjson

from providers.fakes import live_wire as wire
from providers.fakes.openai_outbox import MAX_RECORDED, InvalidServerEvent, Recorded
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Ids, Json, JsonField


class Outbox:
    """
    Server events on their way.

    Args:
        check: Returns what is wrong with an event, for ``--validate``.
    """

    def __init__(self, ids: Ids, check: Callable[[Json], str | None] | None) -> None:
        self._ids = ids
        self._check = check
        self._waiting: list[bytes] = []
        self.sent: deque[Recorded] = deque(maxlen=MAX_RECORDED)
        """Everything but audio."""
        self.now = 0.0
        self.stalled = False

    def emit(self, kind: str, *, cause: str | None = None, **fields: JsonField) -> None:
        """Send an event; ``cause`` is the id of the client's event that it answers."""
        event: Json = {"type": kind, "event_id": self._ids.new("event"), **fields}
        if cause is not None:
            event["client_event_id"] = cause
        self._send(event)
        if not self.stalled:
            # The session changes after it was sent: the record keeps it as it was.
            self.sent.append(Recorded(self.now, orjson.loads(orjson.dumps(event))))

    def emit_audio(self, audio: bytes) -> None:
        """Send a piece of the model's voice; such an event has no id."""
        self._send({"type": "session.output_audio.delta", "delta": base64.b64encode(audio).decode()})

    def emit_raw(self, frame: bytes) -> None:
        """Send a frame as it is, for faults."""
        if not self.stalled:
            self._waiting.append(frame)

    def refuse(self, problem: Problem, cause: str | None) -> None:
        self.emit("error", cause=cause, error=wire.error(problem, cause))

    def _send(self, event: Json) -> None:
        if self.stalled:
            return
        problem = self._check(event) if self._check else None
        if problem:
            raise InvalidServerEvent(f"{event['type']}: {problem}")
        self._waiting.append(orjson.dumps(event))

    def take(self) -> list[bytes]:
        """Return what is to be sent, in order, and forget it."""
        waiting, self._waiting = self._waiting, []
        return waiting
