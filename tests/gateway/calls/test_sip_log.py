"""The file of a call's SIP messages."""

from __future__ import annotations

import json

from structlog.testing import capture_logs

from gateway.calls.events import SipMessage
from gateway.calls.sip_log import FILE, SipLog


def message(text: str, at: float = 0.0) -> SipMessage:
    return SipMessage("c-1", at, True, "udp", "192.0.2.9:5060", "192.0.2.1:5062", text)


def test_messages_are_appended_one_a_line_when_they_are_flushed(tmp_path):
    log = SipLog(tmp_path, "c-1")
    log.flush()
    assert not (tmp_path / FILE).exists()
    log.add(message("INVITE sip:x SIP/2.0\r\n\r\n"))
    log.flush()
    log.add(message("SIP/2.0 200 Zoë\r\n\r\n", at=1.23456))
    log.flush()
    first, second = map(json.loads, (tmp_path / FILE).read_text().splitlines())
    assert first["message"] == "INVITE sip:x SIP/2.0\r\n\r\n"
    assert second == {
        "at": 1.2346,
        "sent": True,
        "transport": "udp",
        "local": "192.0.2.9:5060",
        "remote": "192.0.2.1:5062",
        "message": "SIP/2.0 200 Zoë\r\n\r\n",
    }


def test_a_disk_that_refuses_is_told_of_once(tmp_path):
    log = SipLog(tmp_path / "gone", "c-1")
    with capture_logs() as logs:
        for _ in range(3):
            log.add(message("x"))
            log.flush()
    assert [(each["event"], each["call_id"]) for each in logs] == [("sip_trace.failed", "c-1")]
