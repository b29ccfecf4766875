"""What is kept for the length of a call only, in memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

from tools.types import AuditRecord, ToolResult

MAX_RESULTS_OF_A_CALL: Final = 512
MAX_CALLS: Final = 2_000


class MemoryLedger:
    """
    A :class:`tools.ports.CallLedger` that forgets: the oldest result of a call, the oldest call.

    Deliveries repeat within seconds, so what is dropped is long over; :meth:`forget` is called when
    a call ends.
    """

    def __init__(self, *, max_results: int = MAX_RESULTS_OF_A_CALL, max_calls: int = MAX_CALLS) -> None:
        self._max_results = max_results
        self._max_calls = max_calls
        self._calls: OrderedDict[str, OrderedDict[str, ToolResult]] = OrderedDict()

    def seen(self, call_id: str, tool_call_id: str) -> ToolResult | None:
        results = self._calls.get(call_id)
        return results.get(tool_call_id) if results else None

    def remember(self, call_id: str, result: ToolResult) -> None:
        results = self._calls.setdefault(call_id, OrderedDict())
        self._calls.move_to_end(call_id)
        results[result.call_id] = result
        if len(results) > self._max_results:
            results.popitem(last=False)
        if len(self._calls) > self._max_calls:
            self._calls.popitem(last=False)

    def forget(self, call_id: str) -> None:
        """Drop everything of a call that is over."""
        self._calls.pop(call_id, None)


class LogEvent(Protocol):
    """How a structured logger takes an event, for instance ``log.info``."""

    def __call__(self, event: str, /, **fields: object) -> object: ...


class LogAudit:
    """A :class:`tools.ports.AuditSink` that writes one log event for each record."""

    def __init__(self, log: LogEvent) -> None:
        self._log = log

    def record(self, record: AuditRecord) -> None:
        self._log(
            "tool.called",
            call_id=record.call_id,
            tool_call_id=record.tool_call_id,
            tool=record.tool,
            version=record.version,
            status=record.status.value,
            reason_code=record.reason_code,
            attempts=record.attempts,
            duration_ms=record.duration_ms,
            evidence=dict(record.evidence),
        )
