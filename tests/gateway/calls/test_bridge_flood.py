"""A model that sends without measure: the log stays readable, and other calls have their turn."""

import asyncio

import structlog

from gateway.calls.bridge import EVENTS_IN_A_ROW, MAX_WARNINGS
from providers.types import ProviderWarning
from tests.gateway.calls.scene import Scene


class Flood:
    """Events that are all there already: reading them never waits."""

    def __init__(self, count):
        self.left = count

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.left == 0:
            await asyncio.Event().wait()
        self.left -= 1
        return ProviderWarning("invalid_event", "a frame is not JSON")


async def test_only_so_many_warnings_of_a_call_are_logged_and_the_last_one_says_so():
    with structlog.testing.capture_logs() as logs:
        async with Scene(greeting=None) as scene:
            for _ in range(MAX_WARNINGS + 50):
                await scene.says(ProviderWarning("invalid_event", "a frame is not JSON"))
    last = [each["last"] for each in logs if each["event"] == "provider.warning"]
    assert last == [*[False] * (MAX_WARNINGS - 1), True]


async def test_events_that_are_all_there_at_once_leave_room_for_other_calls():
    async with Scene(greeting=None) as scene:
        flood = Flood(EVENTS_IN_A_ROW * 100)
        scene.bridge._follow(flood)
        turns = 0
        while flood.left:
            before = flood.left
            await asyncio.sleep(0)
            turns += 1
            assert before - flood.left <= EVENTS_IN_A_ROW
        assert turns >= 100
