"""SIGTERM in every phase of a call, twice, and a disk that takes no recordings."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.hear import hear
from tests.kit.office import recording
from tests.kit.phone import Phone, ReferPlan

pytestmark = pytest.mark.peers

GREETING, FAREWELL = recording("greeting"), recording("farewell")
THANKS, SALES = recording("caller_thanks"), recording("caller_sales")


def while_it_rings(phone: Phone) -> None:
    phone.dial()
    phone.wait_for(lambda message: message.status == 180, 5)


def in_the_greeting(phone: Phone) -> None:
    phone.call()
    phone.listen(1)


def in_the_farewell(phone: Phone) -> None:
    phone.call()
    phone.listen(1)
    phone.speak(THANKS)
    phone.listen(1.5)


def in_a_transfer(phone: Phone) -> None:
    phone.refer = ReferPlan(notifies=((0.0, "SIP/2.0 100 Trying"), (30.0, "SIP/2.0 200 OK")))
    phone.call()
    phone.listen(1)
    phone.speak(SALES)
    phone.wait_for(lambda message: message.method == "REFER", 15, "REFER")
    phone.listen(0.3)


def report(folder: Path) -> dict[str, object]:
    [path] = folder.glob("*/call.json")
    assert (path.parent / "call.flac").exists()
    assert not list(path.parent.glob("*.part"))
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("script", "phase", "answered"),
    [
        ("slow", while_it_rings, False),
        ("farewell", in_the_greeting, True),
        ("farewell", in_the_farewell, True),
        ("transfer", in_a_transfer, True),
    ],
    ids=["ringing", "greeting", "farewell", "transfer"],
)
def test_a_second_sigterm_ends_the_call_in_every_phase_and_its_record_is_complete(
    fake_office, script: str, phase: Callable[[Phone], None], answered: bool
):
    gateway = fake_office.open(script)
    phone = fake_office.phone(gateway)
    phase(phone)
    gateway.signal(signal.SIGTERM)
    gateway.until(lambda: "drain.began" in gateway.log, 5, "draining")
    gateway.signal(signal.SIGTERM)
    if answered:
        phone.wait_for_bye(3)
    else:
        phone.wait_for(lambda message: message.answers == "INVITE" and message.status == 503, 3)
    phone.listen(0.2)
    assert gateway.wait(8) == 0
    record = report(fake_office.folder / "recordings")
    assert (record["reason"], record["by"]) == ("drain", "gateway")
    assert gateway.log.count('"call.ended"') == 1
    assert "Traceback" not in gateway.log


def test_one_sigterm_lets_a_transfer_come_to_its_end(fake_office):
    gateway = fake_office.open("transfer")
    phone = fake_office.phone(gateway)
    phone.refer = ReferPlan(notifies=((0.0, "SIP/2.0 100 Trying"), (1.0, "SIP/2.0 200 OK")))
    phone.call()
    phone.listen(1)
    phone.speak(SALES)
    phone.wait_for(lambda message: message.method == "REFER", 15, "REFER")
    gateway.signal(signal.SIGTERM)
    phone.wait_for_bye(5)
    phone.listen(0.2)
    assert gateway.wait(8) == 0
    assert report(fake_office.folder / "recordings")["reason"] == "transferred"


def test_a_folder_that_takes_no_recordings_costs_no_call_anything(fake_office):
    gateway = fake_office.open("farewell")
    recordings = fake_office.folder / "recordings"
    shutil.rmtree(recordings, ignore_errors=True)
    recordings.write_text("a file where the folder was\n")
    for _ in range(2):
        phone = fake_office.phone(gateway)
        phone.call()
        phone.listen(1)
        phone.speak(THANKS)
        bye_at = phone.wait_for_bye(15)
        assert hear(FAREWELL, phone.heard(before=bye_at)).whole
    gateway.until(lambda: gateway.log.count("recording.failed") == 2, 5, "telling of each recording once")
    recordings.unlink()
    phone = fake_office.phone(gateway)
    phone.call()
    phone.hang_up()
    gateway.until(lambda: list(recordings.glob("*/call.json")), 5, "recording again")


def test_a_refused_call_leaves_no_record(fake_office):
    gateway = fake_office.open("farewell")
    phone = fake_office.phone(gateway, called="+12125559999")
    assert phone.dial_and_be_refused().status == 404
    gateway.signal(signal.SIGTERM)
    assert gateway.wait(8) == 0
    assert list((fake_office.folder / "recordings").glob("*")) == []
