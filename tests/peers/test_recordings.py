"""What is left of a call's recording when the gateway is killed in the middle of it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.kit.gateway import Gateway
from tests.kit.office import Office, recording

pytestmark = pytest.mark.peers

GREETING = recording("greeting")


def again(office: Office, gateway: Gateway) -> Gateway:
    """Start a gateway with the same settings once more."""
    return office.stack.enter_context(Gateway(gateway.settings, office.ports, office.folder / "again"))


@pytest.mark.report("BR-178")
def test_after_a_kill_the_next_start_finishes_the_recording(fake_office):
    office = fake_office
    gateway = office.open()
    phone = office.phone(gateway)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.listen(4)
    gateway.signal(signal.SIGKILL)
    gateway.wait(5)
    (folder,) = Path(office.folder / "recordings").iterdir()
    assert not (folder / "call.json").exists()

    second = again(office, gateway)
    second.until((folder / "call.json").exists, 10, "done with the repair")
    record = json.loads((folder / "call.json").read_text())
    assert (record["reason"], record["caller"]) == ("crash", phone.caller)
    audio, rate = soundfile.read(folder / "call.flac", dtype="int16")
    assert len(audio) / rate == pytest.approx(record["audio"]["seconds"], abs=0.001)
    assert len(audio) / rate >= len(GREETING) / 8000
    assert np.abs(audio[:, 1].astype(int)).max() > 3000
    assert not list(folder.glob("*.part"))
