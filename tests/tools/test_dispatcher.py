import asyncio
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.doubles import (
    ECHO,
    NOTHING,
    SALES,
    SECRET,
    breaks,
    called,
    closed,
    ends,
    make_desk,
    make_tool,
    reasons,
    saying,
    statuses,
    transfers,
)
from tools import (
    CallInvocationContext,
    ToolCall,
    ToolDefinitionError,
    ToolRefused,
    ToolStatus,
)
from tools.dispatcher import MAX_CALLS

STRING = {"type": "string"}


@pytest.mark.requirement("P-2")
async def test_three_tools_of_300_ms_are_done_in_less_than_500_ms():
    async def slow(context, arguments):
        await asyncio.sleep(0.3)
        return {"text": context.tool_call_id}

    desk = make_desk(*(make_tool(name, slow) for name in "abc"))

    begun = time.perf_counter()
    batch = await desk.dispatcher.run([called(name) for name in "abc"])

    assert time.perf_counter() - begun < 0.5
    assert [result.data for result in batch.results] == [{"text": f"id-{name}"} for name in "abc"]


@pytest.mark.requirement("P-2")
async def test_every_tool_of_a_response_runs_while_the_others_wait_for_it():
    barrier = asyncio.Barrier(3)

    async def meet(context, arguments):
        await barrier.wait()
        return {"text": "met"}

    desk = make_desk(make_tool("a", meet), make_tool("b", meet))

    batch = await desk.dispatcher.run([called("a"), called("b"), called("a", call_id="again")])

    assert statuses(batch) == [ToolStatus.OK] * 3


@pytest.mark.requirement("P-3")
async def test_the_conversation_gets_one_result_for_each_call_in_call_order():
    """As a session does it: append all results, matched by id, before the model is asked again."""
    first_may_end = asyncio.Event()

    async def first(context, arguments):
        await first_may_end.wait()
        return {"text": "first"}

    async def last(context, arguments):
        first_may_end.set()
        return {"text": "last"}

    desk = make_desk(make_tool("first", first), make_tool("breaks", breaks), make_tool("last", last))
    calls = [called("first"), called("breaks"), called("unknown"), called("last")]

    batch = await desk.dispatcher.run(calls)

    conversation = [(result.call_id, json.loads(result.to_json())) for result in batch.results]
    assert [call_id for call_id, _ in conversation] == [call.call_id for call in calls]
    assert [body["tool"] for _, body in conversation] == ["first", "breaks", "unknown", "last"]
    assert [body["status"] for _, body in conversation] == ["ok", "failed", "denied", "ok"]
    assert [body["data"] for _, body in conversation] == [{"text": "first"}, {}, {}, {"text": "last"}]


@pytest.mark.report("BR-125")
async def test_every_call_is_answered_exactly_once_whatever_becomes_of_it():
    async def hangs(context, arguments):
        await asyncio.Event().wait()

    desk = make_desk(
        make_tool("lookup_caller", saying("x")),
        make_tool("query_knowledge", saying("x"), takes=closed(query=STRING)),
        make_tool("breaks", breaks),
        make_tool("hangs", hangs, timeout_ms=10),
        make_tool("denied", saying("x")),
    )
    desk.policy.denied["denied"] = ("key", "tool_not_allowed_in_state")
    calls = [
        ToolCall("f1", "lookup_caller", ""),
        ToolCall("f2", "does_not_exist", "{}"),
        ToolCall("f3", "query_knowledge", '{"query": 1}'),
        ToolCall("f4", "breaks", "{}"),
        ToolCall("f5", "hangs", "{}"),
        ToolCall("f6", "denied", "{}"),
        ToolCall("f7", "query_knowledge", '{"query"'),
    ]

    batch = await desk.dispatcher.run(calls)

    assert [(result.call_id, result.tool) for result in batch.results] == [
        (call.call_id, call.name) for call in calls
    ]
    assert reasons(batch) == [
        "", "unknown_tool", "invalid_arguments", "tool_failed", "tool_timeout", "tool_not_allowed_in_state",
        "invalid_arguments",
    ]  # fmt: skip


async def test_a_response_without_calls_is_an_empty_batch():
    batch = await make_desk().dispatcher.run([])

    assert (batch.results, batch.terminal) == ((), None)


async def test_more_calls_than_a_response_may_have_are_answered_and_not_run():
    ran = []

    async def count(context, arguments):
        ran.append(context.tool_call_id)
        return {"text": ""}

    desk = make_desk(make_tool("count", count))

    batch = await desk.dispatcher.run([called("count", call_id=str(n)) for n in range(MAX_CALLS + 2)])

    assert len(ran) == MAX_CALLS
    assert statuses(batch)[MAX_CALLS:] == [ToolStatus.LIMIT_REACHED] * 2


@pytest.mark.requirement("V-9")
@pytest.mark.report("BR-122")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"destination": "sales",', "not JSON"),
        ('{"destination": 12025550123}', "destination: must be of type string"),
        ('{"destination": "sales", "extra": {"a": 1}}', "unknown property: extra"),
        ("{}", "missing: destination"),
        ("[]", "must be a JSON object"),
        ('{"destination": null}', "must be of type string"),
    ],
    ids=["cut", "wrong type", "extra", "missing", "array", "null"],
)
async def test_arguments_that_do_not_fit_never_reach_the_handler(arguments, problem):
    ran = []

    async def handler(context, arguments):
        ran.append(arguments)
        return {"text": ""}

    desk = make_desk(make_tool("t", handler, takes=closed(destination=STRING)))

    [result] = (await desk.dispatcher.run([called("t", arguments)])).results

    assert ran == []
    assert result.status is ToolStatus.INVALID_ARGUMENTS
    assert problem in " ".join(result.data["problems"])


@pytest.mark.requirement("V-9")
@pytest.mark.parametrize(
    "output",
    [
        {"text": SECRET, "more": 1},
        {"text": 1, "x": SECRET},
        {},
        None,
        SECRET,
        [SECRET],
        {"text": float("nan")},
        {"text": "\ud800"},
        {"text": object()},
    ],
    ids=["extra", "wrong type", "missing", "none", "text", "list", "nan", "surrogate", "object"],
)
async def test_output_that_does_not_fit_is_a_structured_failure_and_is_not_sent(output):
    async def handler(context, arguments):
        return output

    desk = make_desk(make_tool("t", handler))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert result.status is ToolStatus.INVALID_OUTPUT
    assert result.data == {}
    assert SECRET not in result.to_json()
    assert [failed.reason_code for failed in desk.failures] == ["invalid_output"]


@pytest.mark.requirement("V-9")
async def test_arguments_and_output_that_fit_pass_unchanged():
    async def handler(context, arguments):
        return {"text": arguments["text"] + "!"}

    desk = make_desk(make_tool("t", handler, takes=ECHO))

    [result] = (await desk.dispatcher.run([called("t", '{"text": "Сәлем"}')])).results

    assert (result.status, result.data) == (ToolStatus.OK, {"text": "Сәлем!"})


async def test_output_that_fits_is_detached_from_what_the_handler_keeps():
    kept = {"text": "before"}

    async def handler(context, arguments):
        return kept

    desk = make_desk(make_tool("t", handler))
    [result] = (await desk.dispatcher.run([called("t")])).results
    kept["text"] = "after"

    assert result.data == {"text": "before"}


async def test_a_guarding_enumeration_refuses_with_its_own_reason():
    takes = closed(phone_number={"type": "string", "enum": [SALES]})
    tool = make_tool("t", ends, takes=takes, enum_reasons={"phone_number": "phone_number_not_configured"})
    desk = make_desk(tool)

    batch = await desk.dispatcher.run(
        [
            called("t", '{"phone_number": "+979000000001"}', "1"),
            called("t", '{"phone_number": 12125551234}', "2"),
            called("t", "{}", "3"),
        ]
    )

    assert reasons(batch) == ["phone_number_not_configured"] * 2 + ["invalid_arguments"]
    assert statuses(batch) == [ToolStatus.DENIED] * 2 + [ToolStatus.INVALID_ARGUMENTS]


async def test_a_tool_that_the_policy_denies_does_not_run():
    desk = make_desk(make_tool("t", breaks))
    desk.policy.denied["t"] = ("say_why", "tool_not_allowed_in_state")

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert (result.status, result.message_key) == (ToolStatus.DENIED, "say_why")
    assert result.reason_code == "tool_not_allowed_in_state"
    assert desk.failures == []


async def test_a_policy_that_breaks_fails_its_tool_and_no_other():
    desk = make_desk(make_tool("t", saying("x")), make_tool("works", saying("x")))
    asked = desk.policy.denial

    def denial(tool):
        if tool == "t":
            raise LookupError(SECRET)
        return asked(tool)

    desk.policy.denial = denial

    batch = await desk.dispatcher.run([called("t"), called("works")])

    assert reasons(batch) == ["internal_error", ""]
    assert SECRET not in batch.results[0].to_json()
    assert [type(failed.error) for failed in desk.failures] == [LookupError]


async def test_a_refusal_of_the_handler_is_the_result_and_no_failure():
    runs = []

    async def refuse(context, arguments):
        runs.append(1)
        raise ToolRefused(ToolStatus.NO_ANSWER, "no_relevant_kb_result", data={"searched": 3})

    desk = make_desk(make_tool("t", refuse, attempts=3))

    [result] = (await desk.dispatcher.run([called("t")])).results

    assert (result.status, result.reason_code) == (ToolStatus.NO_ANSWER, "no_relevant_kb_result")
    assert result.data == {"searched": 3}
    assert (len(runs), desk.failures) == (1, [])


async def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ToolDefinitionError, match="same name"):
        make_desk(make_tool("t", breaks), make_tool("t", breaks))


@pytest.mark.requirement("V-11")
async def test_two_concurrent_calls_never_see_each_other_s_state():
    meet = asyncio.Barrier(2)
    seen = {}

    async def look(context, arguments):
        await meet.wait()
        seen[context.call_id] = context.consumer_state
        return {"text": ""}

    tool = make_tool("t", look)
    states = {"call-1": {"name": "Ann"}, "call-2": {"name": "Ann"}}
    desks = [make_desk(tool, call=CallInvocationContext(call, state)) for call, state in states.items()]

    async with asyncio.TaskGroup() as group:
        for desk in desks:
            group.create_task(desk.dispatcher.run([called("t")]))

    assert seen["call-1"] is states["call-1"]
    assert seen["call-2"] is states["call-2"]


async def test_the_audit_has_metadata_and_no_values_unless_they_were_declared():
    async def slow(context, arguments):
        desk.clock.now += 0.25
        return {"text": SECRET}

    takes = closed(query=STRING, token=STRING)
    desk = make_desk(
        make_tool("plain", slow, takes=takes),
        make_tool("declared", slow, takes=takes, evidence=("arguments.query",)),
    )
    arguments = json.dumps({"query": "prices", "token": SECRET})

    await desk.dispatcher.run([called("plain", arguments)])
    await desk.dispatcher.run([called("declared", arguments)])

    plain, declared = desk.audit.records
    assert (plain.call_id, plain.tool_call_id, plain.tool) == ("call-1", "id-plain", "plain")
    assert (plain.version, plain.status, plain.attempts) == ("1", ToolStatus.OK, 1)
    assert plain.duration_ms == 250
    assert plain.evidence == {}
    assert declared.evidence == {"arguments.query": "prices"}
    assert SECRET not in repr(desk.audit.records)


async def test_refused_calls_are_audited_with_their_reason():
    desk = make_desk(make_tool("end", ends))

    await desk.dispatcher.run([called("nothing"), called("end"), called("end", call_id="again")])

    assert {(one.tool_call_id, one.reason_code) for one in desk.audit.records} == {
        ("id-nothing", "unknown_tool"),
        ("id-end", ""),
        ("again", "terminal_action_pending"),
    }


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["says", "breaks", "ends", "transfers", "refuses", "unknown"]),
                st.integers(0, 9),
                st.sampled_from(["{}", "", "[]", '{"x": 1}', "{"]),
            ),
            max_size=6,
        ),
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_history_answers_every_call_once_and_ends_the_call_at_most_once(history):
    async def refuses(context, arguments):
        raise ToolRefused(ToolStatus.STUBBED, "stubbed")

    async def play():
        desk = make_desk(
            make_tool("says", saying("x"), takes=NOTHING),
            make_tool("breaks", breaks),
            make_tool("ends", ends),
            make_tool("transfers", transfers, failure_keeps_call=True),
            make_tool("refuses", refuses),
        )
        answers = {}
        terminals = []
        for response in history:
            calls = [ToolCall(str(number), name, text) for name, number, text in response]
            batch = await desk.dispatcher.run(calls)
            assert [result.call_id for result in batch.results] == list(
                dict.fromkeys(one.call_id for one in calls)
            )
            for result in batch.results:
                assert answers.setdefault(result.call_id, result) == result
            terminals += [batch.terminal] if batch.terminal else []
        assert len(terminals) <= 1
        assert len(desk.audit.records) == len(answers)

    asyncio.run(play())
