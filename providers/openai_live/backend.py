"""
The tool calls of the backend (pure): each is answered exactly once, and the backend goes on when all are.

The backend's responses share one conversation, in which a call without its output makes the next request
fail. So ``response.create`` waits until no call is open, also when several delegations run at once.
"""

from __future__ import annotations

from providers.openai.calls import CallBook
from providers.openai.messages import FunctionCall
from providers.openai_live.messages import FunctionCallReceived, ResponseBegan, ResponseFinished
from providers.types import ProviderEvent, ResponseDone, ResponseStatus, ToolCallsRequested
from tools.types import ToolResult, ToolStatus

_RUNNING_KEPT = 16


class Backend:
    """Which responses run, which calls are open, and whether the backend may go on."""

    def __init__(self) -> None:
        self._calls = CallBook()
        self._running: dict[str, str] = {}
        """The response of each delegation."""
        self._open: set[str] = set()
        self._answered = False
        """Whether there are answers that the backend has not gone on with."""
        self._wanted = False

    @property
    def owes(self) -> bool:
        """Whether the backend waits for us: for answers, or to be told to go on with them."""
        return self._answered

    def begin(self, message: ResponseBegan) -> None:
        self._running[message.delegation_id] = message.response_id
        if len(self._running) > _RUNNING_KEPT:  # a response whose end never came
            del self._running[next(iter(self._running))]

    def announce(self, message: FunctionCallReceived) -> None:
        """Note a call; nothing runs before its response is complete."""
        self._calls.announce(self._running.get(message.delegation_id, ""), message.call)

    def finish(self, message: ResponseFinished) -> tuple[list[ProviderEvent], list[ToolResult]]:
        """Close a response; returns what the call has to know, and answers for calls that must not run."""
        known = self._running.pop(message.delegation_id, "")
        response_id = message.response_id or known
        completed = message.status is ResponseStatus.COMPLETED
        todo, refused = self._calls.settle(response_id, (), run=completed)
        events: list[ProviderEvent] = []
        if todo:
            self._open.update(call.call_id for call in todo)
            events.append(ToolCallsRequested(response_id, todo))
        if not completed:
            events.append(ResponseDone(response_id, message.status, reason=message.error))
        return events, [_refusal(call, message.status) for call in refused]

    def answer(self, call_id: str) -> bool:
        """Note an answer; ``False`` when the call is unknown or has its answer."""
        if not self._calls.answer(call_id):
            return False
        self._open.discard(call_id)
        self._answered = True
        return True

    def go_on(self) -> None:
        """Ask for the response to the answers."""
        self._wanted = True

    def take_go_on(self) -> bool:
        """Say, once, that the backend is to be told to go on now."""
        if not self._wanted or self._open or not self._answered:
            return False
        self._wanted = self._answered = False
        return True


def _refusal(call: FunctionCall, status: ResponseStatus) -> ToolResult:
    """Answer a call that must not run, so that the conversation holds no open call."""
    return ToolResult(call.call_id, call.name, ToolStatus.FAILED, reason_code=f"response_{status.value}")
