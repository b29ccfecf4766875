"""Many calls at once, again and again: none is lost and nothing is left behind."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.counts import counts
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.office import NUMBER, Office, recording
from tests.kit.sipp import Ears, Sipp

pytestmark = [pytest.mark.peers, pytest.mark.soak, pytest.mark.timeout(900)]

CALLS = 20
SECONDS = counts(test=16, full=30)
ROUNDS = counts(test=1, full=10)
GREETING, ANSWER = recording("greeting"), recording("answer")
QUESTION = np.concatenate((sound.silence(len(GREETING) / 8000 + 1.5), recording("caller_hours")))


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def held(gateway: Gateway) -> dict[str, float]:
    """Return what the gateway says that it holds: tasks, file descriptors, leased ports, calls."""
    metrics = gateway.metrics()
    return {name: metrics[name] for name in HELD}


HELD = ("trunkline_asyncio_tasks", "process_open_fds", "trunkline_rtp_ports_leased", "trunkline_calls_active")


def one_round(office: Office, gateway: Gateway, folder: Path) -> str:
    """Place the calls; each says its question and is answered, and hangs up at its end. Say how it went."""
    words = np.concatenate((QUESTION, sound.silence(SECONDS)))[: SECONDS * 8000]
    arguments = {"calls": CALLS, "rate": 10, "pause": SECONDS, "audio": words, "timeout": SECONDS + 30}
    with (
        Sipp("call_with_audio", gateway.sip, office.ports, folder, called=NUMBER, **arguments) as sipp,
        Ears(sipp.media_ports) as ears,
    ):
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors
    assert outcome.successful == CALLS
    for port in sipp.media_ports:
        packets = len(ears.heard[port])
        assert packets >= SECONDS * 50 * 0.9, f"{packets} packets in {SECONDS} s"
        heard = ears.pcm(port)
        assert hear(GREETING, heard).whole
        assert hear(ANSWER, heard).whole
    packets = [len(ears.heard[port]) for port in sipp.media_ports]
    return f"{outcome.successful} calls of {SECONDS} s, {min(packets)} to {max(packets)} packets each"


def test_calls_at_once_lose_nothing_and_leave_nothing_behind(office, tmp_path):
    gateway = office.open(rtp_ports=100)
    one_round(office, gateway, tmp_path / "warm-up")
    gateway.until(lambda: held(gateway)["trunkline_calls_active"] == 0, 5, "idle")
    time.sleep(1)
    before = held(gateway)
    resident = []
    for number in range(1, ROUNDS + 1):
        went = one_round(office, gateway, tmp_path / f"round-{number}")
        gateway.until(lambda: held(gateway) == before, 10, f"as before: {before}, now {held(gateway)}")
        resident.append(resident_kib(gateway.popen.pid))
        late = gateway.metrics()["trunkline_pacer_late_ticks_total"]
        print(
            f"{office.provider}, round {number}: {went}, {resident[-1]} KiB resident, {late:.0f} late ticks"
        )
    print(f"{office.provider}: before and after each round {before}")
    if ROUNDS >= 10:
        growth = resident[9] / resident[2] - 1
        print(f"{office.provider}: RSS grew by {growth:.2%} from round 3 to round 10")
        assert growth <= 0.02
