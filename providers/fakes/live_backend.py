"""
What a GPT-Live session delegates: tool calls and text of its backend, or of the client. No I/O.

With ``responses`` delegation the events of the backend's model come nested in ``response.event``, a call's
output is put in by ``response.item.create``, and ``response.create`` goes on. With ``client`` delegation the
client is told only *that* there is a task, and answers with commentary, thinking or instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from providers.fakes import live_wire as wire
from providers.fakes.director import ToolAnswered
from providers.fakes.live_config import LiveConfig
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Ids, Json, JsonField, JsonView
from providers.fakes.script import Call, Status

_PIECE = 16
"""Characters of arguments in one delta."""
MAX_OPEN = 256
"""Tool calls that may wait for an answer."""


class Emit(Protocol):
    """Sends one server event."""

    def __call__(self, kind: str, **fields: JsonField) -> None: ...


@dataclass(frozen=True, slots=True)
class Ending:
    """How a response of the backend ends, and with which code."""

    status: Status = Status.COMPLETED
    code: str = ""


@dataclass(slots=True)
class _Run:
    """A response that is being generated; events that come later stand in ``rest``."""

    delegation_id: str | None
    response_id: str
    rest: Iterator[Json]


@dataclass(slots=True)
class Ledger:
    """Which calls were made, and what was answered; for tests as well."""

    open: dict[str, str] = field(default_factory=dict)
    """Tools by call id."""
    answered: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Tool and output by call id."""


class Backend:
    """
    Delegates and takes answers.

    Args:
        later: Does something after so many seconds.
    """

    def __init__(
        self,
        *,
        emit: Emit,
        ids: Ids,
        config: LiveConfig,
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._emit = emit
        self._ids = ids
        self._config = config
        self._later = later
        self._sequence = 0
        self.ledger = Ledger()
        self._fresh: list[ToolAnswered] = []
        self._delegation_id: str | None = None
        self.delegations: dict[str, tuple[str, ...]] = {}
        """The tools that each delegation to the client stands for."""

    @property
    def is_responses(self) -> bool:
        return self._config.backend is not None

    # What the model delegates.

    def delegate(
        self, calls: tuple[Call, ...], *, at_ms: int, ending: Ending = Ending(), slow: float = 0.0
    ) -> None:
        """Ask for the tools: in one response of the backend, or by one delegation to the client."""
        if not self.is_responses:
            delegation = {"id": self._ids.new("dlg"), "type": "delegation", "target": "client"}
            self.delegations[delegation["id"]] = tuple(call.tool for call in calls)
            if len(self.delegations) > MAX_OPEN:
                del self.delegations[next(iter(self.delegations))]
            self._emit("session.delegation.created", delegation=delegation, offset_ms=at_ms)
            return
        self._delegation_id, response_id = self._ids.new("dlg"), self._ids.new("resp")
        delegation = {
            "id": self._delegation_id,
            "type": "delegation",
            "target": "responses",
            "response_id": response_id,
        }
        self._emit("session.delegation.created", delegation=delegation, offset_ms=at_ms)
        self._respond(calls, "", response_id, ending, slow)

    def say(self, text: str, calls: tuple[Call, ...] = (), *, ending: Ending = Ending()) -> None:
        """Answer in the delegation that is open: a message, and perhaps more calls."""
        self._respond(calls, text, self._ids.new("resp"), ending, 0.0)

    def _respond(
        self, calls: tuple[Call, ...], text: str, response_id: str, ending: Ending, slow: float
    ) -> None:
        run = _Run(self._delegation_id, response_id, iter(()))
        snapshot = wire.response(response_id, self._model, "in_progress")
        self._event(run, "response.created", response=snapshot)
        self._event(run, "response.in_progress", response=snapshot)
        if text:
            self._message(run, text)
        named = [(call, self._ids.new("fc"), self._ids.new("call")) for call in calls]
        for index, (call, item_id, call_id) in enumerate(named):
            item = wire.function_call(item_id, call_id, call.tool, "", "in_progress")
            self._event(run, "response.output_item.added", output_index=index, item=item)
        if ending.status is Status.FAILED:
            self._end(run, ending)
        elif slow and named:
            self._later(slow, lambda: self._finish(run, named, ending))
        else:
            self._finish(run, named, ending)

    def _message(self, run: _Run, text: str) -> None:
        item_id = self._ids.new("msg")
        where = {"item_id": item_id, "output_index": 0, "content_index": 0}
        self._event(run, "response.output_item.added", output_index=0, item=wire.message(item_id, None))
        self._event(run, "response.output_text.delta", delta=text, logprobs=[], **where)
        self._event(run, "response.output_text.done", text=text, logprobs=[], **where)
        self._event(run, "response.output_item.done", output_index=0, item=wire.message(item_id, text))

    def _finish(self, run: _Run, named: list[tuple[Call, str, str]], ending: Ending) -> None:
        for index, (call, item_id, call_id) in enumerate(named):
            for at in range(0, len(call.arguments), _PIECE):
                self._event(
                    run, "response.function_call_arguments.delta",
                    item_id=item_id, output_index=index, delta=call.arguments[at : at + _PIECE],
                )  # fmt: skip
            if ending.status is Status.INCOMPLETE:  # it stops in the middle of the arguments
                break
            self._event(
                run, "response.function_call_arguments.done",
                item_id=item_id, output_index=index, arguments=call.arguments,
            )  # fmt: skip
            item = wire.function_call(item_id, call_id, call.tool, call.arguments, "completed")
            self._event(run, "response.output_item.done", output_index=index, item=item)
            self.ledger.open[call_id] = call.tool
        self._end(run, ending)

    def _end(self, run: _Run, ending: Ending) -> None:
        more: Json = {"usage": wire.response_usage(200, 20)}
        if ending.status is Status.FAILED:
            more["error"] = wire.response_failure(ending.code or "server_error")
        if ending.status is Status.INCOMPLETE:
            more["incomplete_details"] = {"reason": ending.code or "max_output_tokens"}
        snapshot = wire.response(run.response_id, self._model, ending.status.value, **more)
        self._event(run, f"response.{ending.status.value}", response=snapshot)

    def _event(self, run: _Run, kind: str, **fields: JsonField) -> None:
        self._sequence += 1
        event = {"type": kind, "sequence_number": self._sequence, **fields}
        self._emit("response.event", delegation_id=run.delegation_id, event=event)

    @property
    def _model(self) -> str:
        backend = self._config.backend
        assert backend is not None
        return str(backend["model"])

    # What the client answers.

    def add(self, item: JsonView) -> Problem | None:
        """Take an item for the backend's conversation."""
        if not self.is_responses:
            return _needs_responses("response.item.create")
        if item.get("type") != "function_call_output":
            return None
        call_id = item["call_id"]
        if call_id in self.ledger.answered:
            message = f"The tool call '{call_id}' has its output already."
            return Problem("invalid_value", message, "item.call_id")
        tool = self.ledger.open.pop(call_id, None)
        if tool is None:
            return Problem("invalid_value", f"No tool call found with call_id '{call_id}'.", "item.call_id")
        self.ledger.answered[call_id] = (tool, str(item["output"]))
        self._fresh.append(ToolAnswered(tool, str(item["output"])))
        return None

    def create(self) -> Problem | list[ToolAnswered]:
        """Go on with what was answered since the last time; returns it, or why that cannot be."""
        if not self.is_responses:
            return _needs_responses("response.create")
        if self.ledger.open:
            call_id = next(iter(self.ledger.open))
            message = f"No tool output found for function call {call_id}."
            return Problem("invalid_value", message, "item")
        fresh, self._fresh = self._fresh, []
        return fresh

    def append(self, delegation_id: str, content: str) -> Problem | list[ToolAnswered]:
        """Take what the client says of a task that it does itself."""
        if delegation_id not in self.delegations:
            return Problem("invalid_value", f"There is no delegation '{delegation_id}'.", "delegation_id")
        return [ToolAnswered(tool, content) for tool in self.delegations[delegation_id]]


def _needs_responses(kind: str) -> Problem:
    return Problem("invalid_value", f"'{kind}' requires Responses delegation.", "type")
