"""
Tool calls of the model: which may run, and that each is answered exactly once.

``response.function_call_arguments.done`` also arrives for a response that was interrupted, so
nothing runs before ``response.done`` says that its response completed.
"""

from __future__ import annotations

from providers.openai.messages import FunctionCall
from tools.types import ToolCall

_ANSWERED_KEPT = 256
_RESPONSES_KEPT = 16


class CallBook:
    """The function calls of one session by ``call_id``."""

    def __init__(self) -> None:
        self._announced: dict[str, dict[str, FunctionCall]] = {}
        self._open: dict[str, str] = {}
        self._closed: dict[str, None] = {}

    def announce(self, response_id: str, call: FunctionCall) -> None:
        """Note a call of a running response; the completed form of a call wins."""
        calls = self._announced.setdefault(response_id, {})
        known = calls.get(call.call_id)
        if known is None or call.completed or not known.completed:
            calls[call.call_id] = call
        if len(self._announced) > _RESPONSES_KEPT:  # a response whose end never came
            del self._announced[next(iter(self._announced))]

    def settle(
        self, response_id: str, calls: tuple[FunctionCall, ...], *, run: bool
    ) -> tuple[tuple[ToolCall, ...], tuple[FunctionCall, ...]]:
        """
        Close a finished response; returns the calls to run and those that we must refuse.

        With ``run`` false, or when a call is not complete, it is refused. A call that was
        settled before is in neither.
        """
        for call in calls:
            self.announce(response_id, call)
        todo: list[ToolCall] = []
        refused: list[FunctionCall] = []
        for call in self._announced.pop(response_id, {}).values():
            if call.call_id in self._open or call.call_id in self._closed:
                continue
            if run and call.completed:
                self._open[call.call_id] = call.name
                todo.append(ToolCall(call.call_id, call.name, call.arguments, response_id))
            else:
                self._close(call.call_id)
                refused.append(call)
        return tuple(todo), tuple(refused)

    def answer(self, call_id: str) -> bool:
        """Note an answer; ``False`` when the call is unknown or has its answer."""
        if self._open.pop(call_id, None) is None:
            return False
        self._close(call_id)
        return True

    def _close(self, call_id: str) -> None:
        self._closed[call_id] = None
        if len(self._closed) > _ANSWERED_KEPT:
            del self._closed[next(iter(self._closed))]
