"""Whole calls with GPT-Live, for what only a full-duplex model does."""

from __future__ import annotations

import json

import pytest

from tests.kit.hear import hear
from tests.kit.office import NUMBER, Office, recording
from tests.kit.phone import Phone

pytestmark = pytest.mark.peers

GREETING, FAREWELL, ANNOUNCEMENT = recording("greeting"), recording("farewell"), recording("to_sales")


class Quiet(Phone):
    """A telephone that soon sends no packets any more, as one with silence suppression."""

    MOST = 25
    sent = 0

    def _send_packet(self, packet: bytes) -> None:
        if self.sent < self.MOST:
            self.sent += 1
            super()._send_packet(packet)


def transcript(office: Office, phone) -> list[dict]:
    folder = office.folder / "recordings"
    phone.until(lambda: list(folder.glob("*/call.json")), 10, "call.json")
    return json.loads(next(folder.glob("*/call.json")).read_text())["transcript"]


def test_a_farewell_is_heard_whole_though_the_end_was_asked_for_at_its_first_word(live_office):
    """The backend calls end_call while the voice has hardly begun to say goodbye."""
    gateway = live_office.open("farewell", faults=("early_calls",))
    phone = live_office.phone(gateway)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(recording("caller_thanks"))
    bye_at = phone.wait_for_bye(20)
    heard = hear(FAREWELL, phone.heard(before=bye_at))
    assert heard.whole, heard
    spoken = [each for each in transcript(live_office, phone) if each["who"] == "agent"]
    assert spoken[-1]["interrupted"] is False
    assert spoken[-1]["heard"] == spoken[-1]["text"] != ""


def test_an_announcement_is_heard_whole_though_the_transfer_was_asked_for_at_its_first_word(live_office):
    gateway = live_office.open("transfer", faults=("early_calls",))
    phone = live_office.phone(gateway)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(recording("caller_sales"))
    phone.wait_for(lambda message: message.method == "REFER", 20, "REFER")
    refer_at = next(each.at for each in phone.received if each.message.method == "REFER")
    heard = hear(ANNOUNCEMENT, phone.heard(before=refer_at))
    assert heard.whole, heard


def test_a_model_that_talks_on_over_the_caller_is_muted(live_office):
    """Fault 37: nothing of the old sentence is heard again, and the answer is."""
    gateway = live_office.open("interrupted", faults=("keeps_talking#2",))
    phone = live_office.phone(gateway)
    phone.call()
    long, answer = recording("hours"), recording("answer")
    phone.until_heard(GREETING, 10, "the greeting")
    phone.listen(1.5)
    phone.speak(recording("caller_hours"))
    phone.until_heard(long[: 8000 * 2], 15, "two seconds of the long answer")
    phone.speak(recording("caller_interrupts"))
    phone.until_heard(answer, 25, "the answer to the interruption")
    assert hear(long, phone.heard()).heard_ms < hear(long, long).heard_ms - 1000
    phone.hang_up()
    cut = [each for each in transcript(live_office, phone) if each["who"] == "agent" and each["interrupted"]]
    assert len(cut) == 1


def test_a_caller_on_hold_does_not_make_the_model_stand_still(live_office):
    """No packet comes from the caller, and the greeting goes on all the same."""
    gateway = live_office.open("talk")
    with Quiet(gateway.sip, live_office.ports, called=NUMBER) as phone:
        phone.call()
        phone.until_heard(GREETING, 15, "the greeting")
        assert phone.sent == Quiet.MOST
        phone.hang_up()
