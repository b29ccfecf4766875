"""Somebody else is called for a caller who waits."""

import asyncio

import pytest

from gateway.calls.dialling import NotReached, Order, reach
from gateway.legs.base import GONE, Answered, CannotDial, HungUp, Ringing
from tests.gateway.calls.doubles import HandDialler, HandLeg

TONE = b"\x55" * 320
FAR = b"\x42" * 160


class Attempt:
    """A caller who waits while somebody is called."""

    def __init__(self, *, ring_s=5.0, early_media=True, error=None):
        self.caller, self.dialler, self.gone = HandLeg(), HandDialler(error=error), asyncio.Event()
        self.order = Order("+12125551234", "+12025550100", None, ring_s, TONE, early_media)

    async def __aenter__(self):
        self._scope = asyncio.timeout(20)
        await self._scope.__aenter__()
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        work = reach(self.order, caller=self.caller, dialler=self.dialler, gone=self.gone)
        self.outcome = self._group.create_task(work)
        await settle()
        return self

    async def __aexit__(self, *error):
        self.gone.set()
        await self._group.__aexit__(*error)
        await self._scope.__aexit__(*error)


async def settle():
    for _ in range(12):
        await asyncio.sleep(0)


async def test_the_caller_hears_ringing_until_somebody_answers():
    async with Attempt() as attempt:
        assert attempt.caller.hear(40) == TONE
        await asyncio.sleep(0.05)
        assert attempt.caller.hear(40) == TONE
        leg = attempt.dialler.answer()

        assert await attempt.outcome is leg
        assert leg.hung_up == []
        assert attempt.dialler.dialled == [("+12125551234", "+12025550100", None)]


async def test_the_far_ends_own_sound_takes_the_place_of_ours():
    async with Attempt() as attempt:
        (leg,) = attempt.dialler.legs
        leg.happened.put(Ringing())
        await settle()
        assert not leg.is_listened_to
        leg.happened.put(Ringing(early_media=True))
        await settle()
        leg.speak(FAR)
        leg.speak(FAR)
        assert attempt.caller.hear(40) == FAR * 2
        attempt.dialler.answer()
        await attempt.outcome

        assert not leg.is_listened_to


async def test_music_for_a_caller_who_waits_is_not_replaced():
    async with Attempt(early_media=False) as attempt:
        (leg,) = attempt.dialler.legs
        leg.happened.put(Ringing(early_media=True))
        await settle()

        assert not leg.is_listened_to


@pytest.mark.parametrize(
    ("reason", "status"), [("busy", 486), ("declined", 603), ("no_answer", 480), ("unreachable", 503)]
)
async def test_why_nobody_answered_is_told(reason, status):
    async with Attempt() as attempt:
        (leg,) = attempt.dialler.legs
        leg.gone = True
        leg.happened.put(HungUp(by_caller=True, reason=reason, status=status))

        assert await attempt.outcome == NotReached(reason, status)


async def test_nobody_rings_for_ever():
    async with Attempt(ring_s=0.02) as attempt:
        assert await attempt.outcome == NotReached("no_answer")
        assert attempt.dialler.legs[0].gone


async def test_what_no_trunk_carries_is_not_dialled():
    async with Attempt(error=CannotDial("no_route", "no trunk has an address")) as attempt:
        assert await attempt.outcome == NotReached("no_route")


async def test_for_a_caller_who_is_gone_nobody_is_called_any_more():
    async with Attempt() as attempt:
        attempt.caller.leave()
        attempt.gone.set()

        assert await attempt.outcome == NotReached(GONE)
        assert attempt.dialler.legs[0].gone


@pytest.mark.report("BR-030")
async def test_who_answers_at_the_moment_at_which_the_caller_goes_is_hung_up():
    async with Attempt() as attempt:
        leg = attempt.dialler.legs[0]
        leg.happened.put(Answered())
        attempt.gone.set()

        assert await attempt.outcome == NotReached(GONE)
        assert leg.gone


async def test_an_attempt_that_is_cancelled_hangs_up():
    async with Attempt() as attempt:
        attempt.outcome.cancel()
        await settle()

        assert attempt.dialler.legs[0].gone
