"""A real telephone, Debian's baresip, calls the gateway."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.baresip import Baresip
from tests.kit.hear import hear
from tests.kit.office import NUMBER, recording

pytestmark = pytest.mark.peers

GREETING, FAREWELL = recording("greeting"), recording("farewell")


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_baresip_is_greeted_says_goodbye_and_hears_the_whole_farewell(office, tmp_path, transport):
    gateway = office.open("farewell")
    words = np.concatenate((sound.silence(len(GREETING) / 8000 + 0.8), recording("caller_thanks")))
    uri = f"sip:{NUMBER}@{gateway.sip[0]}:{gateway.sip[1]};transport={transport}"
    with Baresip(uri, office.ports, tmp_path / "baresip", words=words) as baresip:
        baresip.wait_for("Call established", 10)
        baresip.wait_for("session closed", 25)
        heard = baresip.heard
    assert hear(GREETING, heard).whole
    assert hear(FAREWELL, heard).whole


def test_baresips_own_reports_say_how_the_agent_sounded(fake_office, tmp_path):
    """RTCP of a real peer: loss and jitter of our voice, and the round trip, in the record of the call."""
    gateway = fake_office.open()
    uri = f"sip:{NUMBER}@{gateway.sip[0]}:{gateway.sip[1]}"
    words = np.concatenate((sound.silence(len(GREETING) / 8000 + 0.8), recording("caller_thanks")))
    with Baresip(uri, fake_office.ports, tmp_path / "baresip", words=words) as baresip:
        baresip.wait_for("Call established", 10)
        gateway.until(lambda: gateway.metrics()["trunkline_calls_active"] == 1, 5, "in the call")
        time.sleep(12)  # two of its reports
    folder = fake_office.folder / "recordings"
    gateway.until(lambda: list(folder.glob("*/call.json")), 10, "done with the call")
    (path,) = folder.glob("*/call.json")
    media = json.loads(path.read_text())["media"]
    print(media)
    assert media["caller"]["mos"] > 4.2
    assert media["agent"]["mos"] > 4.2
    assert media["agent"]["loss"] < 0.02
    assert 0 <= media["counted"]["rtt_ms"] < 50
