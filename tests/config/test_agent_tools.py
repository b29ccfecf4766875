from io import StringIO

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from config.agent_tools import (
    AgentToolConfig,
    QueryKnowledgeSettings,
    TransferCallSettings,
    TransferNumber,
)

MESSAGE = "Transfer Call requires at least one phone number."


def load(text: str) -> AgentToolConfig:
    return AgentToolConfig.model_validate(YAML().load(text))


def numbers(*values: str) -> list[dict[str, str]]:
    return [{"number": value, "label": "x"} for value in values]


@pytest.mark.requirement("L-31")
@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ({"transfer_call": {"enabled": False, "numbers": []}}, None),
        ({"transfer_call": {"enabled": False}}, None),
        ({}, None),
        ({"transfer_call": {"enabled": True, "numbers": []}}, MESSAGE),
        ({"transfer_call": {"enabled": True, "numbers": numbers("", "   ", "\t\n")}}, MESSAGE),
        ({"transfer_call": {"enabled": True, "numbers": numbers("", "+12125551234", "  ")}}, None),
        ({"transfer_call": {"enabled": True}}, MESSAGE),
        ({"transfer_call": {"enabled": True, "numbers": "+12125551234"}}, MESSAGE),
    ],
    ids=["off+none", "off+missing", "absent", "on+none", "on+blank", "on+one", "on+missing", "on+malformed"],
)
def test_validation_error_is_the_sentence_only_when_transfer_is_on_without_a_valid_number(tools, message):
    assert AgentToolConfig.model_validate(tools).validation_error() == message


@pytest.mark.requirement("L-32")
@pytest.mark.parametrize("number", ["", " ", "   ", "\t", "\n", "\u00a0", "\u2003 \t"])
def test_a_number_of_nothing_but_whitespace_is_invalid(number):
    assert not TransferNumber(number=number).is_valid
    assert TransferCallSettings(numbers=(TransferNumber(number=number),)).valid_numbers == ()


@pytest.mark.requirement("L-32")
def test_a_number_with_whitespace_around_it_is_valid():
    assert TransferNumber(number=" +12125551234 ").is_valid


@pytest.mark.requirement("L-34")
def test_is_tool_enabled_follows_the_switch_and_is_off_for_what_is_not_mentioned():
    tools = load("""
        transfer_call: {enabled: false}
        lookup_caller: {enabled: true}
        query_knowledge: {knowledge_bases: [handbook]}
        end_call: {}
    """)

    assert not tools.is_tool_enabled("transfer_call")
    assert tools.is_tool_enabled("lookup_caller")
    assert tools.is_tool_enabled("query_knowledge")
    assert tools.is_tool_enabled("end_call")
    assert not tools.is_tool_enabled("your_tool")
    assert not AgentToolConfig().is_tool_enabled("lookup_caller")
    assert tools.names == ("transfer_call", "lookup_caller", "query_knowledge", "end_call")


@pytest.mark.requirement("L-34")
def test_get_tool_settings_returns_the_asked_type_or_nothing():
    tools = load("""
        transfer_call: {enabled: false, numbers: [{number: "+12125551234", label: Sales}]}
        query_knowledge: {enabled: true, knowledge_bases: [handbook, prices]}
        lookup_caller: {enabled: true}
    """)

    assert tools.get_tool_settings(TransferCallSettings, "transfer_call") == TransferCallSettings(
        numbers=(TransferNumber(number="+12125551234", label="Sales"),)
    )
    knowledge = tools.get_tool_settings(QueryKnowledgeSettings, "query_knowledge")
    assert knowledge == QueryKnowledgeSettings(knowledge_bases=("handbook", "prices"))
    assert tools.get_tool_settings(TransferCallSettings, "lookup_caller") is None
    assert tools.get_tool_settings(TransferCallSettings, "your_tool") is None


@pytest.mark.requirement("L-34")
def test_validation_error_is_none_for_a_configuration_that_is_complete():
    tools = load('transfer_call: {enabled: true, numbers: [{number: "+12125551234", label: Sales}]}')

    assert tools.validation_error() is None


def test_settings_of_another_shape_are_refused_in_the_asked_type():
    tools = load("transfer_call: {enabled: true, numbers: [{nummer: 1}]}")

    with pytest.raises(ValidationError, match=r"numbers\.0\.number"):
        tools.get_tool_settings(TransferCallSettings, "transfer_call")


@pytest.mark.requirement("L-35")
def test_transfer_settings_survive_a_yaml_round_trip():
    settings = TransferCallSettings(
        numbers=(
            TransferNumber(number="+12125551234", label="Sales"),
            TransferNumber(number=" ", label=""),
            TransferNumber(number="+77270000001", label="Диспетчер"),
        )
    )
    tools = AgentToolConfig.model_validate({"transfer_call": {"enabled": True, **settings.model_dump()}})

    text = StringIO()
    YAML().dump(tools.model_dump(mode="json"), text)
    again = load(text.getvalue())

    assert again.model_dump(mode="json") == tools.model_dump(mode="json")
    assert again.get_tool_settings(TransferCallSettings, "transfer_call") == settings
    assert set(TransferCallSettings.model_fields) == {"numbers"}
    assert set(TransferNumber.model_fields) == {"number", "label"}


def test_the_configuration_is_frozen():
    number = TransferNumber(number="+12125551234")

    with pytest.raises(ValidationError, match="frozen"):
        number.number = "+19005550199"
