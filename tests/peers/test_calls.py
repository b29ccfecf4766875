"""Calls from SIPp and from the kit's phone to a gateway that an operator started."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.hear import hear
from tests.kit.office import EVERY, NUMBER, recording
from tests.kit.sipp import Ears, Sipp

pytestmark = pytest.mark.peers

GREETING, FAREWELL, THANKS = recording("greeting"), recording("farewell"), recording("caller_thanks")
AFTER_GREETING = np.concatenate((sound.silence(len(GREETING) / 8000 + 0.5), THANKS, sound.silence(1)))


@EVERY
def test_the_caller_hears_the_whole_farewell_before_the_bye(office):
    gateway = office.open("farewell")
    phone = office.phone(gateway)
    phone.call()
    assert phone.statuses()[:2] == [100, 180]
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(THANKS)
    bye_at = phone.wait_for_bye(15)
    heard = hear(FAREWELL, phone.heard(before=bye_at))
    assert heard.whole, heard


def test_sipp_hears_the_whole_farewell_before_the_bye_on_every_call(office, tmp_path):
    gateway = office.open("farewell")
    with (
        Sipp(
            "call_ended_by_agent", gateway.sip, office.ports, tmp_path / "sipp", called=NUMBER, calls=3,
            audio=AFTER_GREETING, rate=5,
        ) as sipp,
        Ears(sipp.media_ports) as ears,
    ):  # fmt: skip
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors
    for port in sipp.media_ports:
        assert hear(GREETING, ears.pcm(port)).whole
        assert hear(FAREWELL, ears.pcm(port)).whole


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_calls_are_answered_and_ended_by_the_caller(office, tmp_path, tcp):
    gateway = office.open()
    arguments = {"called": NUMBER, "calls": 5, "pause": 1, "audio": THANKS, "tcp": tcp}
    with Sipp("call_with_audio", gateway.sip, office.ports, tmp_path / "sipp", **arguments) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors
    assert outcome.successful == 5
    assert outcome.retransmissions == 0


def test_a_call_is_cancelled_while_it_rings(office, tmp_path):
    gateway = office.open("slow")
    arguments = {"called": NUMBER, "calls": 3, "rate": 3}
    with Sipp("cancel", gateway.sip, office.ports, tmp_path / "sipp", **arguments) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors
    assert outcome.successful == 3


def test_options_is_answered_with_what_we_can(fake_office, tmp_path):
    gateway = fake_office.open()
    with Sipp("options", gateway.sip, fake_office.ports, tmp_path / "sipp", called=NUMBER) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors


def test_hold_and_resume_are_answered_in_kind(office, tmp_path):
    gateway = office.open()
    arguments = {"called": NUMBER, "audio": THANKS, "pause": 0.3}
    with Sipp("hold", gateway.sip, office.ports, tmp_path / "sipp", **arguments) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors


@EVERY
def test_the_caller_can_interrupt_the_agent(office):
    """Barge-in: what was cut off is not heard, and the answer to the interruption is."""
    gateway = office.open("interrupted")
    phone = office.phone(gateway)
    phone.call()
    long, answer = recording("hours"), recording("answer")
    phone.until_heard(GREETING, 10, "the greeting")
    phone.listen(1.5)  # the silence at its end is a part of it, and not to be interrupted yet
    phone.speak(recording("caller_hours"))
    phone.until_heard(long[: 8000 * 2], 10, "two seconds of the long answer")
    phone.speak(recording("caller_interrupts"))
    phone.until_heard(answer, 15, "the answer to the interruption")
    assert hear(long, phone.heard()).heard_ms < hear(long, long).heard_ms / 2
    phone.hang_up()


@EVERY
def test_keys_reach_the_model(office):
    gateway = office.open("keys")
    phone = office.phone(gateway)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.press("5")
    phone.until_heard(recording("key_pressed"), 10, "the answer to the key")
    phone.hang_up()
