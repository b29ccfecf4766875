"""The process: its pages, its end, its configuration file."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.kit.hear import hear
from tests.kit.office import NUMBER, recording

pytestmark = pytest.mark.peers

GREETING = recording("greeting")


def test_health_readiness_and_metrics_are_served(fake_office):
    gateway = fake_office.open()
    assert gateway.get("/healthz")[0] == 200
    assert gateway.get("/readyz")[0] == 200
    assert gateway.metrics()


def test_sigterm_lets_a_call_finish_and_takes_no_new_one(office):
    gateway = office.open("farewell")
    phone, late = office.phone(gateway), office.phone(gateway)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    gateway.signal(signal.SIGTERM)
    gateway.until(lambda: gateway.get("/readyz")[0] != 200, 5, "not ready any more")
    assert late.dial_and_be_refused().status == 503
    assert gateway.popen.poll() is None
    phone.speak(recording("caller_thanks"))
    bye_at = phone.wait_for_bye(15)
    assert hear(recording("farewell"), phone.heard(before=bye_at)).whole
    assert gateway.wait(10) == 0


def test_after_the_time_for_draining_the_calls_are_ended_with_a_bye(office):
    gateway = office.open(server={"drain_s": 1})
    phone = office.phone(gateway)
    phone.call()
    gateway.signal(signal.SIGTERM)
    began = time.time()
    bye_at = phone.wait_for_bye(10)
    assert 0.8 <= bye_at - began <= 4
    assert gateway.wait(10) == 0


def test_sigterm_without_calls_ends_at_once(fake_office):
    gateway = fake_office.open()
    gateway.signal(signal.SIGTERM)
    assert gateway.wait(5) == 0


def test_a_changed_file_reaches_the_next_call_and_a_bad_one_is_refused(fake_office):
    gateway = fake_office.open()
    other = "+12125550177"
    before = fake_office.phone(gateway, called=other)
    assert before.dial_and_be_refused().status == 404
    running = fake_office.phone(gateway)
    running.call()
    gateway.write({**gateway.settings, "numbers": {other: {"agent": "reception"}}})
    gateway.until(lambda: "config.reloaded" in gateway.log, 10, "reloaded")
    after = fake_office.phone(gateway, called=other)
    after.call()
    after.hang_up()
    gateway.write({**gateway.settings, "numbers": {other: {"agent": "nobody"}}})
    gateway.until(lambda: "config.refused" in gateway.log, 10, "refused")
    again = fake_office.phone(gateway, called=other)
    again.call()
    again.hang_up()
    running.hang_up()


def test_a_call_outlives_its_trunk_and_can_be_hung_up_by_both_sides(fake_office):
    gateway = fake_office.open("farewell")
    before = gateway.metrics()
    caller, stays, new = (fake_office.phone(gateway) for _ in range(3))
    caller.call()
    stays.call()
    gateway.write({**gateway.settings, "trunks": {"elsewhere": {"allow": ["192.0.2.1"]}}})
    gateway.until(lambda: "config.reloaded" in gateway.log, 10, "reloaded")
    caller.hang_up()
    assert new.dial_and_be_refused().status == 403  # as one who calls from here, no more than that
    stays.listen(4.5)
    stays.speak(recording("caller_thanks"))
    stays.wait_for_bye(20)
    # The answer to our BYE is taken, too: nothing of the call is left, and the address is a stranger's again.
    gateway.until(
        lambda: gateway.metrics()["trunkline_sip_dialogs"] == before["trunkline_sip_dialogs"] == 0,
        5,
        "without dialogs",
    )
    stranger = fake_office.phone(gateway)
    stranger.dial()
    stranger.listen(0.5)
    assert not stranger.received


def test_each_call_leaves_its_recording_and_its_report(office):
    gateway = office.open("farewell")
    phone = office.phone(gateway)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(recording("caller_thanks"))
    phone.wait_for_bye(15)
    folder = office.folder / "recordings"
    gateway.until(lambda: list(folder.glob("*/call.json")), 5, "recorded")
    (report,) = folder.glob("*/call.json")
    assert json.loads(report.read_text())["called"] == NUMBER
    assert (report.parent / "call.flac").stat().st_size > 10_000
