import inspect
import json
import re

import pytest

from tests.tools.doubles import (
    SALES,
    SUPPORT,
    FakeSources,
    called,
    closed,
    full_config,
    full_sources,
    make_desk,
    make_tool,
    saying,
)
from tools import (
    AgentToolConfig,
    AgentToolDefinition,
    AppError,
    BuiltTool,
    CallInvocationContext,
    ToolBuilders,
    ToolDefinitionError,
    ToolRegistry,
    ToolStatus,
    TransferCallSettings,
    collect_agent_tools,
    register_tool_builder,
    tool_registry,
)
from tools.collect import built_in_tools
from tools.schema import ClosedSchema

RULE_WORDS = re.compile(r"\b(always|never|immediately|do not|don't|must|confirm\w*)\b", re.IGNORECASE)
ORDER = ["query_knowledge", "lookup_caller", "transfer_call", "end_call"]

ADDENDUM = """## Available Tools

### Knowledge Base
- ALWAYS call `query_knowledge` before answering covered topics.
- Do NOT guess — use the tool.

### Caller Lookup (PROACTIVE)
- Call `lookup_caller` proactively at the start of the conversation.
- Personalise the greeting with the data that it returns.
- If it finds nothing, greet the caller without a name and do NOT mention the lookup.

### Call Transfer (CONFIRMATION_FIRST)
- Transfer destinations:
  - +12125551234 — Sales
  - +12125555678 — Support
- ALWAYS confirm with the caller before transferring.

### Ending the Call
- Say goodbye and IMMEDIATELY call `end_call`.
- Do NOT wait for the caller to respond after your farewell.
- Do NOT announce that you are ending the call."""


@pytest.fixture
def builders():
    return ToolBuilders(full_sources())


@pytest.fixture
async def built(builders):
    """The four built tools by name, each by its own builder."""
    return {
        "end_call": builders.build_end_call_tool_definition(),
        "lookup_caller": await builders.build_client_lookup_tool_definition("acme"),
        "query_knowledge": await builders.build_knowledge_tool_definition("reception"),
        "transfer_call": builders.build_transfer_call_tool_definition(transfer_settings()),
    }


def transfer_settings():
    return full_config().get_tool_settings(TransferCallSettings, "transfer_call")


def without(*names):
    mapping = full_config().model_dump(mode="json")
    return AgentToolConfig.model_validate({k: v for k, v in mapping.items() if k not in names})


def switched_off(*names):
    mapping = full_config().model_dump(mode="json")
    return AgentToolConfig.model_validate(
        {name: {**entry, "enabled": name not in names} for name, entry in mapping.items()}
    )


def names(collected):
    return [definition.name for definition in collected.definitions]


@pytest.mark.requirement("L-1")
@pytest.mark.parametrize("name", ORDER)
async def test_rules_stand_in_the_section_and_facts_in_the_description(built, name):
    definition, section = built[name]

    # L-17 excepted: the titles of documents are the operator's words.
    assert not RULE_WORDS.search(definition.description.split("\n- ")[0])
    assert not RULE_WORDS.search(json.dumps(definition.parameters))
    assert f"`{name}`" in section or name == "transfer_call"
    assert RULE_WORDS.search(section)


@pytest.mark.requirement("L-2")
@pytest.mark.parametrize("name", ORDER)
async def test_every_builder_returns_a_definition_and_a_section(built, name):
    one = built[name]

    assert isinstance(one, tuple)
    definition, section = one
    assert type(definition) is AgentToolDefinition
    assert type(section) is str
    assert definition.name == name


@pytest.mark.requirement("L-3")
async def test_the_definitions_are_these(built):
    """The shape; each provider's own tests hold the converted form."""
    shapes = {name: one.definition for name, one in built.items()}

    assert shapes == {
        "end_call": AgentToolDefinition(
            "end_call",
            "Ends the current phone call.",
            {"type": "object", "properties": {}, "additionalProperties": False},
        ),
        "lookup_caller": AgentToolDefinition(
            "lookup_caller",
            "Retrieves the caller's client record from the database.",
            {"type": "object", "properties": {}, "additionalProperties": False},
        ),
        "query_knowledge": AgentToolDefinition(
            "query_knowledge",
            "Searches the knowledge bases of this agent.\n"
            "Knowledge bases and their documents:\n"
            "- handbook: Opening hours",
            {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "The question in natural language."}
                },
                "required": ["query"],
                "additionalProperties": False,
            },
        ),
        "transfer_call": AgentToolDefinition(
            "transfer_call",
            "Transfers the current call to another phone number (cold transfer).",
            {
                "type": "object",
                "properties": {
                    "phone_number": {
                        "type": "string",
                        "description": "The configured number of the destination.",
                        "enum": [SALES, SUPPORT],
                    }
                },
                "required": ["phone_number"],
                "additionalProperties": False,
            },
        ),
    }
    for definition in shapes.values():
        ClosedSchema(definition.parameters)
        assert json.loads(json.dumps(definition.parameters)) == definition.parameters


@pytest.mark.requirement("L-4")
@pytest.mark.parametrize("name", ORDER)
async def test_every_section_is_a_heading_with_a_list_of_rules(built, name):
    section = built[name].section

    assert re.fullmatch(r"### \S[^\n]*(\n- [^\n]+(\n  - [^\n]+)*)+", section)


@pytest.mark.requirement("L-5")
@pytest.mark.parametrize(
    ("name", "heading", "unmet"),
    [
        ("lookup_caller", "### Caller Lookup", {"organizations": {}}),
        ("query_knowledge", "### Knowledge Base", {"links": {}}),
        ("transfer_call", "### Call Transfer", {}),
    ],
)
async def test_a_tool_whose_prerequisite_is_missing_is_in_neither_list_nor_addendum(name, heading, unmet):
    sources, config = full_sources(), full_config()
    for field, value in unmet.items():
        setattr(sources, field, value)
    if name == "transfer_call":
        config = AgentToolConfig.model_validate(
            {**without(name).model_dump(mode="json"), name: {"enabled": True, "numbers": []}}
        )
    builders = ToolBuilders(sources)

    alone = {
        "lookup_caller": await builders.build_client_lookup_tool_definition("acme"),
        "query_knowledge": await builders.build_knowledge_tool_definition("reception"),
        "transfer_call": builders.build_transfer_call_tool_definition(None),
    }[name]
    collected = await builders.collect_agent_tools("reception", "acme", config)

    assert alone is None
    assert names(collected) == [one for one in ORDER if one != name]
    assert heading not in collected.addendum
    assert name not in collected.addendum


@pytest.mark.requirement("L-25")
async def test_the_collection_is_async_takes_agent_organization_and_configuration(builders):
    assert inspect.iscoroutinefunction(builders.collect_agent_tools)
    assert list(inspect.signature(builders.collect_agent_tools).parameters) == [
        "agent_id", "organization_id", "tool_config",
    ]  # fmt: skip

    collected = await builders.collect_agent_tools("reception", "acme", full_config())

    definitions, addendum = collected
    assert all(type(one) is AgentToolDefinition for one in definitions)
    assert type(addendum) is str
    assert await collect_agent_tools("reception", "acme", full_config(), sources=full_sources()) == collected


@pytest.mark.requirement("L-25")
@pytest.mark.parametrize("broken", ["sources", "knowledge"])
async def test_a_store_that_fails_fails_the_collection(broken):
    sources = full_sources()
    sources.broken = broken == "sources"
    sources.knowledge.broken = broken == "knowledge"
    builders = ToolBuilders(sources)

    with pytest.raises(AppError):
        await builders.collect_agent_tools("reception", "acme", full_config())
    with pytest.raises(AppError):
        await builders.prepare_call("reception", "acme", full_config(), CallInvocationContext("c"))


@pytest.mark.requirement("L-26")
@pytest.mark.parametrize("name", ["lookup_caller", "query_knowledge", "transfer_call"])
@pytest.mark.parametrize("make", [switched_off, without], ids=["off", "not mentioned"])
async def test_a_tool_that_is_not_enabled_is_absent_though_its_prerequisites_are_met(builders, name, make):
    collected = await builders.collect_agent_tools("reception", "acme", make(name))

    assert names(collected) == [one for one in ORDER if one != name]
    assert name not in collected.addendum


async def test_a_tool_that_is_off_is_not_even_looked_up():
    sources = FakeSources(broken=True)

    collected = await ToolBuilders(sources).collect_agent_tools(
        "reception", "acme", switched_off("lookup_caller", "query_knowledge")
    )

    assert names(collected) == ["transfer_call", "end_call"]


@pytest.mark.requirement("L-27")
async def test_the_sections_stand_under_one_heading_joined_by_blank_lines(builders, built):
    collected = await builders.collect_agent_tools("reception", "acme", full_config())

    sections = [built[name].section for name in names(collected)]
    assert collected.addendum == "## Available Tools\n\n" + "\n\n".join(sections)
    assert collected.addendum.count("## Available Tools") == 1


@pytest.mark.requirement("L-28")
async def test_the_addendum_is_this_text_on_every_run(builders):
    runs = [await builders.collect_agent_tools("reception", "acme", full_config()) for _ in range(3)]
    reversed_config = AgentToolConfig.model_validate(
        dict(reversed(full_config().model_dump(mode="json").items()))
    )
    runs.append(await builders.collect_agent_tools("reception", "acme", reversed_config))

    assert {collected.addendum for collected in runs} == {ADDENDUM}
    assert all(names(collected) == ORDER for collected in runs)


# The recipe of L-36


def build_hours(context):
    return BuiltTool(
        AgentToolDefinition("opening_hours", "Returns the opening hours.", closed()),
        "### Opening Hours\n- Call `opening_hours` before you name a time.",
    )


def bind_hours(context):
    return make_tool("opening_hours", saying("nine to five"), description="Returns the opening hours.")


@pytest.fixture
def registered():
    register_tool_builder("opening_hours", build_hours, bind_hours, title="Opening hours")
    yield
    tool_registry.remove("opening_hours")


@pytest.mark.requirement("L-36")
async def test_a_registered_tool_is_in_definitions_addendum_and_the_list_of_switches(registered):
    config = AgentToolConfig.model_validate(
        {**full_config().model_dump(mode="json"), "opening_hours": {"enabled": True}}
    )
    builders = ToolBuilders(full_sources())

    on = await builders.collect_agent_tools("reception", "acme", config)
    off = await builders.collect_agent_tools("reception", "acme", full_config())

    assert names(on) == ["query_knowledge", "lookup_caller", "transfer_call", "opening_hours", "end_call"]
    assert on.addendum == ADDENDUM.replace(
        "### Ending", "### Opening Hours\n- Call `opening_hours` before you name a time.\n\n### Ending"
    )
    assert (names(off), off.addendum) == (ORDER, ADDENDUM)
    assert [(toggle.name, toggle.title) for toggle in tool_registry.toggles()] == [
        ("query_knowledge", "Knowledge base"),
        ("lookup_caller", "Caller lookup"),
        ("transfer_call", "Call transfer"),
        ("opening_hours", "Opening hours"),
        ("end_call", "End the call"),
    ]


@pytest.mark.requirement("L-36")
async def test_a_registered_tool_runs_on_a_call(registered):
    config = AgentToolConfig.model_validate({"opening_hours": {"enabled": True}})
    prepared = await ToolBuilders(FakeSources()).prepare_call("a", "o", config, CallInvocationContext("c"))
    desk = make_desk(*prepared.tools)

    [result] = (await desk.dispatcher.run([called("opening_hours")])).results

    assert (result.status, result.data) == (ToolStatus.OK, {"text": "nine to five"})
    assert tool_registry.check(config) == ()


async def test_a_registered_builder_and_binding_may_be_async_and_need_a_prerequisite():
    async def build(context):
        return build_hours(context) if context.agent_id == "reception" else None

    async def bind(context):
        assert (context.build.agent_id, context.call.call_id) == ("reception", "call-1")
        return bind_hours(context)

    registry = ToolRegistry(built_in_tools())
    registry.register("opening_hours", build, bind)
    config = AgentToolConfig.model_validate({"opening_hours": {}})
    builders = ToolBuilders(FakeSources(), registry=registry)

    met = await builders.prepare_call("reception", "o", config, CallInvocationContext("call-1"))
    unmet = await builders.prepare_call("clinic", "o", config, CallInvocationContext("call-1"))

    assert [tool.name for tool in met.tools] == ["opening_hours", "end_call"]
    assert [tool.name for tool in unmet.tools] == ["end_call"]


def rebuilt(**changes):
    definition, section = build_hours(None)
    fields = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
        "section": section,
        **changes,
    }
    section = fields.pop("section")
    return lambda context: BuiltTool(AgentToolDefinition(**fields), section)


def rebound(**changes):
    fields = {"name": "opening_hours", "description": "Returns the opening hours.", **changes}
    return lambda context: make_tool(fields.pop("name"), saying("x"), **fields)


def unbindable(context):
    raise ToolDefinitionError("no")


@pytest.mark.parametrize(
    ("build", "bind", "reason"),
    [
        (rebuilt(name="closing_hours"), bind_hours, "built a tool named closing_hours"),
        (rebuilt(section="Opening hours"), bind_hours, "must start with a ### heading"),
        (rebuilt(section="## Opening hours"), bind_hours, "must start with a ### heading"),
        (rebuilt(parameters={"type": "object"}), bind_hours, "not closed"),
        (build_hours, rebound(name="closing_hours"), "bound to a tool named closing_hours"),
        (build_hours, rebound(takes=closed(day={"type": "string"})), "takes other arguments"),
        (build_hours, rebound(description="Other."), "with another description"),
        (build_hours, unbindable, "cannot be bound: no"),
    ],
)
async def test_a_tool_that_is_not_what_it_was_registered_as_fails_the_call_s_set_up(build, bind, reason):
    registry = ToolRegistry(built_in_tools())
    registry.register("opening_hours", build, bind)
    config = AgentToolConfig.model_validate({"opening_hours": {}})

    with pytest.raises(AppError, match=reason):
        await ToolBuilders(FakeSources(), registry=registry).prepare_call(
            "a", "o", config, CallInvocationContext("c")
        )


# Ready for one call


@pytest.mark.requirement("D-4")
async def test_the_prepared_tools_are_what_the_session_learns_of(builders):
    call = CallInvocationContext("call-1", caller="+12025550123")

    prepared = await builders.prepare_call("reception", "acme", full_config(), call)

    collected = await builders.collect_agent_tools("reception", "acme", full_config())
    assert (prepared.definitions, prepared.addendum) == collected
    assert tuple(tool.definition for tool in prepared.tools) == prepared.definitions
    assert prepared.transfer_numbers == (SALES, SUPPORT)


async def test_no_number_may_be_asked_for_where_transfer_is_off(builders):
    prepared = await builders.prepare_call(
        "reception", "acme", switched_off("transfer_call"), CallInvocationContext("c")
    )

    assert prepared.transfer_numbers == ()
