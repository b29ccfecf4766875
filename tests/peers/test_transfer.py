"""Cold transfer by REFER, followed to its end (RFC 3515), with SIPp and with the phone as the trunk."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.hear import hear
from tests.kit.office import EVERY, NUMBER, SALES, recording
from tests.kit.phone import Phone, ReferPlan
from tests.kit.sipp import Ears, Sipp

pytestmark = pytest.mark.peers

GREETING, ANNOUNCEMENT, APOLOGY = recording("greeting"), recording("to_sales"), recording("nobody_there")
WISH = np.concatenate(
    (sound.silence(len(GREETING) / 8000 + 0.5), recording("caller_sales"), sound.silence(1))
)


@pytest.mark.parametrize(
    ("scenario", "after"),
    [
        ("refer_confirmed", None),
        ("refer_busy", APOLOGY),
        ("refer_forbidden", APOLOGY),
        ("refer_silent", APOLOGY),
    ],
)
def test_sipp_is_asked_to_transfer(openai_office, tmp_path, scenario, after):
    """The announcement is heard before, and where the transfer fails the agent speaks again."""
    office = openai_office
    gateway = office.open("transfer", server={"sip": {"refer_timeout_s": 1}})
    arguments = {"called": NUMBER, "audio": WISH, "pause": 8, "timeout": 40}
    with (
        Sipp(scenario, gateway.sip, office.ports, tmp_path / "sipp", **arguments) as sipp,
        Ears(sipp.media_ports) as ears,
    ):
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors
    (port,) = sipp.media_ports
    assert hear(ANNOUNCEMENT, ears.pcm(port)).whole
    assert hear(APOLOGY, ears.pcm(port)).whole == (after is not None)


def ask_for_sales(phone: Phone) -> float:
    """Call, ask for Sales, and return when the REFER came."""
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(recording("caller_sales"))
    refer = phone.wait_for(lambda message: message.method == "REFER", 15, "REFER")
    assert SALES in refer.uri("refer-to")
    return next(each.at for each in phone.received if each.message.method == "REFER")


@EVERY
def test_the_announcement_is_heard_before_the_refer_and_the_bye_follows_success(office):
    gateway = office.open("transfer")
    phone = office.phone(gateway)
    refer_at = ask_for_sales(phone)
    assert hear(ANNOUNCEMENT, phone.heard(before=refer_at)).whole
    phone.wait_for_bye(5)


BUSY = ReferPlan(notifies=((0.0, "SIP/2.0 100 Trying"), (0.1, "SIP/2.0 486 Busy Here")))


def goes_on_after(office, plan: ReferPlan) -> None:
    """Let a transfer fail, hear the agent again, and end the call as usual."""
    gateway = office.open("transfer", server={"sip": {"refer_timeout_s": 1}})
    phone = office.phone(gateway, refer=plan)
    ask_for_sales(phone)
    phone.until_heard(APOLOGY, 15, "the apology")
    phone.speak(recording("caller_thanks"))
    bye_at = phone.wait_for_bye(15)
    assert hear(recording("farewell"), phone.heard(before=bye_at)).whole


def test_after_a_failed_transfer_the_same_agent_goes_on_to_its_end(office):
    goes_on_after(office, BUSY)


@pytest.mark.parametrize(
    "plan",
    [
        ReferPlan(status=403),
        ReferPlan(status=603),
        ReferPlan(notifies=((0.0, "SIP/2.0 100 Trying"),)),
    ],
    ids=["forbidden", "declined", "nothing more"],
)
def test_however_a_transfer_fails_the_same_agent_goes_on_to_its_end(openai_office, plan):
    goes_on_after(openai_office, plan)


def test_a_hang_up_of_the_trunk_after_its_202_is_a_success(office):
    """Many trunks send BYE instead of a last NOTIFY."""
    gateway = office.open("transfer")
    phone = office.phone(gateway, refer=ReferPlan(notifies=((0.0, "SIP/2.0 100 Trying"),)))
    ask_for_sales(phone)
    phone.listen(0.3)
    phone.hang_up()
    phone.listen(0.5)
    assert not hear(APOLOGY, phone.heard()).whole
