"""
The user agent on real sockets calls SIPp: what a gateway's own calls do towards a peer of another make.

Whole calls through ``trunkline serve`` are in ``tests/peers``; here the application is a few lines, so that
each race can be played exactly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.sip import events as sip
from gateway.sip.target import Credentials
from tests.kit.callee import Callee, ask, confirm, expect, expect_response, pause, reply
from tests.kit.ports import Ports
from tests.sipp.caller import OFFER, Caller, Does

pytestmark = pytest.mark.peers

CHALLENGE = 'Proxy-Authenticate: Digest realm="pbx", nonce="n{n}", algorithm={kind}, qop="auth"'
RELIABLE = "Require: 100rel"


@pytest.fixture
def ports():
    with Ports() as ports:
        yield ports


async def play(
    steps: list[str],
    ports: Ports,
    folder: Path,
    *,
    does: Callable[[Caller], Does] | None = None,
    credentials: Credentials | None = None,
    transport: str = "udp",
) -> tuple[sip.CallEnded, Caller]:
    """Run the callee and one call of ours to it; check that the callee is content."""
    async with Caller() as caller:
        caller.does = {sip.CallAccepted: caller.bye} if does is None else does(caller)
        with Callee(steps, ports, folder, tcp=transport == "tcp") as callee:
            await asyncio.sleep(0.3 if transport == "udp" else 0.6)  # until SIPp listens
            caller.dial(caller.flow(callee.port, transport), credentials=credentials)
            ended = await caller.until(sip.CallEnded)
            outcome = await asyncio.to_thread(callee.wait)
        assert outcome.clean, outcome.errors
        assert outcome.successful == 1
    assert isinstance(ended, sip.CallEnded)
    return ended, caller


HANG_UP = [expect("BYE"), confirm()]


def cancelling(caller: Caller) -> Does:
    return {sip.CallProgressed: lambda event: caller.ua.cancel(caller.call, now=caller.now)}


def holding(caller: Caller) -> Does:
    return {sip.CallReoffered: lambda event: caller.ua.answer_reoffer(caller.call, OFFER, now=caller.now)}


def reoffering(caller: Caller) -> Does:
    return {
        sip.CallAccepted: lambda event: caller.ua.reoffer(caller.call, OFFER, now=caller.now),
        sip.ReofferAnswered: caller.bye,
    }


def answer_of(caller: Caller) -> sip.CallAccepted:
    (accepted,) = (event for event in caller.events if isinstance(event, sip.CallAccepted))
    return accepted


@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_a_call_through_a_proxy_that_records_its_route(ports, tmp_path, transport):
    steps = [
        expect("INVITE", says=("Max-Forwards: 70", "m=audio 20000", "Supported: .*100rel")),
        reply(100, "Trying", tag=""),
        reply(180, "Ringing"),
        pause(50),
        reply(
            200,
            "OK",
            "Record-Route: <sip:10.255.0.1;lr>",
            f"Record-Route: <sip:[local_ip]:[local_port];lr;transport={transport}>",
            "Contact: <sip:bob@10.20.30.40:5070>",
            sdp=30000,
        ),
        expect("ACK", says=(r"ACK sip:bob@10\.20\.30\.40:5070", r"Route: <sip:127\.0\.0\.1[^,]*")),
        expect("BYE", says=(r"BYE sip:bob@10\.20\.30\.40:5070", "CSeq: 2 BYE")),
        confirm(),
    ]
    ended, caller = await play(steps, ports, tmp_path, transport=transport)

    assert (ended.by_peer, ended.reason) == (False, "local")
    assert [type(event) for event in caller.events] == [sip.CallProgressed, sip.CallAccepted, sip.CallEnded]


@pytest.mark.parametrize(
    ("status", "phrase"), [(486, "Busy Here"), (503, "Unavailable"), (302, "Moved"), (603, "No")]
)
async def test_a_rejection(ports, tmp_path, status, phrase):
    steps = [expect("INVITE"), reply(status, phrase), expect("ACK")]
    ended, _ = await play(steps, ports, tmp_path)

    assert (ended.reason, ended.status, ended.phrase) == ("rejected", status, phrase)


async def test_an_address_where_nobody_listens_is_passed_over_at_once(ports, tmp_path):
    steps = [expect("INVITE"), reply(200, sdp=30000), expect("ACK"), *HANG_UP]
    async with Caller() as caller:
        caller.does = {sip.CallAccepted: caller.bye}
        with Callee(steps, ports, tmp_path) as callee:
            await asyncio.sleep(0.3)
            caller.dial(caller.flow(ports.take(2), "tcp"), caller.flow(callee.port))
            async with asyncio.timeout(3):
                ended = await caller.until(sip.CallEnded)
            outcome = await asyncio.to_thread(callee.wait)
        assert outcome.clean, outcome.errors
    assert ended.reason == "local"


@pytest.mark.report("BR-024")
async def test_a_repeated_answer_is_acknowledged_again(ports, tmp_path):
    steps = [expect("INVITE"), reply(200, sdp=30000), expect("ACK"), pause(300)]
    steps += [reply(200, sdp=30000), expect("ACK"), ask("BYE", 1), expect_response(200)]
    ended, caller = await play(steps, ports, tmp_path, does=lambda caller: {})

    assert (ended.by_peer, ended.reason) == (True, "bye")
    assert sum(isinstance(event, sip.CallAccepted) for event in caller.events) == 1


@pytest.mark.report("BR-030")
async def test_an_answer_crosses_our_cancel(ports, tmp_path):
    steps = [expect("INVITE"), reply(180, "Ringing"), expect("CANCEL"), confirm(), reply(200, sdp=30000)]
    steps += [expect("ACK"), *HANG_UP]
    ended, _ = await play(steps, ports, tmp_path, does=cancelling)

    assert (ended.by_peer, ended.reason) == (False, "cancel")


async def test_a_cancelled_call(ports, tmp_path):
    steps = [expect("INVITE"), reply(180, "Ringing"), expect("CANCEL"), confirm(200)]
    steps += [reply(487, "Request Terminated"), expect("ACK")]
    ended, _ = await play(steps, ports, tmp_path, does=cancelling)

    assert (ended.by_peer, ended.reason) == (False, "cancel")


@pytest.mark.report("BR-037")
@pytest.mark.parametrize("kind", ["MD5", "SHA-256"])
async def test_a_challenged_call_and_a_challenged_bye(ports, tmp_path, kind):
    sums = 32 if kind == "MD5" else 64
    proof = rf'Proxy-Authorization: Digest .*response="[0-9a-f]{{{sums}}}".*nc=0000000'
    steps = [
        expect("INVITE", says=("CSeq: 1 INVITE",)),
        reply(407, "Proxy Authentication Required", CHALLENGE.format(n=1, kind=kind)),
        expect("ACK", says=("CSeq: 1 ACK",)),
        expect("INVITE", says=("CSeq: 2 INVITE", proof + "1")),
        reply(200, sdp=30000),
        expect("ACK", says=("CSeq: 2 ACK", proof + "1")),
        expect("BYE", says=("CSeq: 3 BYE", proof + "2")),
        confirm(407, "Proxy Authentication Required", CHALLENGE.format(n=2, kind=kind) + ", stale=true"),
        expect("BYE", says=("CSeq: 4 BYE", 'nonce="n2"', proof + "1")),
        confirm(),
    ]
    ended, _ = await play(steps, ports, tmp_path, credentials=Credentials("gw", "word"))

    assert ended.reason == "local"


@pytest.mark.report("BR-045")
async def test_reliable_ringing(ports, tmp_path):
    steps = [
        expect("INVITE"),
        reply(183, "Session Progress", RELIABLE, "RSeq: 10", sdp=30000),
        expect("PRACK", says=("RAck: 10 1 INVITE",)),
        confirm(),
        reply(180, "Ringing", RELIABLE, "RSeq: 11", sdp=30000),
        expect("PRACK", says=("RAck: 11 1 INVITE", "CSeq: 3 PRACK")),
        confirm(),
        reply(200),
        expect("ACK"),
        *HANG_UP,
    ]
    _, caller = await play(steps, ports, tmp_path)
    first, second = (event for event in caller.events if isinstance(event, sip.CallProgressed))
    accepted = answer_of(caller)

    assert (first.status, second.status, second.sdp) == (183, 180, None)
    assert accepted.sdp == first.sdp
    assert b"m=audio 30000" in (accepted.sdp or b"")


@pytest.mark.report("BR-078")
async def test_another_answer_in_the_200_than_in_the_183(ports, tmp_path):
    steps = [
        expect("INVITE"),
        reply(183, "Session Progress", sdp=30000),
        reply(200, sdp=30002),
        expect("ACK"),
    ]
    _, caller = await play([*steps, *HANG_UP], ports, tmp_path)

    assert b"m=audio 30002" in (answer_of(caller).sdp or b"")


@pytest.mark.report("BR-017")
async def test_the_peer_holds_a_call_of_ours(ports, tmp_path):
    steps = [expect("INVITE"), reply(200, sdp=30000), expect("ACK"), ask("INVITE", 1, sdp=30004)]
    steps += [expect_response(100), expect_response(200), ask("ACK", 1), ask("BYE", 2), expect_response(200)]
    ended, caller = await play(steps, ports, tmp_path, does=holding)
    assert (ended.by_peer, ended.reason) == (True, "bye")
    assert any(isinstance(event, sip.CallReoffered) for event in caller.events)


async def test_our_offer_meets_the_peers_and_comes_again(ports, tmp_path):
    steps = [
        expect("INVITE"),
        reply(200, sdp=30000),
        expect("ACK"),
        expect("INVITE", says=("CSeq: 2 INVITE",)),
    ]
    steps += [reply(491, "Request Pending", tag=""), expect("ACK")]
    steps += [
        expect("INVITE", says=("CSeq: 3 INVITE",)),
        reply(200, tag="", sdp=30000),
        expect("ACK"),
        *HANG_UP,
    ]
    ended, caller = await play(steps, ports, tmp_path, does=reoffering)
    (answered,) = (event for event in caller.events if isinstance(event, sip.ReofferAnswered))

    assert (answered.status, ended.reason) == (200, "local")
