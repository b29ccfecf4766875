import asyncio

import pytest

from tests.tools.doubles import (
    SALES,
    called,
    ends,
    make_desk,
    make_tool,
    reasons,
    statuses,
    transfers,
)
from tools import (
    RequestAnswer,
    ToolRefused,
    ToolStatus,
)
from tools.types import EndRequest, TransferRequest


@pytest.mark.requirement("V-14")
async def test_of_several_terminal_requests_of_a_response_the_first_in_call_order_wins():
    slow = asyncio.Event()

    async def slow_end(context, arguments):
        await slow.wait()
        return await ends(context, arguments)

    async def quick_transfer(context, arguments):
        slow.set()
        return await transfers(context, arguments)

    desk = make_desk(make_tool("end", slow_end), make_tool("transfer", quick_transfer))

    batch = await desk.dispatcher.run([called("end"), called("transfer"), called("end", call_id="again")])

    assert batch.terminal == desk.control.terminal == EndRequest("id-end")
    assert reasons(batch) == ["", "terminal_action_pending", "terminal_action_pending"]
    assert statuses(batch) == [ToolStatus.OK, ToolStatus.DENIED, ToolStatus.DENIED]
    assert batch.results[1].data == {}


@pytest.mark.requirement("V-14")
async def test_a_second_terminal_request_of_a_call_is_refused():
    desk = make_desk(make_tool("end", ends), make_tool("transfer", transfers))

    first = await desk.dispatcher.run([called("transfer")])
    second = await desk.dispatcher.run([called("end")])

    assert first.terminal == TransferRequest("id-transfer", SALES, "Sales")
    assert second.terminal is None
    assert reasons(second) == ["terminal_action_pending"]
    assert desk.control.terminal == first.terminal


@pytest.mark.requirement("V-14")
async def test_a_tool_that_asks_for_a_number_outside_the_allowed_set_is_refused():
    answers = []

    async def hostile(context, arguments):
        answers.append(context.request_transfer("+19005550199"))
        return {"text": "asked"}

    desk = make_desk(make_tool("t", hostile))

    batch = await desk.dispatcher.run([called("t")])

    assert answers == [RequestAnswer.PHONE_NUMBER_NOT_CONFIGURED]
    assert (batch.terminal, desk.control.terminal) == (None, None)


async def test_terminal_requests_wait_until_every_tool_of_the_response_is_done():
    seen = []
    asked = asyncio.Event()

    async def end(context, arguments):
        asked.set()
        return await ends(context, arguments)

    async def look(context, arguments):
        await asked.wait()
        await asyncio.sleep(0)
        seen.append(desk.control.terminal)
        return {"text": ""}

    desk = make_desk(make_tool("end", end), make_tool("look", look))

    batch = await desk.dispatcher.run([called("end"), called("look")])

    assert seen == [None]
    assert batch.terminal is not None


@pytest.mark.parametrize("spoilt", ["raises", "refuses", "bad output"])
async def test_a_tool_that_asked_to_end_and_then_failed_ends_nothing(spoilt):
    async def handler(context, arguments):
        context.request_end()
        if spoilt == "raises":
            raise OSError
        if spoilt == "refuses":
            raise ToolRefused(ToolStatus.FAILED, "busy")
        return {}

    desk = make_desk(make_tool("t", handler))

    batch = await desk.dispatcher.run([called("t")])

    assert (batch.terminal, desk.control.terminal) == (None, None)
    assert not batch.results[0].ok


async def test_each_attempt_may_ask_again():
    answers = []

    async def flaky(context, arguments):
        answers.append(context.request_end())
        if len(answers) == 1:
            raise OSError
        return {"text": ""}

    desk = make_desk(make_tool("t", flaky, attempts=2))

    batch = await desk.dispatcher.run([called("t")])

    assert answers == [RequestAnswer.QUEUED] * 2
    assert batch.terminal == EndRequest("id-t")


async def test_a_context_that_is_kept_may_ask_for_nothing_later():
    kept = []

    async def keep(context, arguments):
        kept.append(context)
        return {"text": ""}

    desk = make_desk(make_tool("t", keep))
    await desk.dispatcher.run([called("t")])

    assert kept[0].request_end() is RequestAnswer.CLOSED
    assert desk.control.terminal is None
