"""Kamailio in front of the gateway, as operators run it: calls keep to the route that it records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit import sound
from tests.kit.gateway import Gateway
from tests.kit.kamailio import Kamailio
from tests.kit.phone import Phone
from tests.kit.ports import Ports
from tests.kit.scenario import expand
from tests.kit.sipp import Sipp
from tests.sipp.agents import AGENTS, settings

pytestmark = pytest.mark.peers

BOTH = pytest.mark.parametrize("tcp", [False, True], ids=["from-udp", "from-tcp"])
CALL = "<scenario><established/><wait ms='300'/><hangup/></scenario>"
ENDED_BY_AGENT = """
<scenario>
  <established/>
  <expect request="BYE"><has header="Max-Forwards">[1-9]</has></expect>
  <response status="200 OK"/>
</scenario>
"""
MOVED = """
<scenario>
  <established/>
  <invite><sdp direction="sendonly"/></invite>
  <expect response="200" after="100"><has in="body">a=recvonly</has></expect>
  <ack/>
  <hangup/>
</scenario>
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with Ports() as ports, Gateway(settings(folder), ports, folder) as gateway:
        yield gateway


@pytest.fixture(scope="module", params=["udp", "tcp"])
def kamailio(request, gateway, tmp_path_factory) -> Iterator[Kamailio]:
    """Give a Kamailio that talks to the gateway over each transport in turn."""
    folder = tmp_path_factory.mktemp("kamailio")
    with Ports() as ports, Kamailio(ports, folder, gateway=gateway.sip, transport=request.param) as kamailio:
        yield kamailio


def calls(kamailio: Kamailio, ports: Ports, folder, scenario: str, called: str, *, tcp: bool) -> list[str]:
    """Let SIPp call three times through the proxy; return the Route headers of the BYEs."""
    before = len(kamailio.requests("BYE"))
    with Sipp(expand(scenario), kamailio.sip, ports, folder, called=AGENTS[called], calls=3, tcp=tcp) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, f"{outcome.errors}\n{kamailio.log[-2000:]}"
    byes = kamailio.requests("BYE")[before:]
    assert len(byes) == 3
    return [route for _, route in byes]


def hops(kamailio: Kamailio, *, tcp: bool) -> int:
    """Return how many routes it records: one for each side where the transport changes (RFC 5658)."""
    return 2 if tcp != (kamailio.transport == "tcp") else 1


@BOTH
def test_the_callers_requests_come_by_the_recorded_route(kamailio, ports, tmp_path, tcp):
    routes = calls(kamailio, ports, tmp_path / "sipp", CALL, "talk", tcp=tcp)
    assert [route.count(";lr") for route in routes] == [hops(kamailio, tcp=tcp)] * 3


@BOTH
def test_the_gateways_bye_goes_by_the_recorded_route(kamailio, ports, tmp_path, tcp):
    routes = calls(kamailio, ports, tmp_path / "sipp", ENDED_BY_AGENT, "goodbye", tcp=tcp)
    assert [route.count(";lr") for route in routes] == [hops(kamailio, tcp=tcp)] * 3


@BOTH
def test_a_call_is_held_through_the_proxy(kamailio, ports, tmp_path, tcp):
    calls(kamailio, ports, tmp_path / "sipp", MOVED, "talk", tcp=tcp)


def test_the_caller_hears_the_agent_past_the_proxy(kamailio, ports):
    """The media goes straight to the caller, whatever way the signalling takes."""
    with Phone(kamailio.sip, ports, called=AGENTS["talk"]) as phone:
        phone.call()
        phone.listen(1.0)
        phone.hang_up()
        heard = phone.heard()
    assert len(heard) >= 0.6 * sound.RATE
    assert abs(heard).max() > 3000
