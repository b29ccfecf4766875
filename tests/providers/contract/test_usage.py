"""What a session has consumed only grows, and is still known when it is over."""

from __future__ import annotations

from providers.types import AMOUNTS, AudioDone, Usage
from tests.providers.contract.call import ANSWER, GREETING, TALK, settled
from tests.providers.contract.far import Trouble
from tests.providers.contract.needs import needs


def amounts(usage: Usage) -> list[float]:
    return [getattr(usage, name) for name in AMOUNTS]


def grown(before: Usage, after: Usage) -> bool:
    """Whether nothing became less and something more; further models count for themselves."""
    if set(before.others) - set(after.others):
        return False
    pairs = list(zip(amounts(before), amounts(after), strict=True))
    return all(old <= new for old, new in pairs) and any(old < new for old, new in pairs)


async def test_usage_grows_with_an_answer(dial) -> None:
    async with dial() as call:
        before = call.session.usage
        await call.session.respond()
        await call.hear_speech(GREETING)
        await settled(lambda: grown(before, call.session.usage))


async def test_usage_adds_up_over_the_turns(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await settled(lambda: grown(Usage(), call.session.usage))
        first = call.session.usage
        await call.say()
        await call.hear_speech(ANSWER)
        await settled(lambda: grown(first, call.session.usage))


async def test_usage_is_a_snapshot(dial) -> None:
    async with dial() as call:
        before = call.session.usage
        kept = amounts(before)
        await call.session.respond()
        await call.hear(AudioDone)
        await settled(lambda: grown(before, call.session.usage))
        assert amounts(before) == kept


@needs(Trouble.CUT)
async def test_usage_is_known_after_a_loss(dial) -> None:
    async with dial(TALK, Trouble.CUT) as call:
        await call.session.respond()
        await call.hear_the_end()
        assert len(call.losses) == 1
        used = call.session.usage
        assert all(amount >= 0 for amount in amounts(used))
        assert call.session.usage == used


async def test_usage_is_known_after_the_call(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await settled(lambda: grown(Usage(), call.session.usage))
        session, used = call.session, call.session.usage
    assert amounts(session.usage) >= amounts(used)
    assert not session.usage.nothing
