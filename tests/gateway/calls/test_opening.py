"""Sessions of a call, each in a task of its own."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from config.recovery import BreakerSettings
from gateway.calls.opening import Opener
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.failover import BreakerState, Failover
from providers.types import PCMU, SessionSetup
from tests.gateway.calls.doubles import HandProvider

SETUP = SessionSetup("You answer the phone.", "", (), PCMU)


class House:
    """The sessions of one call."""

    def __init__(self, *providers, failures=2):
        self.now = 0.0
        self.failover = Failover(BreakerSettings(failures=failures))
        self.opened = []
        self._group = asyncio.TaskGroup()
        self.opener = Opener(
            providers, voices={"second": "Kore"}, failover=self.failover, clock=lambda: self.now,
            group=self._group, name="call-1", on_open=lambda *each: self.opened.append(each),
        )  # fmt: skip

    async def __aenter__(self):
        await self._group.__aenter__()
        return self

    async def __aexit__(self, kind, error, trace):
        self.opener.close()
        await self._group.__aexit__(kind, error, trace)

    def state(self, name):
        return self.failover.states(self.now)[name]


async def test_a_session_lives_until_it_is_let_go():
    provider = HandProvider("first")
    async with House(provider) as house:
        opened = await house.opener.open("first", SETUP)
        await asyncio.sleep(0)
        assert house.opened == [("first", provider.session)]
        assert (opened.provider, opened.session, provider.closed) == ("first", provider.session, 0)
        opened.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert provider.closed == 1


async def test_the_end_of_the_call_closes_all_its_sessions():
    provider = HandProvider("first")
    async with House(provider) as house:
        await house.opener.open("first", SETUP)
        await house.opener.open("first", SETUP)
    assert provider.closed == 2


async def test_each_provider_gets_the_agents_voice_for_it():
    first, second = HandProvider("first"), HandProvider("second")
    async with House(first, second) as house:
        await house.opener.open("first", SETUP)
        await house.opener.open("second", SETUP)

    assert [each.setups[0].voice for each in (first, second)] == [None, "Kore"]


async def test_a_caller_who_gives_up_leaves_nothing_and_counts_against_nobody():
    provider = HandProvider("first")
    provider.ready.clear()
    async with House(provider, failures=1) as house:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await house.opener.open("first", SETUP)
        await asyncio.sleep(0)
        assert provider.closed == 1
        assert house.state("first") is BreakerState.CLOSED


@pytest.mark.parametrize(
    "error", [ProviderUnavailable("down", code="503"), ProviderRejected("no", code="401")]
)
async def test_failures_open_the_breaker_and_the_next_call_begins_with_the_next_provider(error):
    first, second = HandProvider("first", error=error), HandProvider("second")
    async with House(first, second) as house:
        failures = []
        for _ in range(2):
            opened = await house.opener.first_of(house.opener.order(house.opener.names), SETUP, failures)
            assert opened.provider == "second"
        assert failures == [f"first: {error}"] * 2
        assert house.state("first") is BreakerState.OPEN
        assert house.opener.order(house.opener.names) == ["second"]


async def test_sessions_that_are_lost_count_as_well():
    async with House(HandProvider("first")) as house:
        house.opener.lost("first", "1011")
        house.opener.lost("first", "1011")
        assert house.state("first") is BreakerState.OPEN
        await house.opener.open("first", SETUP)
        assert house.state("first") is BreakerState.CLOSED


async def test_a_provider_that_cannot_even_close_its_session_ends_no_call():
    class Stubborn(HandProvider):
        @asynccontextmanager
        async def connect(self, setup):
            async with super().connect(setup) as session:
                yield session
            raise ProviderUnavailable("the close was not answered", code="timeout")

    async with House(Stubborn("first")) as house:
        opened = await house.opener.open("first", SETUP)
        opened.close()
        await asyncio.sleep(0)
