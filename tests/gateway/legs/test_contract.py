"""
What every SIP leg does from its answer on, whoever began the call (:class:`gateway.legs.base.CallLeg`).

Each test runs on a call that came in and on one that we dialled; media are real sockets on loopback.
"""

import asyncio
import struct

import pytest

from gateway.legs.base import (
    Cleared,
    DtmfReceived,
    HoldChanged,
    HungUp,
    TransferProgress,
    TransferRequested,
    TransferState,
)
from gateway.sip import events as sip
from tests.gateway.legs.outgoing_line import OutgoingLine
from tests.gateway.legs.sip_line import Line, offer
from tests.kit import pcap

A, B = b"\x21" * 160, b"\x42" * 160


@pytest.fixture(params=["incoming", "outgoing"])
async def line(request):
    async with Line() if request.param == "incoming" else OutgoingLine() as line:
        await line.answered()
        yield line


def frame(line, number, payload=A, kind=0):
    packet = pcap.rtp(payload, kind=kind, sequence=number, timestamp=number * 160, ssrc=7)
    line.peer.sendto(packet, ("127.0.0.1", line.media_port))


async def event(line):
    async with asyncio.timeout(5):
        return await anext(line.leg.events())


async def test_what_is_played_is_sent_heard_and_marked(line):
    line.leg.play(A * 3, item_id="a")
    line.leg.finish("a")
    async with asyncio.timeout(5):
        await line.leg.mark()

    assert line.leg.heard_ms("a") == 60
    assert line.leg.began_at("a") is not None
    await line.hears(b"\x21")


async def test_what_is_cleared_is_not_sent(line):
    line.leg.play(A * 500, item_id="a")
    await line.hears(b"\x21")
    cleared = line.leg.clear()

    assert cleared.item_id == "a"
    assert cleared.dropped_ms > 9000
    assert line.leg.clear() == Cleared("a", cleared.heard_ms, 0)


async def test_the_peers_voice_comes_in_order(line):
    for number in range(5):
        frame(line, number, bytes([number + 1]) * 160)
    heard = b""
    async with asyncio.timeout(5):
        async for piece in line.leg.frames():
            heard += piece.audio
            if b"\x05" * 160 in heard:
                break

    places = [heard.index(bytes([number]) * 160) for number in range(1, 6)]
    assert places == sorted(places)


async def test_a_listener_hears_it_instead(line):
    heard = []
    line.leg.listen(heard.append)
    for number in range(5):
        frame(line, number, B)
    async with asyncio.timeout(5):
        while B not in b"".join(heard):
            await asyncio.sleep(0.01)


async def test_keys_go_both_ways(line):
    for number in range(3):
        body = struct.pack("!BBH", 5, 0x80 | 10, 800)
        line.peer.sendto(
            pcap.rtp(body, kind=101, sequence=number, timestamp=0, ssrc=7, marker=number == 0),
            ("127.0.0.1", line.media_port),
        )
    assert await event(line) == DtmfReceived("5")
    line.leg.send_dtmf("7")
    async with asyncio.timeout(5):
        while True:
            data, _ = await line.heard.get()
            if data[1] & 127 == 101:
                break

    assert data[12] == 7


async def test_a_hold_is_reported_and_answered_with_our_address(line):
    line.leg.handle(sip.CallReoffered("c1", offer(line.port, direction="sendonly", version=2)))

    assert await event(line) == HoldChanged(held=True)
    command, sdp = line.agent.asked[-1]
    assert command == "answer_reoffer"
    assert f"m=audio {line.media_port} ".encode() in sdp
    assert b"a=recvonly" in sdp


async def test_a_transfer_is_asked_of_the_peer(line):
    progress = line.leg.transfer("+12125551234")
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(anext(progress))
        await asyncio.sleep(0)
        line.leg.handle(sip.ReferAnswered("c1", 202))

    assert line.agent.asked[-1] == ("refer", "+12125551234")
    assert task.result() == TransferProgress(TransferState.REDIRECTING, 202)
    await progress.aclose()


async def test_a_wish_of_the_peer_is_reported_and_answered(line):
    line.leg.handle(sip.ReferReceived("c1", "sip:+12125551234@gw"))

    assert await event(line) == TransferRequested("sip:+12125551234@gw")
    line.leg.answer_transfer(100)
    assert line.agent.asked[-1] == ("answer_refer", 100)


async def test_the_end_comes_once_and_gives_everything_back(line):
    await line.leg.hang_up()
    assert line.agent.asked[-1] == ("bye",)
    line.leg.handle(sip.CallEnded("c1", by_peer=False, reason="local"))
    line.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))

    assert [each async for each in line.leg.events() if isinstance(each, HungUp)] == [
        HungUp(by_caller=False, reason="local")
    ]
    assert [piece async for piece in line.leg.frames()] == []
    await line.leg.mark()
    await line.leg.hang_up()
    assert line.agent.asked.count(("bye",)) == 1
    assert (line.pool.leased, line.pacer.active) == (0, 0)
