"""
The tool calls of one conversation: which the server still waits for, and how it can be told.

Each call that the server does not take back is answered exactly once: one without an answer leaves the
model silent for good (fault 21). A session that was resumed knows only what it knew when its handle was
made: an answer to a call after that is no answer to it, and an answer before it has to come again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from providers.gemini.messages import AnswerCall, FunctionCall, Turn
from tools.types import ToolCall, ToolResult

_KEPT = 256
"""Calls that are remembered, so that one that is sent again is not run again."""
_ANSWERED_KEPT = 64


@dataclass(slots=True)
class Entry:
    """
    A call that was asked for.

    Args:
        call: As the dispatcher has it.
        wire_id: The server's id; empty where it gave none.
        known: Whether the connection that is open now knows the call.
        saved: Whether a resumed session will know it.
        output: The answer, as JSON text.
    """

    call: ToolCall
    wire_id: str
    known: bool = True
    saved: bool = False
    output: str = ""

    def told(self, scheduling: str) -> AnswerCall | Turn:
        """Return the answer for the wire: as words, where the server does not know the call."""
        if self.known:
            return AnswerCall(self.wire_id, self.call.name, self.output, scheduling)
        return Turn(f"[The result of {self.call.name} with {self.call.arguments}: {self.output}]")


class CallBook:
    """
    Keeps the calls that wait for an answer, and the answers that a resumed session would miss.

    Args:
        prefix: Begins the ids of calls to which the server gave none.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0
        self._pending: dict[str, Entry] = {}
        self._answered: deque[Entry] = deque(maxlen=_ANSWERED_KEPT)
        self._taken: deque[Entry] = deque(maxlen=_ANSWERED_KEPT)
        """Of the answers, those that the server had at the end of its last turn."""
        self._seen: deque[str] = deque(maxlen=_KEPT)

    @property
    def pending(self) -> bool:
        """Whether any answer is owed by us."""
        return bool(self._pending)

    def request(self, calls: list[FunctionCall], response_id: str) -> tuple[ToolCall, ...]:
        """Take the calls of one message, and return those that are new."""
        new: list[ToolCall] = []
        for call in calls:
            call_id = call.id or self._next_id()
            if call_id in self._seen:
                continue
            self._seen.append(call_id)
            arguments = bytes(call.args).decode()
            nothing = arguments in ("", "null")
            todo = ToolCall(call_id, call.name, "{}" if nothing else arguments, response_id)
            self._pending[call_id] = Entry(todo, call.id or "")
            new.append(todo)
        return tuple(new)

    def answer(self, result: ToolResult) -> Entry | None:
        """Settle a call; ``None`` for one that is unknown, answered or cancelled."""
        entry = self._pending.pop(result.call_id, None)
        if entry is not None:
            entry.output = result.to_json()
            self._answered.append(entry)
        return entry

    def cancel(self, call_ids: list[str]) -> tuple[str, ...]:
        """Forget calls that the server took back, and return those that were open."""
        return tuple(call_id for call_id in call_ids if self._pending.pop(call_id, None))

    def cover(self) -> None:
        """Note the end of a turn: the server has taken in all answers before."""
        self._taken.extend(self._answered)
        self._answered.clear()

    def save(self) -> None:
        """Note that a resumed session will know all calls so far, and the answers that were taken in."""
        self._taken.clear()
        for entry in (*self._pending.values(), *self._answered):
            entry.saved = True

    def rewind(self) -> None:
        """Note that the server's memory goes back to the last save."""
        self._answered.extendleft(reversed(self._taken))
        self._taken.clear()
        for entry in (*self._pending.values(), *self._answered):
            entry.known = entry.saved

    @property
    def answers_again(self) -> tuple[Entry, ...]:
        """After :meth:`rewind`: the answers of which the server may know nothing."""
        return tuple(self._answered)

    def _next_id(self) -> str:
        self._count += 1
        return f"{self._prefix}-call-{self._count}"
