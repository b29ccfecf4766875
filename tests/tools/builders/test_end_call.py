import inspect

import pytest

from tests.tools.doubles import FakeSources, called, make_desk
from tools import (
    AgentToolConfig,
    CallInvocationContext,
    ToolBuilders,
    ToolContext,
    ToolRefused,
    ToolStatus,
    build_end_call_tool_definition,
)
from tools.types import EndRequest

SECTION = """### Ending the Call
- Say goodbye and IMMEDIATELY call `end_call`.
- Do NOT wait for the caller to respond after your farewell.
- Do NOT announce that you are ending the call."""


@pytest.mark.requirement("L-7")
def test_the_description_is_the_requirement_s():
    assert build_end_call_tool_definition().definition.description == "Ends the current phone call."


@pytest.mark.requirement("L-8")
def test_there_are_no_parameters_and_the_schema_is_closed():
    assert build_end_call_tool_definition().definition.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


@pytest.mark.requirement("L-9")
def test_the_section_is_the_requirement_s_four_lines():
    assert build_end_call_tool_definition().section == SECTION
    assert SECTION.count("\n") == 3


@pytest.mark.requirement("L-6")
@pytest.mark.parametrize(
    "tools",
    [
        {},
        {"end_call": {"enabled": False}},
        {"end_call": {"enabled": True}},
        {"end_call": {}},
        {"no_such_tool": {"enabled": True, "colour": "red"}},
        {"end_call": {"enabled": False}, "transfer_call": {"enabled": True}},
    ],
    ids=["empty", "switched off", "switched on", "mentioned", "unknown", "off beside another"],
)
async def test_it_is_always_there(tools):
    config = AgentToolConfig.model_validate(tools)
    builders = ToolBuilders(FakeSources())

    definitions, addendum = await builders.collect_agent_tools("a", "o", config)
    prepared = await builders.prepare_call("a", "o", config, CallInvocationContext("call-1"))

    assert [one.name for one in definitions] == ["end_call"]
    assert SECTION in addendum
    assert [tool.name for tool in prepared.tools] == ["end_call"]


@pytest.mark.requirement("L-6")
def test_its_builder_takes_nothing_and_is_not_optional():
    for build in (build_end_call_tool_definition, ToolBuilders(FakeSources()).build_end_call_tool_definition):
        assert not inspect.signature(build).parameters
        assert not inspect.iscoroutinefunction(build)
        assert build() is not None


@pytest.mark.requirement("D-4")
@pytest.mark.parametrize("arguments", ["", "{}", "null"])
async def test_calling_it_asks_for_the_end_and_answers_at_once(arguments):
    prepared = await ToolBuilders(FakeSources()).prepare_call(
        "a", "o", AgentToolConfig(), CallInvocationContext("call-1")
    )
    desk = make_desk(*prepared.tools)

    batch = await desk.dispatcher.run([called("end_call", arguments)])

    assert batch.terminal == desk.control.terminal == EndRequest("id-end_call")
    [result] = batch.results
    assert (result.status, result.data) == (ToolStatus.OK, {"state": "requested"})


async def test_a_reason_that_the_model_invents_is_refused_and_ends_nothing():
    prepared = await ToolBuilders(FakeSources()).prepare_call(
        "a", "o", AgentToolConfig(), CallInvocationContext("call-1")
    )
    desk = make_desk(*prepared.tools)

    batch = await desk.dispatcher.run([called("end_call", '{"reason": "done"}')])

    assert batch.terminal is None
    assert batch.results[0].status is ToolStatus.INVALID_ARGUMENTS


async def test_an_end_that_cannot_be_asked_for_is_a_refusal():
    prepared = await ToolBuilders(FakeSources()).prepare_call(
        "a", "o", AgentToolConfig(), CallInvocationContext("call-1")
    )

    with pytest.raises(ToolRefused, match="denied: closed"):
        await prepared.tools[0].handler(ToolContext("call-1", "id", None), {})
