import pytest

from gateway.store.memory import LogAudit, MemoryLedger
from tools.types import AuditRecord, ToolResult, ToolStatus


def result(call_id, text="x"):
    return ToolResult(call_id, "t", ToolStatus.OK, {"text": text})


def test_a_ledger_returns_what_it_remembers_for_that_call_only():
    ledger = MemoryLedger()
    ledger.remember("call-1", result("a"))

    assert ledger.seen("call-1", "a") == result("a")
    assert ledger.seen("call-1", "b") is None
    assert ledger.seen("call-2", "a") is None


def test_a_ledger_forgets_a_call_that_is_over():
    ledger = MemoryLedger()
    ledger.remember("call-1", result("a"))
    ledger.forget("call-1")
    ledger.forget("never was")

    assert ledger.seen("call-1", "a") is None


def test_a_ledger_is_bounded_in_results_and_in_calls():
    ledger = MemoryLedger(max_results=2, max_calls=2)
    for name in "abc":
        ledger.remember("call-1", result(name))
    assert [ledger.seen("call-1", name) is not None for name in "abc"] == [False, True, True]

    ledger.remember("call-2", result("a"))
    ledger.remember("call-1", result("d"))
    ledger.remember("call-3", result("a"))

    assert ledger.seen("call-2", "a") is None
    assert ledger.seen("call-1", "d") is not None


def test_an_audit_record_is_one_log_event():
    events = []
    audit = LogAudit(lambda event, /, **fields: events.append((event, fields)))

    audit.record(
        AuditRecord("call-1", "a", "t", "1", ToolStatus.DENIED, "unknown_tool", 0, 3, {"output.x": 1})
    )

    assert events == [
        (
            "tool.called",
            {
                "call_id": "call-1",
                "tool_call_id": "a",
                "tool": "t",
                "version": "1",
                "status": "denied",
                "reason_code": "unknown_tool",
                "attempts": 0,
                "duration_ms": 3,
                "evidence": {"output.x": 1},
            },
        )
    ]


@pytest.mark.parametrize("status", list(ToolStatus))
def test_every_status_is_logged_as_its_word(status):
    events = []
    audit = LogAudit(lambda event, /, **fields: events.append(fields["status"]))

    audit.record(AuditRecord("c", "a", "t", "1", status, "", 1, 0))

    assert events == [status.value]
