"""The end of a session: told once when it is the other side's, silent when it is ours."""

from __future__ import annotations

import asyncio
import gc
import os
import time

import pytest

from providers.errors import ProviderRejected, SessionLost
from providers.types import AudioDelta, SessionEnding
from tests.providers.contract.call import GREETING, TALK, settled, setup
from tests.providers.contract.far import KEY, Trouble
from tests.providers.contract.needs import needs
from tools.types import CallUpdate, ToolResult, ToolStatus


async def say_everything(session) -> None:
    await session.send_audio(bytes(160))
    await session.send_text("Are you there?")
    await session.send_tool_result(ToolResult("call_1", "lookup_caller", ToolStatus.OK))
    await session.respond(instructions="Speak.")
    await session.interrupt(item_id="item_1", heard_ms=100)


@needs(Trouble.CLOSED)
async def test_a_session_that_the_other_side_closes_is_lost(dial) -> None:
    async with dial(TALK, Trouble.CLOSED) as call:
        await call.hear_the_end()
        [loss] = call.losses
        assert loss.code == "1011"
        assert str(loss)
        assert KEY not in str(loss)


@needs(Trouble.CUT)
async def test_a_session_whose_connection_breaks_is_lost(dial) -> None:
    async with dial(TALK, Trouble.CUT) as call:
        await call.hear_the_end()
        assert len(call.losses) == 1
        assert call.losses[0].code


@needs(Trouble.CUT)
async def test_what_came_before_a_loss_is_heard_before_it(dial) -> None:
    async with dial(TALK, Trouble.CUT) as call:
        await call.session.respond()
        await call.hear_the_end()
        assert len(call.losses) == 1
        assert call.of(AudioDelta)


@needs(Trouble.CUT)
async def test_what_is_said_to_a_lost_session_is_lost_in_silence(dial) -> None:
    async with dial(TALK, Trouble.CUT) as call:
        await call.hear_the_end()
        for _ in range(3):
            await say_everything(call.session)
        assert len(call.losses) == 1


@needs(Trouble.CUT)
async def test_a_lost_session_takes_no_update(dial) -> None:
    async with dial(TALK, Trouble.CUT) as call:
        await call.hear_the_end()
        with pytest.raises(ProviderRejected):
            await call.session.update(CallUpdate(1, prompt="Other."))


async def test_leaving_ends_the_iteration_without_an_error(dial) -> None:
    async with dial.far() as far:
        async with asyncio.TaskGroup() as group:
            async with far.provider.connect(setup()) as session:
                taking = group.create_task(_take(session))
                await session.respond()
            assert isinstance(await taking, list)


async def _take(session) -> list:
    return [event async for event in session]


async def test_what_is_said_after_leaving_is_lost_in_silence(dial) -> None:
    async with dial.far() as far:
        async with far.provider.connect(setup()) as session:
            pass
        await say_everything(session)
        assert [event async for event in session] == []


async def test_leaving_closes_the_connection(dial) -> None:
    async with dial.far() as far:
        async with far.provider.connect(setup()):
            assert far.connections() == 1
        await settled(lambda: far.connections() == 0)


async def test_leaving_in_the_middle_of_speech_closes_the_connection(dial) -> None:
    async with dial.far() as far:
        async with dial.on(far) as call:
            await call.session.respond()
            await call.hear(AudioDelta)
        await settled(lambda: far.connections() == 0)


async def test_what_the_call_raises_leaves_as_it_is(dial) -> None:
    async with dial.far() as far:
        with pytest.raises(LookupError, match="of the call"):
            async with far.provider.connect(setup()):
                raise LookupError("of the call")
        await settled(lambda: far.connections() == 0)


async def test_many_sessions_leave_no_task_and_no_socket(dial) -> None:
    async with dial.far() as far:
        async with dial.on(far):
            pass
        await settled(lambda: far.connections() == 0)
        gc.collect()
        tasks, files = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            async with dial.on(far) as call:
                await call.session.respond()
                await call.hear(AudioDelta)
        await settled(lambda: len(asyncio.all_tasks()) <= tasks)
        gc.collect()
        await settled(lambda: len(os.listdir("/proc/self/fd")) <= files)


@needs(Trouble.CUT)
async def test_a_loss_leaves_no_task_and_no_socket(dial) -> None:
    async with dial.far(TALK, Trouble.CUT) as far:
        gc.collect()
        tasks = len(asyncio.all_tasks())
        for _ in range(3):
            async with dial.on(far) as call:
                await call.hear_the_end()
        await settled(lambda: len(asyncio.all_tasks()) <= tasks)
        assert far.connections() == 0


@needs(Trouble.CLOSED)
async def test_after_a_loss_a_new_session_can_be_had(dial) -> None:
    async with dial.far(TALK, Trouble.CLOSED) as far:
        async with dial.on(far) as call:
            await call.hear_the_end()
        far.recover()
        async with dial.on(far) as call:
            await call.session.respond()
            await call.hear_speech(GREETING)


@needs(Trouble.EXPIRES)
async def test_the_end_of_a_session_is_announced_in_time(dial) -> None:
    async with dial(TALK, Trouble.EXPIRES) as call:
        await call.hear(SessionEnding)
        [ending] = call.of(SessionEnding)
        assert 10 < ending.after <= 300
        await call.session.respond()
        await call.hear_speech(GREETING)


@needs(Trouble.CUT)
async def test_a_loss_is_learned_of_by_who_listens_late(dial) -> None:
    async with dial(TALK, Trouble.CUT, listen=False) as call:
        await asyncio.to_thread(time.sleep, 0.3)
        async with asyncio.timeout(10):
            with pytest.raises(SessionLost):
                await _take(call.session)
