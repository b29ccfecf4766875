"""Keys and figures of a SIP leg; its media are real sockets on loopback."""

import asyncio
import struct

import pytest
import structlog

from gateway.legs.base import DtmfReceived, HoldExpired
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


async def test_a_call_that_goes_on_without_srtp_is_told_once(answered):
    key = b"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIz\r\n"
    plain = offer(answered.port, version=4)
    secured = offer(answered.port, version=3).replace(b"RTP/AVP", b"RTP/SAVP") + key
    with structlog.testing.capture_logs() as logs:
        for description in (secured, plain, plain):
            answered.leg.handle(sip.CallReoffered("c1", description))

    assert [(entry["event"], entry["call_id"]) for entry in logs] == [("call.media_unprotected", "call-1")]


async def test_a_hold_that_lasts_too_long_is_told(answered):
    answered.leg._media_event(rtp.HoldExpired(1_800_000))

    assert await anext(answered.leg.events()) == HoldExpired(1_800_000)


async def test_the_figures_of_a_leg_name_its_trunk(answered):
    answered.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))

    assert [figures.trunk for figures in answered.media] == ["lab"]


REPORTED = {
    "BR-144": ("m=audio {port} RTP/AVP 8 96", "a=rtpmap:96 telephone-event/8000", "a=fmtp:96 0-15"),
    "BR-146": (
        "m=audio {port} RTP/AVP 102 8 103 101",
        "a=rtpmap:102 opus/48000/2",
        "a=rtpmap:8 PCMA/8000",
        "a=rtpmap:103 telephone-event/48000",
        "a=rtpmap:101 telephone-event/8000",
    ),
    "BR-147": ("m=audio {port} RTP/AVP 0 8 10", "a=rtpmap:10 telephone-event/8000", "a=fmtp:10 0-16"),
}


@pytest.mark.parametrize(
    ("report", "number"),
    [
        pytest.param("BR-144", 96, marks=pytest.mark.report("BR-144")),
        pytest.param("BR-146", 101, marks=pytest.mark.report("BR-146")),
        pytest.param("BR-147", 10, marks=pytest.mark.report("BR-147")),
    ],
)
async def test_keys_go_both_ways_under_the_number_of_the_offer(answered, report, number):
    lines = ("v=0", "o=- 1 2 IN IP4 127.0.0.1", "s=-", "c=IN IP4 127.0.0.1", "t=0 0", *REPORTED[report])
    offered = "".join(f"{line}\r\n" for line in lines).format(port=answered.port).encode()
    answered.leg.handle(sip.CallReoffered("c1", offered))
    answered.leg.send_dtmf("9")
    async with asyncio.timeout(5):
        while (packet := (await answered.heard.get())[0])[1] & 0x7F != number:
            pass
    assert (packet[12], packet[1] >> 7) == (9, 1)

    heard = struct.pack("!BBHII4s", 0x80, number | 0x80, 1, 0, 7, bytes((5, 10, 0, 160)))
    audio = struct.pack("!BBHII", 0x80, 0 if report == "BR-147" else 8, 0, 0, 7) + bytes(160)
    for data in (audio, heard):
        answered.peer.sendto(data, ("127.0.0.1", answered.leg._stream.port))
    async with asyncio.timeout(5):
        assert await anext(answered.leg.events()) == DtmfReceived("5")
