"""Debian's Linphone calls the gateway: it speaks, presses keys and holds as its own code does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit import sound
from tests.kit.gateway import Gateway
from tests.kit.linphone import Linphone
from tests.kit.office import recording
from tests.kit.ports import Ports
from tests.sipp.agents import AGENTS, settings

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with Ports() as ports, Gateway(settings(folder), ports, folder) as gateway:
        yield gateway


@pytest.fixture
def linphone(ports: Ports, tmp_path) -> Iterator[Linphone]:
    with Linphone(ports, tmp_path / "linphone", words=recording("caller_thanks")) as linphone:
        yield linphone


def call(linphone: Linphone, gateway: Gateway, agent: str, transport: str = "udp") -> None:
    """Call an agent and wait until audio flows."""
    linphone.tell(f"call sip:{AGENTS[agent]}@127.0.0.1:{gateway.sip[1]};transport={transport}")
    linphone.wait_for("Media streams established", 10)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_it_speaks_is_understood_and_hung_up_on(gateway, linphone, transport):
    call(linphone, gateway, "listen", transport)
    linphone.tell(f"play {linphone.words}")
    linphone.wait_for(r"ended \(No error\)", 15)


def test_its_keys_arrive(gateway, linphone):
    call(linphone, gateway, "keys")
    for key in "5#":
        linphone.tell(key)
    linphone.wait_for(r"ended \(No error\)", 15)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_it_holds_and_resumes(gateway, linphone, transport):
    call(linphone, gateway, "talk", transport)
    linphone.tell("pause")
    linphone.wait_for("is now paused", 10)
    linphone.tell("resume")
    linphone.wait_for(r"Resuming(?s:.)*Media streams established", 10)
    linphone.tell("terminate")
    linphone.wait_for(r"ended \(No error\)", 10)


def test_it_hears_the_agent(gateway, linphone):
    call(linphone, gateway, "goodbye")
    linphone.wait_for(r"ended \(No error\)", 15)
    heard = linphone.folder / "heard.wav"
    linphone.until(lambda: heard.exists() and heard.stat().st_size > 2000, 5, "writing what it heard")
    linphone.stop()
    assert abs(sound.read(heard)).max() > 3000
