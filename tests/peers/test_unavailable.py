"""When the model cannot be reached, or is lost: never silence."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.hear import hear
from tests.kit.office import NUMBER, Office
from tests.kit.phone import Phone, ReferPlan
from tests.kit.sipp import Ears, Sipp

pytestmark = pytest.mark.peers

SORRY = sound.utterance(41, 1.5)
NIGHT = "+12025550177"
NO_SWAPS = {"recovery": {"max_swaps": 0}}


def broken(office: Office, agent: dict[str, object]) -> Phone:
    """Return a phone of an office whose model refuses every session."""
    if office.provider == "fake":
        gateway = office.open("refused", agent=agent)
    else:
        gateway = office.open(faults=("status:401",), agent=agent)
    return office.phone(gateway)


def test_reject_gives_503_without_an_answer(office):
    phone = broken(office, {"on_unavailable": "reject"})
    assert phone.dial_and_be_refused().status == 503
    assert 200 not in phone.statuses()


def test_say_is_heard_whole_before_the_bye(office, tmp_path):
    sorry = sound.write(tmp_path / "sorry.wav", SORRY)
    phone = broken(office, {"on_unavailable": {"say": str(sorry)}})
    phone.call()
    bye_at = phone.wait_for_bye(10)
    assert hear(SORRY, phone.heard(before=bye_at)).whole


def test_transfer_goes_to_the_fallback_number(office, tmp_path):
    sorry = sound.write(tmp_path / "sorry.wav", SORRY)
    phone = broken(office, {"on_unavailable": {"say": str(sorry), "transfer": NIGHT}})
    phone.call()
    refer = phone.wait_for(lambda message: message.method == "REFER", 10, "REFER")
    assert NIGHT in refer.uri("refer-to")
    at = next(each.at for each in phone.received if each.message.method == "REFER")
    assert hear(SORRY, phone.heard(before=at)).whole
    phone.wait_for_bye(5)


def test_a_fallback_number_that_is_busy_ends_the_call(office):
    phone = broken(office, {"on_unavailable": {"transfer": NIGHT}})
    phone.refer = ReferPlan(notifies=((0.0, "SIP/2.0 486 Busy Here"),))
    phone.call()
    phone.wait_for_bye(10)


def test_a_model_that_hangs_is_given_up_while_it_rings(openai_office):
    settings = {"on_unavailable": "reject"}
    gateway = openai_office.open(faults=("late_handshake:30",), agent=settings)
    phone = openai_office.phone(gateway)
    refusal = phone.dial_and_be_refused(timeout=12)
    assert refusal.status == 503
    assert phone.statuses()[:2] == [100, 180]


@pytest.mark.parametrize("fault", ["close:1011@2.5", "close:1006@2.5", "expire@2.5"])
def test_a_session_that_is_lost_and_not_replaced_is_an_apology_and_a_bye(openai_office, tmp_path, fault):
    apology = sound.write(tmp_path / "apology.wav", SORRY)
    gateway = openai_office.open(faults=(fault,), agent={"apology": str(apology), **NO_SWAPS})
    phone = openai_office.phone(gateway)
    phone.call()
    bye_at = phone.wait_for_bye(12)
    assert hear(SORRY, phone.heard(before=bye_at)).whole


def test_sipp_hears_the_apology_for_a_session_lost_in_mid_call(office, tmp_path):
    apology = sound.write(tmp_path / "apology.wav", SORRY)
    agent = {"apology": str(apology), **NO_SWAPS}
    gateway = office.open("lost", agent=agent) if office.provider == "fake" else office.open(
        faults=("close:1011@2.5",), agent=agent
    )  # fmt: skip
    arguments = {"called": NUMBER, "audio": np.concatenate((SORRY, sound.silence(5)))}
    with (
        Sipp("call_ended_by_agent", gateway.sip, office.ports, tmp_path / "sipp", **arguments) as sipp,
        Ears(sipp.media_ports) as ears,
    ):
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors
    assert hear(SORRY, ears.pcm(sipp.media_ports[0])).whole
