"""Whole calls that end with two people who talk: what is left open, and what is written down."""

import pytest

from gateway.calls import events as ev
from gateway.legs.base import CannotDial, DtmfReceived, HungUp
from providers.errors import ProviderRejected
from providers.types import AudioDelta, AudioDone, ToolCallsRequested
from tests.gateway.calls.test_call import SALES, HandProvider, House, settle, until
from tools.types import ToolCall

NUMBER = "+12125551234"
BRIDGE = {"transfer": {"method": "bridge"}}
A, B = b"\x21" * 160, b"\x42" * 160


async def handed_over(house):
    """Let a call come in and be handed over; return its line and the colleague's, which rings."""
    leg = await house.ring()
    await until(lambda: leg.answered)
    call = ToolCall("c1", "transfer_call", f'{{"phone_number": "{NUMBER}"}}')
    house.session.say(AudioDelta("a", A), AudioDone("a"), ToolCallsRequested("r1", (call,)))
    await settle()
    leg.hear(60)
    await until(lambda: house.dialler.legs)
    await settle()
    return leg, house.dialler.legs[-1]


async def test_no_session_is_left_when_the_two_talk():
    async with House(tools=SALES, **BRIDGE) as house:
        leg, colleague = await handed_over(house)
        assert house.providers[0].closed == 0
        house.dialler.answer()
        await until(lambda: house.providers[0].closed)
        await settle()

        leg.speak(A)
        leg.speak(A)
        assert colleague.hear(40) == A * 2
        assert not house.watcher.of(ev.CallEnded)
        colleague.leave()
        assert await house.ended() == ("transferred", "callee")
        assert leg.gone
    assert house.admission.active == 0


async def test_the_audit_says_how_the_transfer_ended():
    async with House(tools=SALES, **BRIDGE) as house:
        leg, _ = await handed_over(house)
        house.dialler.answer()
        await settle()
        leg.leave()
        await house.ended()

    requested, ended = house.audit
    assert (requested["evidence"]["output.state"], ended["tool_call_id"]) == ("requested", "c1")
    assert ended["reason_code"] == "transfer_confirmed"
    assert ended["evidence"] == {
        "destination": NUMBER,
        "method": "bridge",
        "status": 200,
        "transfer_confirmed": True,
    }


async def test_the_audit_says_why_it_failed():
    async with House(tools=SALES, **BRIDGE) as house:
        leg, colleague = await handed_over(house)
        colleague.gone = True
        colleague.happened.put(HungUp(by_caller=True, reason="busy", status=486))
        await settle()
        leg.leave()
        await house.ended()

    assert house.audit[-1]["reason_code"] == "transfer_busy"
    assert house.audit[-1]["status"] == "failed"


async def test_keys_of_the_caller_are_still_written_down():
    async with House(tools=SALES, **BRIDGE) as house:
        leg, colleague = await handed_over(house)
        house.dialler.answer()
        await settle()
        leg.happened.put(DtmfReceived("7"))
        await settle()

        assert colleague.keys == "7"
        assert [event.digit for event in house.watcher.of(ev.DtmfHeard)] == ["7"]


async def test_a_gateway_that_stops_ends_both():
    async with House(tools=SALES, **BRIDGE) as house:
        leg, colleague = await handed_over(house)
        house.dialler.answer()
        await settle()
        await house.board.end_all()

        assert await house.ended() == ("drain", "gateway")
        assert leg.gone
        assert colleague.gone


async def test_a_gateway_that_stops_while_it_rings_takes_the_call_back():
    async with House(tools=SALES, **BRIDGE) as house:
        _, colleague = await handed_over(house)
        await house.board.end_all()
        await house.ended()

        assert colleague.gone


@pytest.mark.parametrize("answered", [True, False])
async def test_an_agent_who_cannot_be_reached_hands_over_by_a_call_of_ours(answered):
    provider = HandProvider(error=ProviderRejected("the key is refused", code="401"))
    async with House(provider, on_unavailable={"transfer": NUMBER}, **BRIDGE) as house:
        leg = await house.ring()
        await until(lambda: house.dialler.legs)
        if answered:
            colleague = house.dialler.answer()
            await settle()
            colleague.speak(B)
            colleague.speak(B)
            assert leg.hear(40) == B * 2
            colleague.leave()
            assert await house.ended() == ("unavailable_transferred", "callee")
        else:
            house.dialler.legs[0].leave(by_caller=True, reason="busy")
            assert (await house.ended())[0] == "unavailable_transfer_failed"
        assert leg.gone


async def test_a_caller_of_an_unreachable_agent_who_hangs_up_takes_the_call_back():
    provider = HandProvider(error=ProviderRejected("the key is refused", code="401"))
    async with House(provider, on_unavailable={"transfer": NUMBER}, **BRIDGE) as house:
        leg = await house.ring()
        await until(lambda: house.dialler.legs)
        leg.leave()

        assert await house.ended() == ("unavailable_transfer_failed", "caller")
        assert house.dialler.legs[0].gone


async def test_the_unreachable_agents_fallback_that_no_trunk_carries_ends_the_call():
    provider = HandProvider(error=ProviderRejected("the key is refused", code="401"))
    async with House(provider, on_unavailable={"transfer": NUMBER}, **BRIDGE) as house:
        house.dialler.error = CannotDial("no_route", "no trunk has an address")
        leg = await house.ring()

        assert (await house.ended())[0] == "unavailable_transfer_failed"
        assert leg.gone
