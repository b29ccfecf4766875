import asyncio

import pytest

from tests.tools.doubles import (
    ECHO,
    SECRET,
    breaks,
    called,
    make_desk,
    make_tool,
    reasons,
    saying,
    statuses,
)
from tools import (
    ToolEffect,
    ToolStatus,
)


async def test_a_tool_that_raises_is_failed_and_reported_once_and_the_others_go_on():
    desk = make_desk(make_tool("breaks", breaks, attempts=2), make_tool("works", saying("x")))

    batch = await desk.dispatcher.run([called("breaks"), called("works")])

    assert statuses(batch) == [ToolStatus.FAILED, ToolStatus.OK]
    assert SECRET not in batch.results[0].to_json()
    [failed] = desk.failures
    assert (failed.tool, failed.tool_call_id, failed.attempts) == ("breaks", "id-breaks", 2)
    assert str(failed.error) == SECRET


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), TimeoutError(), ExceptionGroup("g", [OSError()])]
)
async def test_whatever_a_handler_raises_is_its_own_failure(error):
    async def handler(context, arguments):
        raise error

    desk = make_desk(make_tool("t", handler), make_tool("works", saying("x")))

    batch = await desk.dispatcher.run([called("t"), called("works")])

    assert statuses(batch) == [ToolStatus.FAILED, ToolStatus.OK]
    assert reasons(batch)[0] == "tool_failed"


@pytest.mark.requirement("V-15")
async def test_a_read_only_tool_that_fails_once_is_run_again():
    runs = []

    async def flaky(context, arguments):
        runs.append(context.tool_call_id)
        if len(runs) == 1:
            raise OSError
        return {"text": "second"}

    desk = make_desk(make_tool("t", flaky, attempts=2))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert (result.status, len(runs)) == (ToolStatus.OK, 2)
    assert (desk.audit.records[0].attempts, desk.failures) == (2, [])


@pytest.mark.requirement("V-15")
async def test_a_read_only_tool_is_run_up_to_its_bound():
    runs = []

    async def broken(context, arguments):
        runs.append(1)
        raise OSError

    desk = make_desk(make_tool("t", broken, attempts=3))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert (result.status, len(runs)) == (ToolStatus.FAILED, 3)


@pytest.mark.requirement("V-16")
async def test_an_idempotent_tool_is_run_again_with_the_same_key_and_the_same_arguments():
    seen = []

    async def flaky(context, arguments):
        seen.append((context.tool_call_id, dict(arguments)))
        arguments.clear()
        if len(seen) == 1:
            raise OSError
        return {"text": ""}

    desk = make_desk(make_tool("t", flaky, takes=ECHO, effect=ToolEffect.IDEMPOTENT, attempts=2))

    await desk.dispatcher.run([called("t", '{"text": "x"}')])

    assert seen == [("id-t", {"text": "x"})] * 2


@pytest.mark.requirement("V-17")
async def test_a_non_idempotent_tool_that_times_out_ran_once_and_its_completion_is_unknown():
    runs = []

    async def hangs(context, arguments):
        runs.append(1)
        await asyncio.Event().wait()

    desk = make_desk(make_tool("t", hangs, effect=ToolEffect.NON_IDEMPOTENT, timeout_ms=10))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert len(runs) == 1
    assert result.status is ToolStatus.COMPLETION_UNKNOWN
    assert result.reason_code == "completion_unknown"


async def test_an_idempotent_tool_that_never_answers_leaves_its_completion_unknown():
    async def hangs(context, arguments):
        await asyncio.Event().wait()

    desk = make_desk(make_tool("t", hangs, effect=ToolEffect.IDEMPOTENT, attempts=2, timeout_ms=10))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert result.status is ToolStatus.COMPLETION_UNKNOWN
    assert desk.audit.records[0].attempts == 2


@pytest.mark.parametrize("answer", [{"text": "late"}, RuntimeError("turned")], ids=["value", "error"])
async def test_a_handler_that_swallows_its_time_limit_has_timed_out_all_the_same(answer):
    async def stubborn(context, arguments):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(answer, Exception):
                raise answer from None
        return answer

    desk = make_desk(make_tool("t", stubborn, timeout_ms=10))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert (result.status, result.reason_code) == (ToolStatus.FAILED, "tool_timeout")
