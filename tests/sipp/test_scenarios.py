"""
Every scenario of ``tests/sipp/scenarios`` against one gateway, over UDP and TCP.

What the gateway must do is said in the scenario and judged by SIPp. Its root may say how it is run:
``called`` (the agent, else ``talk``), ``number`` (what is dialled in its place), ``transports``, ``host``
(SIPp's address, by which the gateway knows the trunk), ``lost`` (percent), ``calls``, and what ``<speak/>``
says: ``says`` (a recording) or ``keys``, with ``codec``, ``ptime`` and ``event`` (telephone-events' number).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tests.kit import pcap, sound
from tests.kit.gateway import Gateway
from tests.kit.office import recording
from tests.kit.ports import Ports
from tests.kit.scenario import expand
from tests.kit.sipp import Sipp
from tests.sipp.agents import AGENTS

pytestmark = pytest.mark.peers

FOLDER = Path(__file__).parent / "scenarios"
NAMES = sorted(path.stem for path in FOLDER.glob("*.xml"))


def heading(name: str) -> dict[str, str]:
    return dict(ET.parse(FOLDER / f"{name}.xml").getroot().attrib)


def runs() -> list[tuple[str, str]]:
    return [
        (name, transport)
        for name in NAMES
        for transport in heading(name).get("transports", "udp tcp").split()
    ]


def write_pcap(how: dict[str, str], path: Path) -> Path:
    """Write what the scenario's ``<speak/>`` says."""
    if "keys" in how:
        return pcap.write_keys(path, how["keys"], kind=int(how.get("event", "101")))
    said = recording(how["says"]) if "says" in how else sound.silence(0.02)
    said = np.concatenate((said, sound.silence(1.0)))
    return pcap.write_audio(path, said, codec=how.get("codec", "PCMU"), ptime_ms=int(how.get("ptime", "20")))


@pytest.mark.parametrize(("name", "transport"), runs(), ids=lambda value: value)
def test_the_gateway_does_as_the_scenario_says(gateway: Gateway, ports: Ports, tmp_path, name, transport):
    how = heading(name)
    host = how.get("host", "127.0.0.1")
    with Sipp(
        expand((FOLDER / f"{name}.xml").read_text()),
        ("::1" if ":" in host else "127.0.0.1", gateway.sip[1]),
        ports,
        tmp_path / "sipp",
        called=how.get("number") or AGENTS[how.get("called", "talk")],
        calls=int(how.get("calls", "1")),
        host=host,
        lost=int(how.get("lost", "0")),
        tcp=transport == "tcp",
        write_pcap=lambda path: write_pcap(how, path),
        timeout=20,
    ) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, f"{outcome.errors}\n--- gateway\n{gateway.log[-2000:]}"
    assert outcome.successful == int(how.get("calls", "1"))


def test_the_suite_is_as_large_as_it_says():
    assert len(NAMES) >= 60


def test_the_gateway_has_lost_nothing_by_all_this(gateway: Gateway):
    """No traceback in its log, whatever the scenarios of this worker sent before."""
    assert "Traceback" not in gateway.log
