"""Keys and figures of a SIP leg; its media are real sockets on loopback."""

import asyncio

import pytest

from gateway.legs.base import HoldExpired
from gateway.media.keypad import ToneDetector, ToneHeard
from gateway.rtp import session as rtp
from gateway.sip import events as sip
from tests.gateway.legs.sip_line import Line, offer


@pytest.fixture
async def answered():
    async with Line() as line:
        await line.answered()
        yield line


async def test_a_key_for_a_peer_without_events_is_sent_as_a_tone():
    async with Line(late_offer=True) as line:
        await line.answered(offer(line.port).replace(b" 101", b""))
        line.leg.send_dtmf("5")
        detector = ToneDetector("pcmu")
        async with asyncio.timeout(5):
            while detector.hear((await line.heard.get())[0][12:]) != "5":
                pass


@pytest.mark.report("BR-140")
async def test_a_key_that_is_told_in_three_ways_is_one_key(answered):
    for digit in "5*":
        answered.leg._media_event(ToneHeard(digit))
        answered.leg._media_event(rtp.DtmfReceived(digit))
        answered.leg.handle(sip.InfoReceived("c1", digit, 160))

    events = answered.leg.events()
    assert [(await anext(events)).digit for _ in range(2)] == ["5", "*"]


async def test_how_it_sounded_can_be_asked_before_and_after_the_end(answered):
    leg = answered.leg
    assert leg.quality.caller is None  # nothing came yet
    leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))

    assert leg.quality.statistics.received == 0


async def test_a_hold_that_lasts_too_long_is_told(answered):
    answered.leg._media_event(rtp.HoldExpired(1_800_000))

    assert await anext(answered.leg.events()) == HoldExpired(1_800_000)


async def test_the_figures_of_a_leg_name_its_trunk(answered):
    answered.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))

    assert [figures.trunk for figures in answered.media] == ["lab"]
