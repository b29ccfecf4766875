"""Many bridged calls at once, with SIPp at both ends: each one ends at both, and nothing is left of them."""

from __future__ import annotations

import shutil
import socket

import pytest

from tests.kit.office import NUMBER
from tests.kit.process import Process
from tests.kit.sipp import Sipp

pytestmark = [pytest.mark.peers, pytest.mark.crowd]

CALLS = 60


def is_taken(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def test_sixty_bridged_calls_leave_nothing_behind(fake_office, tmp_path):
    port, media = fake_office.ports.take(2), fake_office.ports.take(4)
    sipp = shutil.which("sipp") or "sipp"
    command = [sipp, "-sn", "uas", "-i", "127.0.0.1", "-p", str(port), "-mp", str(media), "-nostdin"]
    with Process(command, tmp_path / "colleagues.log", ready=lambda: is_taken(port), cwd=tmp_path):
        gateway = fake_office.open(
            "handover",
            trunk={"address": f"sip:127.0.0.1:{port}"},
            agent={"transfer": {"method": "bridge"}},
            rtp_ports=4 * CALLS + 20,
        )
        before = gateway.metrics()
        arguments = {
            "called": NUMBER,
            "calls": CALLS,
            "at_once": CALLS,
            "rate": 6.0,
            "pause": 6,
            "timeout": 60,
        }
        with Sipp("call", gateway.sip, fake_office.ports, tmp_path / "callers", **arguments) as callers:
            outcome = callers.wait()
        names = (
            "trunkline_calls_active",
            "trunkline_rtp_ports_leased",
            "trunkline_asyncio_tasks",
            "process_open_fds",
        )

        def is_back() -> bool:
            now = gateway.metrics()
            return all(now[name] <= before[name] for name in names)

        gateway.until(is_back, 15, f"as before: {before}")
        now = gateway.metrics()

    assert outcome.clean, outcome.errors
    assert now['trunkline_transfers_total{method="bridge",outcome="confirmed"}'] == CALLS
