"""A real telephone, Debian's baresip, calls the gateway."""

from __future__ import annotations

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
