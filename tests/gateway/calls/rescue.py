"""A bridged call with two providers, whose sessions a test can lose."""

import asyncio

from gateway.calls import events as ev
from tests.gateway.calls.doubles import HandProvider
from tests.gateway.calls.scene import Scene


class Rescue(Scene):
    """A call with the provider ``hand`` and another one, both of which open sessions."""

    def __init__(self, **settings):
        self.hand, self.other = HandProvider("hand"), HandProvider("other")
        arguments = {"recovery": {"max_swaps": 3}, "greeting": None, **settings}
        super().__init__(providers=(self.hand, self.other), **arguments)

    async def until(self, holds):
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.001)
        await self.settle()

    @property
    def steps(self):
        return [(each.step, each.reason) for each in self.watcher.of(ev.RecoveryStepTaken)]

    async def swapped(self, times=1):
        await self.until(lambda: [step for step, _ in self.steps].count("swapped") == times)

    async def silence(self, seconds):
        """Let time pass in which nothing comes."""
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            await asyncio.sleep(0.002)
        await self.settle()
