import pytest

from tools import (
    AgentToolConfig,
    QueryKnowledgeSettings,
    ToolDefinitionError,
    ToolRegistry,
    TransferCallSettings,
    tool_registry,
)
from tools.collect import built_in_tools
from tools.registry import NoSettings


def nothing(context):
    return None


@pytest.fixture
def registry():
    return ToolRegistry(built_in_tools())


def test_the_switches_are_listed_in_the_order_of_the_prompt(registry):
    toggles = registry.toggles()

    assert [(toggle.name, toggle.always_on, toggle.settings) for toggle in toggles] == [
        ("query_knowledge", False, QueryKnowledgeSettings),
        ("lookup_caller", False, NoSettings),
        ("transfer_call", False, TransferCallSettings),
        ("end_call", True, NoSettings),
    ]
    assert toggles == tool_registry.toggles()


def test_a_title_is_made_from_the_name(registry):
    registry.register("opening_hours", nothing, nothing)

    assert [toggle.title for toggle in registry.toggles()][-2:] == ["Opening Hours", "End the call"]


@pytest.mark.report("BR-126")
@pytest.mark.parametrize("name", ["end_call", "transfer_call", "lookup_caller", "query_knowledge", "mine"])
def test_a_name_that_is_taken_is_refused_and_its_tool_stays(registry, name):
    registry.register("mine", nothing, nothing)
    before = list(registry)

    with pytest.raises(ToolDefinitionError, match=f"'{name}' exists already"):
        registry.register(name, lambda context: None, lambda context: None)
    assert list(registry) == before


@pytest.mark.parametrize("name", ["", "opening hours", "часы", "x" * 65])
def test_a_name_that_no_provider_takes_is_refused(registry, name):
    with pytest.raises(ToolDefinitionError, match="tool name"):
        registry.register(name, nothing, nothing)


@pytest.mark.parametrize("wrong", [None, "build", lambda: None, lambda one, two: None])
def test_what_cannot_be_called_with_one_context_is_refused(registry, wrong):
    with pytest.raises(ToolDefinitionError, match="build"):
        registry.register("mine", wrong, nothing)
    with pytest.raises(ToolDefinitionError, match="bind"):
        registry.register("mine", nothing, wrong)


@pytest.mark.parametrize("name", ["end_call", "nobody"])
def test_only_what_was_registered_can_be_removed(registry, name):
    with pytest.raises(ToolDefinitionError, match=name):
        registry.remove(name)


def test_a_removed_tool_is_gone(registry):
    registry.register("mine", nothing, nothing)
    registry.remove("mine")

    assert "mine" not in [toggle.name for toggle in registry.toggles()]


def test_everything_that_no_tool_understands_is_found_at_once(registry):
    config = AgentToolConfig.model_validate(
        {
            "transfer_cal": {"enabled": True},
            "transfer_call": {"enabled": False, "numbers": [{"number": "+1"}, {"numer": "+2"}]},
            "lookup_caller": {"enabled": True, "url": "https://x"},
            "query_knowledge": {"knowledge_bases": "handbook"},
            "end_call": {},
        }
    )

    problems = registry.check(config)

    assert [problem.path for problem in problems] == [
        ("transfer_cal",),
        ("transfer_call", "numbers", 1, "number"),
        ("transfer_call", "numbers", 1, "numer"),
        ("lookup_caller", "url"),
        ("query_knowledge", "knowledge_bases"),
    ]
    assert problems[0].message == (
        "unknown tool 'transfer_cal': choose from query_knowledge, lookup_caller, transfer_call, end_call"
        "; did you mean transfer_call?"
    )


def test_a_configuration_that_every_tool_understands_has_no_problems(registry):
    config = AgentToolConfig.model_validate(
        {
            "transfer_call": {"numbers": [{"number": "+1", "label": "x"}]},
            "query_knowledge": {},
            "end_call": {},
        }
    )

    assert registry.check(config) == ()
