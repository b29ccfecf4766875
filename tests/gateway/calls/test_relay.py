"""Two lines joined, under a test's hands."""

import asyncio

import pytest

from gateway.calls.relay import OneWay, Relay
from gateway.legs.base import (
    DtmfReceived,
    HoldChanged,
    HoldExpired,
    HungUp,
    MediaLost,
    MediaResumed,
    TransferRequested,
)
from gateway.media.g711 import PCMA_TO_PCMU
from providers.types import PCMA, PCMU
from tests.gateway.calls.doubles import HandLeg

A, B = b"\x21" * 160, b"\x42" * 160


class Pair:
    """A caller and a callee whose relay runs."""

    def __init__(self):
        self.caller, self.callee = HandLeg(), HandLeg()
        self.recorded, self.keys, self.wishes = [], [], []
        self.relay = Relay(
            self.caller,
            self.callee,
            hears_caller=self.recorded.append,
            on_key=self.keys.append,
            on_transfer=lambda leg, uri: self.wishes.append((leg, uri)),
        )

    async def __aenter__(self):
        self._scope = asyncio.timeout(20)
        await self._scope.__aenter__()
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self.relay.start()
        self.run = self._group.create_task(self.relay.run())
        await settle()
        return self

    async def __aexit__(self, *error):
        self.caller.leave()
        await self._group.__aexit__(*error)
        await self._scope.__aexit__(*error)


async def settle():
    for _ in range(8):
        await asyncio.sleep(0)


async def test_each_hears_the_other_and_the_recorder_the_caller():
    async with Pair() as pair:
        for _ in range(3):
            pair.caller.speak(A)
            pair.callee.speak(B)

        assert pair.callee.hear(60) == A * 3
        assert pair.caller.hear(60) == B * 3
        assert pair.recorded == [A] * 3


async def test_what_was_to_be_played_before_is_forgotten():
    pair = Pair()
    pair.caller.play(b"\x77" * 1600, item_id="ringing")
    async with pair:
        pair.callee.speak(B)
        pair.callee.speak(B)

        assert pair.caller.hear(40) == B * 2


async def test_two_formats_are_exchanged_by_table():
    caller, callee = HandLeg(), HandLeg()
    callee.format = PCMA
    way = OneWay(callee, caller)
    way.start()
    callee.speak(b"\xd5" * 160)
    callee.speak(b"\xd5" * 160)

    assert (caller.format, caller.hear(40)) == (PCMU, (b"\xd5" * 320).translate(PCMA_TO_PCMU))


async def test_keys_go_on_as_keys_and_the_callers_are_reported():
    async with Pair() as pair:
        pair.caller.happened.put(DtmfReceived("5"))
        pair.callee.happened.put(DtmfReceived("#"))
        await settle()

        assert (pair.callee.keys, pair.caller.keys, pair.keys) == ("5", "#", ["5"])


async def test_a_key_whose_tones_are_in_the_audio_is_not_pressed_again_on_the_other_line():
    async with Pair() as pair:
        pair.caller.happened.put(DtmfReceived("5", inband=True))
        await settle()

        assert (pair.callee.keys, pair.keys) == ("", ["5"])


@pytest.mark.parametrize("who", ["caller", "callee"])
async def test_the_end_of_one_line_is_the_end_of_the_relay(who):
    async with Pair() as pair:
        leg = getattr(pair, who)
        leg.leave(reason="bye")
        ended, how = await pair.run

        assert (ended is leg, how) == (True, HungUp(by_caller=True, reason="bye"))
        assert not pair.caller.is_listened_to
        assert not pair.callee.is_listened_to


async def test_after_a_hold_nothing_old_is_heard():
    async with Pair() as pair:
        for _ in range(10):
            pair.callee.speak(B)  # the caller's telephone takes nothing meanwhile
        pair.caller.happened.put(HoldChanged(held=False))
        await settle()
        pair.callee.speak(A)
        pair.callee.speak(A)

        assert pair.caller.hear(40) == A * 2


async def test_a_listener_that_stands_still_does_not_make_the_queue_grow():
    async with Pair() as pair:
        for _ in range(500):
            pair.caller.speak(A)

        assert pair.callee.playout.queued_ms <= 320


async def test_one_silent_side_may_be_muted_and_two_are_nobody():
    async with Pair() as pair:
        pair.callee.happened.put(MediaLost(30_000))
        pair.callee.happened.put(MediaResumed())
        pair.caller.happened.put(MediaLost(30_000))
        await settle()
        assert not pair.run.done()
        pair.callee.happened.put(MediaLost(30_000))
        await settle()

        assert pair.run.done()
        assert len(pair.caller.hung_up) + len(pair.callee.hung_up) == 1


async def test_nobody_is_held_for_ever():
    async with Pair() as pair:
        pair.callee.happened.put(HoldExpired(1_800_000))
        await settle()

        assert pair.callee.gone
        assert pair.run.done()


async def test_a_wish_to_transfer_is_for_the_owner():
    async with Pair() as pair:
        pair.callee.happened.put(TransferRequested("sip:+12125559999@gw.example"))
        await settle()

        assert pair.wishes == [(pair.callee, "sip:+12125559999@gw.example")]
