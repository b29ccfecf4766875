"""
What a running tool may see of its call, and what it may ask for.

A :class:`ToolContext` holds three values and nothing else. Its requests go to a desk that is kept
apart, in this module, so that no attribute of the context leads to the call, its line or its
session; the desk closes when the tool is done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NoReturn
from weakref import WeakKeyDictionary

from tools.ports import CallControl
from tools.types import CallUpdate, EndRequest, TerminalRequest, TransferRequest


@dataclass(frozen=True, slots=True)
class CallInvocationContext:
    """What the tools of one call share: who calls, and the consumer's own state."""

    call_id: str
    consumer_state: object = None
    """Opaque to the runtime and never shown to a model; handlers get this very object."""
    caller: str = ""
    """The caller's number or address; empty when withheld."""
    called: str = ""
    caller_spellings: tuple[str, ...] = ()
    """Other ways in which the caller's number may be stored somewhere, the likeliest first."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What the network says of the call, by name: from the trunk's configured headers, among others."""


class RequestAnswer(StrEnum):
    """What became of a request; true only when it was queued."""

    QUEUED = "queued"
    TERMINAL_ACTION_PENDING = "terminal_action_pending"
    PHONE_NUMBER_NOT_CONFIGURED = "phone_number_not_configured"
    REVISION_CONFLICT = "revision_conflict"
    UNSUPPORTED = "unsupported"
    CLOSED = "closed"
    """The tool is done: it may ask for nothing any more."""

    def __bool__(self) -> bool:
        return self is RequestAnswer.QUEUED


class RequestDesk:
    """
    Takes the requests of one tool call.

    At most one terminal request is held until the batch is done; an update goes to the call at
    once, which queues it.
    """

    __slots__ = ("_control", "_open", "_tool_call_id", "_transfer_numbers", "terminal")

    def __init__(self, tool_call_id: str, *, control: CallControl, transfer_numbers: Collection[str]) -> None:
        self.terminal: TerminalRequest | None = None
        self._tool_call_id = tool_call_id
        self._control = control
        self._transfer_numbers = transfer_numbers
        self._open = True

    def close(self) -> None:
        self._open = False

    def restart(self) -> None:
        """Forget what a failed attempt asked for; the next attempt asks again."""
        self.terminal = None

    def end(self) -> RequestAnswer:
        return self._queue(EndRequest(self._tool_call_id))

    def transfer(self, number: str, label: str, *, warm: bool, summary: str) -> RequestAnswer:
        if self._open and number not in self._transfer_numbers:
            return RequestAnswer.PHONE_NUMBER_NOT_CONFIGURED
        return self._queue(TransferRequest(self._tool_call_id, number, label, warm, summary))

    def update(self, update: CallUpdate) -> RequestAnswer:
        if not self._open:
            return RequestAnswer.CLOSED
        return RequestAnswer(self._control.request_update(update))

    def _queue(self, request: TerminalRequest) -> RequestAnswer:
        if not self._open:
            return RequestAnswer.CLOSED
        if self.terminal is not None:
            return RequestAnswer.TERMINAL_ACTION_PENDING
        self.terminal = request
        return RequestAnswer.QUEUED


class ToolContext:
    """
    What a handler gets beside its arguments (V-12).

    The requests are bounded: they ask the runtime and act on nothing. Of all terminal requests of
    a response at most one is applied, after every tool of the response is done.
    """

    __slots__ = ("__weakref__", "_call_id", "_consumer_state", "_tool_call_id")

    _call_id: str
    _tool_call_id: str
    _consumer_state: object

    def __init__(self, call_id: str, tool_call_id: str, consumer_state: object) -> None:
        object.__setattr__(self, "_call_id", call_id)
        object.__setattr__(self, "_tool_call_id", tool_call_id)
        object.__setattr__(self, "_consumer_state", consumer_state)

    @property
    def call_id(self) -> str:
        return self._call_id

    @property
    def tool_call_id(self) -> str:
        """The provider's id of this call; the same in every attempt, so it serves as idempotency key."""
        return self._tool_call_id

    @property
    def consumer_state(self) -> object:
        """The object of :attr:`CallInvocationContext.consumer_state`, by identity."""
        return self._consumer_state

    def request_end(self) -> RequestAnswer:
        """Ask to hang up once the caller has heard what the agent is saying."""
        desk = _DESKS.get(self)
        return desk.end() if desk else RequestAnswer.CLOSED

    def request_transfer(
        self, number: str, label: str = "", *, warm: bool = False, summary: str = ""
    ) -> RequestAnswer:
        """
        Ask for a transfer to a configured number.

        Args:
            number: Whom the call goes to.
            label: Its name, for sentences about it.
            warm: Whether the colleague is asked first.
            summary: What the colleague is told then.
        """
        desk = _DESKS.get(self)
        return desk.transfer(number, label, warm=warm, summary=summary) if desk else RequestAnswer.CLOSED

    def request_update(self, update: CallUpdate) -> RequestAnswer:
        """Ask for a change of the call's prompt, language, voice or tools."""
        desk = _DESKS.get(self)
        return desk.update(update) if desk else RequestAnswer.CLOSED

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a tool context is read-only: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a tool context is read-only: {name}")


_DESKS: Final[WeakKeyDictionary[ToolContext, RequestDesk]] = WeakKeyDictionary()


def open_context(call: CallInvocationContext, tool_call_id: str, desk: RequestDesk) -> ToolContext:
    """Make the context of one tool call, whose requests arrive at ``desk`` as long as that is open."""
    context = ToolContext(call.call_id, tool_call_id, call.consumer_state)
    _DESKS[context] = desk
    return context
