import asyncio

import pytest

from tests.tools.doubles import (
    FakeLedger,
    breaks,
    called,
    ends,
    make_desk,
    make_tool,
    saying,
)
from tools import (
    CallInvocationContext,
    ToolEffect,
    ToolStatus,
)
from tools.types import EndRequest

WRITES = [ToolEffect.IDEMPOTENT, ToolEffect.NON_IDEMPOTENT]


@pytest.mark.requirement("V-17")
@pytest.mark.report("BR-129")
async def test_a_call_that_is_delivered_again_is_not_run_again():
    runs = []

    async def write(context, arguments):
        runs.append(1)
        return {"text": str(len(runs))}

    desk = make_desk(make_tool("t", write, effect=ToolEffect.NON_IDEMPOTENT))

    once = await desk.dispatcher.run([called("t")])
    again = await desk.dispatcher.run([called("t")])
    twice = await desk.dispatcher.run([called("t"), called("t")])

    assert len(runs) == 1
    assert once.results == again.results == twice.results
    assert len(desk.audit.records) == 1


async def test_a_call_that_is_delivered_twice_in_one_response_runs_once():
    runs = []

    async def write(context, arguments):
        runs.append(1)
        return {"text": ""}

    desk = make_desk(make_tool("t", write))

    batch = await desk.dispatcher.run([called("t"), called("t")])

    assert (len(runs), len(batch.results)) == (1, 1)


async def test_a_call_that_is_delivered_while_it_runs_gets_the_answer_of_the_first():
    started, may_end = asyncio.Event(), asyncio.Event()
    runs = []

    async def write(context, arguments):
        runs.append(1)
        started.set()
        await may_end.wait()
        return {"text": "once"}

    desk = make_desk(make_tool("t", write, effect=ToolEffect.NON_IDEMPOTENT))

    async with asyncio.TaskGroup() as group:
        first = group.create_task(desk.dispatcher.run([called("t")]))
        await started.wait()
        second = group.create_task(desk.dispatcher.run([called("t")]))
        await asyncio.sleep(0)
        may_end.set()

    assert len(runs) == 1
    assert first.result().results == second.result().results


async def test_an_answer_from_the_ledger_asks_for_nothing_again():
    desk = make_desk(make_tool("t", ends))

    first = await desk.dispatcher.run([called("t")])
    desk.control.terminal = None
    again = await desk.dispatcher.run([called("t")])

    assert first.terminal == EndRequest("id-t")
    assert again.terminal is None
    assert desk.control.terminal is None


async def test_the_ledger_of_a_process_keeps_calls_apart():
    ledger = FakeLedger()
    one = make_desk(make_tool("t", saying("one")), ledger=ledger)
    two = make_desk(make_tool("t", saying("two")), ledger=ledger, call=CallInvocationContext("call-2"))

    await one.dispatcher.run([called("t")])
    [result] = (await two.dispatcher.run([called("t")])).results

    assert result.data == {"text": "two"}


@pytest.mark.parametrize("effect", WRITES)
async def test_without_a_ledger_nothing_is_written(effect):
    desk = make_desk(make_tool("t", breaks, effect=effect), ledger=FakeLedger(broken=True))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert (result.status, result.reason_code) == (ToolStatus.FAILED, "ledger_unavailable")
    assert [failed.reason_code for failed in desk.failures] == ["ledger_unavailable"]


async def test_without_a_ledger_reading_goes_on_and_the_fault_is_reported():
    desk = make_desk(make_tool("t", saying("x")), ledger=FakeLedger(broken=True))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert result.status is ToolStatus.OK
    assert [failed.reason_code for failed in desk.failures] == ["ledger_unavailable"]


async def test_cancelling_a_batch_leaves_nothing_running_and_everything_audited():
    running, cancelled = [], []
    both = asyncio.Barrier(3)

    async def hangs(context, arguments):
        running.append(context.tool_call_id)
        await both.wait()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(context.tool_call_id)
            raise

    desk = make_desk(
        make_tool("reads", hangs),
        make_tool("writes", hangs, effect=ToolEffect.NON_IDEMPOTENT),
        make_tool("done", saying("x")),
        make_tool("ends", ends),
    )
    before = asyncio.all_tasks()
    calls = [called(name) for name in ("reads", "writes", "done", "ends")]

    async with asyncio.TaskGroup() as group:
        batch = group.create_task(desk.dispatcher.run(calls))
        await both.wait()
        batch.cancel()

    assert batch.cancelled()
    assert sorted(cancelled) == sorted(running) == ["id-reads", "id-writes"]
    assert asyncio.all_tasks() == before
    audited = {record.tool: record.status for record in desk.audit.records}
    assert audited == {
        "reads": ToolStatus.FAILED,
        "writes": ToolStatus.COMPLETION_UNKNOWN,
        "done": ToolStatus.OK,
        "ends": ToolStatus.FAILED,
    }
    assert desk.control.terminal is None
    again = await desk.dispatcher.run([called("writes")])
    assert again.results[0].status is ToolStatus.COMPLETION_UNKNOWN


async def test_a_call_that_waits_for_a_cancelled_batch_is_answered():
    started = asyncio.Event()

    async def hangs(context, arguments):
        started.set()
        await asyncio.Event().wait()

    desk = make_desk(make_tool("t", hangs, effect=ToolEffect.NON_IDEMPOTENT))

    async with asyncio.TaskGroup() as group:
        first = group.create_task(desk.dispatcher.run([called("t")]))
        await started.wait()
        second = group.create_task(desk.dispatcher.run([called("t")]))
        await asyncio.sleep(0)
        first.cancel()

    assert first.cancelled()
    assert second.result().results[0].status is ToolStatus.COMPLETION_UNKNOWN
