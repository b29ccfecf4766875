"""A leg that we dial, until it is answered, and the way out that it takes."""

import asyncio

import pytest

from gateway.legs.base import Answered, CannotDial, HungUp, LegGone, Ringing
from gateway.legs.outbound import Identity
from gateway.net.ports import PortsExhausted
from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from providers.types import PCMA
from tests.gateway.legs.outgoing_line import CALLER, SALES, HandRoute, OutgoingLine
from tests.gateway.legs.sip_line import offer


@pytest.fixture
async def line():
    async with OutgoingLine() as line:
        yield line


def happened(line):
    return list(line.leg._events._items)


async def test_the_invite_offers_our_codecs_and_ports(line):
    [(target, sdp)] = line.agent.invited

    assert target.uri == f"sip:{SALES}@127.0.0.1"
    assert f"m=audio {line.media_port} ".encode() in sdp
    assert b"telephone-event" in sdp
    assert line.routes.find("lab").asked == [(SALES, Identity(CALLER.called, CALLER.caller))]


async def test_the_callers_own_codec_is_offered_first():
    async with OutgoingLine(line=PCMA) as line:
        [(_, sdp)] = line.agent.invited
        formats = sdp.split(b"RTP/AVP ", 1)[1].split()

        assert formats[:2] == [b"8", b"0"]


async def test_it_rings_and_is_answered(line):
    line.leg.handle(sip.CallProgressed("c1", 180, "Ringing", None))
    line.leg.handle(sip.CallAccepted("c1", offer(line.port)))
    await line.leg.answer()

    assert happened(line) == [Ringing(), Answered()]


async def test_early_media_is_heard_before_the_answer(line):
    heard = []
    line.leg.listen(heard.append)
    line.leg.handle(sip.CallProgressed("c1", 183, "Session Progress", offer(line.port)))
    assert happened(line) == [Ringing(early_media=True)]
    line.leg.play(b"\x42" * 160, item_id="a")
    line.leg.finish("a")
    await line.hears(b"\x42")
    line.leg.handle(sip.CallAccepted("c1", None))

    assert happened(line)[-1] == Answered()  # the early answer still stands


async def test_another_place_that_answers_gets_the_audio(line):
    line.leg.handle(sip.CallProgressed("c1", 183, "Session Progress", offer(9)))
    line.leg.handle(sip.CallAccepted("c1", offer(line.port)))
    line.leg.play(b"\x42" * 160, item_id="a")
    line.leg.finish("a")

    await line.hears(b"\x42")


@pytest.mark.parametrize("answer", [None, b"v=0", offer(0), b"\xff"])
async def test_an_answer_that_nobody_can_talk_by_ends_the_call(line, answer):
    line.leg.handle(sip.CallAccepted("c1", answer))
    assert line.agent.asked == [("bye",)]
    line.leg.handle(sip.CallEnded("c1", by_peer=False, reason="local"))

    assert happened(line) == [HungUp(by_caller=False, reason="refused", status=488)]
    assert line.pool.leased == 0


@pytest.mark.parametrize(
    ("ended", "hung_up"),
    [
        (
            sip.CallEnded("c1", by_peer=True, reason="rejected", status=486),
            HungUp(by_caller=True, reason="busy", status=486),
        ),
        (
            sip.CallEnded("c1", by_peer=True, reason="rejected", status=603),
            HungUp(by_caller=True, reason="declined", status=603),
        ),
        (
            sip.CallEnded("c1", by_peer=True, reason="rejected", status=404),
            HungUp(by_caller=True, reason="refused", status=404),
        ),
        (
            sip.CallEnded("c1", by_peer=False, reason="timeout"),
            HungUp(by_caller=False, reason="unreachable"),
        ),
        (
            sip.CallEnded("c1", by_peer=False, reason="transport"),
            HungUp(by_caller=False, reason="unreachable"),
        ),
    ],
)
async def test_why_nobody_answered_is_one_word(line, ended, hung_up):
    line.leg.handle(ended)

    assert happened(line) == [hung_up]
    with pytest.raises(LegGone):
        await line.leg.answer()
    assert (line.pool.leased, line.pacer.active) == (0, 0)


@pytest.mark.report("BR-030")
async def test_hanging_up_before_the_answer_takes_the_call_back(line):
    await line.leg.hang_up()
    assert line.agent.asked == [("cancel", "c1")]
    line.leg.handle(sip.CallEnded("c1", by_peer=False, reason="cancel"))
    line.leg.handle(sip.CallAccepted("c1", offer(line.port)))

    assert happened(line) == [HungUp(by_caller=False, reason="cancel")]


# The way out.


@pytest.mark.parametrize(
    ("trunks", "asked", "taken"),
    [
        (("lab", "carrier"), None, "lab"),
        (("carrier",), None, "carrier"),
        (("carrier", "office"), None, None),
        (("lab", "carrier"), "carrier", "carrier"),
        (("lab",), "carrier", None),
        ((), None, None),
    ],
)
async def test_the_trunk_that_was_asked_for_else_the_callers_else_the_only_one(trunks, asked, taken):
    line = OutgoingLine()
    line.routes.routes = {name: HandRoute(name) for name in trunks}

    assert line.dialler.has_route(CALLER.trunk, asked) is (taken is not None)
    if taken is None:
        with pytest.raises(CannotDial) as refused:
            await line.dial(trunk=asked)
        assert refused.value.reason == "no_route"
    else:
        leg = await line.dial(trunk=asked)
        assert leg.info.trunk == taken
        leg.abandon()
    assert line.pool.leased == 0
    await asyncio.sleep(0)


async def test_a_destination_without_an_address_is_not_dialled():
    line = OutgoingLine(HandRoute(error="pbx.example.com has no address"))

    with pytest.raises(CannotDial, match="has no address"):
        await line.dial()
    assert line.pool.leased == 0


async def test_without_a_port_nobody_is_called(monkeypatch):
    line = OutgoingLine()

    def none_left(*_):
        raise PortsExhausted("no RTP port")

    monkeypatch.setattr(line.pool, "lease", none_left)
    with pytest.raises(CannotDial) as refused:
        await line.dial()
    assert refused.value.reason == "overloaded"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (LocalProtocolError("a header that cannot be written"), "no_route"),
        (OSError(24, "Too many open files"), "overloaded"),
    ],
)
async def test_what_cannot_be_sent_gives_the_port_back(error, reason):
    line = OutgoingLine()
    line.agent.error = error

    with pytest.raises(CannotDial) as refused:
        await line.dial()
    assert refused.value.reason == reason
    assert (line.pool.leased, line.pacer.active) == (0, 0)
    await asyncio.sleep(0)
