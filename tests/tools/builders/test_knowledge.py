import inspect

import pytest

from tests.tools.doubles import FakeKnowledge, FakeSources, called, full_sources, make_desk
from tools import (
    AgentToolConfig,
    AppError,
    CallInvocationContext,
    ToolBuilders,
    ToolStatus,
    build_knowledge_tool_definition,
)
from tools.ports import PortError

ON = AgentToolConfig.model_validate({"query_knowledge": {"enabled": True, "knowledge_bases": ["handbook"]}})


def two_agents():
    return FakeSources(
        links={"reception": ("handbook", "prices"), "clinic": ("doctors",), "night": ()},
        knowledge=FakeKnowledge(
            {
                "handbook": {"Opening hours": "We open at nine.", "Parking": "Park behind the house."},
                "prices": {"Price list 2026": "A visit is 20 euros."},
                "doctors": {"Who works when": "Dr Example works on Monday."},
            }
        ),
    )


async def described(sources, agent="reception"):
    return (await ToolBuilders(sources).build_knowledge_tool_definition(agent)).definition.description


async def asked(query, *, sources=None, agent="reception"):
    sources = sources or two_agents()
    prepared = await ToolBuilders(sources).prepare_call(agent, "acme", ON, CallInvocationContext("call-1"))
    desk = make_desk(*prepared.tools)
    [result] = (await desk.dispatcher.run([called("query_knowledge", query)])).results
    return result, desk


@pytest.mark.requirement("L-15")
@pytest.mark.parametrize("broken", ["sources", "knowledge"])
async def test_the_builder_is_async_takes_the_agent_and_fails_with_an_app_error(broken):
    sources = full_sources()
    sources.broken = broken == "sources"
    sources.knowledge.broken = broken == "knowledge"
    build = ToolBuilders(sources).build_knowledge_tool_definition

    assert inspect.iscoroutinefunction(build)
    assert list(inspect.signature(build).parameters) == ["agent_id"]
    with pytest.raises(AppError, match="knowledge bases of agent reception cannot be read"):
        await build("reception")
    with pytest.raises(AppError):
        await build_knowledge_tool_definition("reception", sources=sources)


@pytest.mark.requirement("L-16")
@pytest.mark.parametrize("agent", ["night", "nobody"])
async def test_without_linked_knowledge_bases_there_is_no_tool(agent):
    builders = ToolBuilders(two_agents())

    assert await builders.build_knowledge_tool_definition(agent) is None
    definitions, addendum = await builders.collect_agent_tools(agent, "acme", ON)
    assert [one.name for one in definitions] == ["end_call"]
    assert "query_knowledge" not in addendum


@pytest.mark.requirement("L-17")
async def test_the_description_lists_the_agent_s_own_bases_with_every_document():
    sources = two_agents()

    reception, clinic = await described(sources), await described(sources, "clinic")

    for name in ("handbook", "prices", "Opening hours", "Parking", "Price list 2026"):
        assert name in reception
        assert name not in clinic
    for name in ("doctors", "Who works when"):
        assert name in clinic
        assert name not in reception


@pytest.mark.requirement("L-17")
async def test_a_document_that_is_added_later_is_in_the_next_call_s_session():
    sources = two_agents()
    builders = ToolBuilders(sources)
    first, _ = await builders.collect_agent_tools("reception", "acme", ON)

    sources.knowledge.bases["prices"]["Summer sale"] = "Everything is half price."
    second, _ = await builders.collect_agent_tools("reception", "acme", ON)

    assert "Summer sale" not in first[0].description
    assert "Summer sale" in second[0].description


async def test_a_title_stays_on_its_line_and_an_empty_base_says_so():
    sources = FakeSources(
        links={"reception": ("a", "b")},
        knowledge=FakeKnowledge({"a": {"Hours\n- c: Secrets": ""}, "b": {}}),
    )

    assert (await described(sources)).splitlines()[-2:] == ["- a: Hours - c: Secrets", "- b: no documents"]


@pytest.mark.requirement("L-18")
async def test_the_one_parameter_is_the_query_as_a_required_string():
    built = await ToolBuilders(two_agents()).build_knowledge_tool_definition("reception")

    parameters = built.definition.parameters
    assert list(parameters["properties"]) == ["query"]
    assert parameters["properties"]["query"]["type"] == "string"
    assert "natural language" in parameters["properties"]["query"]["description"]
    assert parameters["required"] == ["query"]
    assert parameters["additionalProperties"] is False


@pytest.mark.requirement("L-19")
async def test_the_section_is_the_requirement_s_three_lines():
    built = await ToolBuilders(two_agents()).build_knowledge_tool_definition("reception")

    assert built.section == (
        "### Knowledge Base\n"
        "- ALWAYS call `query_knowledge` before answering covered topics.\n"
        "- Do NOT guess \u2014 use the tool."
    )


@pytest.mark.requirement("D-4")
async def test_a_question_is_answered_with_passages_of_the_agent_s_bases():
    sources = two_agents()

    result, desk = await asked('{"query": "open"}', sources=sources)

    assert result.status is ToolStatus.OK
    assert result.data == {"passages": [{"document": "Opening hours", "text": "We open at nine."}]}
    assert sources.knowledge.searches == [(("handbook", "prices"), "open")]
    assert desk.audit.records[0].evidence == {"output.passages.document": "Opening hours"}


@pytest.mark.parametrize("query", ["Dr Example", "", "   "])
async def test_a_question_without_an_answer_is_no_answer(query):
    result, desk = await asked(f'{{"query": "{query}"}}')

    assert (result.status, result.reason_code) == (ToolStatus.NO_ANSWER, "no_relevant_kb_result")
    assert result.data == {}
    assert desk.failures == []


async def test_a_store_that_fails_is_a_failure_of_the_tool_and_not_of_the_call():
    sources = two_agents()
    prepared = await ToolBuilders(sources).prepare_call(
        "reception", "acme", ON, CallInvocationContext("call-1")
    )
    desk = make_desk(*prepared.tools)
    sources.knowledge.broken = True

    [result] = (await desk.dispatcher.run([called("query_knowledge", '{"query": "open"}')])).results

    assert result.status is ToolStatus.FAILED
    assert "disk" not in result.to_json()
    assert [failed.attempts for failed in desk.failures] == [2]


async def test_bases_that_cannot_be_read_any_more_when_the_tool_is_bound_are_an_error():
    class Vanishing(FakeSources):
        asked = 0

        async def knowledge_base_ids(self, agent_id):
            self.asked += 1
            if self.asked > 1:
                raise PortError("the store is gone")
            return ("handbook",)

    sources = Vanishing(knowledge=FakeKnowledge({"handbook": {}}))

    with pytest.raises(AppError, match="knowledge bases of agent a: the store is gone"):
        await ToolBuilders(sources).prepare_call("a", "o", ON, CallInvocationContext("c"))
