from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from config.agent_tools import QueryKnowledgeSettings, TransferCallSettings
from config.schema import schema

EXAMPLES = Path(__file__).parents[2] / "config" / "examples"
TOOLS = {
    "end_call": None,
    "lookup_caller": None,
    "transfer_call": TransferCallSettings,
    "query_knowledge": QueryKnowledgeSettings,
}


def plain(path: Path):
    return YAML(typ="safe", pure=True).load(path.read_text())


@pytest.mark.parametrize("tools", [None, TOOLS])
def test_the_schema_is_one(tools):
    jsonschema.Draft202012Validator.check_schema(schema(tools))


@pytest.mark.parametrize("name", ["minimal.yaml", "fake.yaml", "full.yaml"])
def test_the_examples_fit_the_schema(name):
    jsonschema.validate(plain(EXAMPLES / name), schema(TOOLS))


def test_defaults_are_written_as_in_the_file():
    definitions = schema()["$defs"]

    assert definitions["SipSettings"]["properties"]["listen"]["default"] == [
        "udp:0.0.0.0:5060",
        "tcp:0.0.0.0:5060",
    ]
    assert definitions["SipSettings"]["properties"]["rtp_ports"]["default"] == "20000-29999"
    assert definitions["HttpSettings"]["properties"]["listen"]["default"] == "127.0.0.1:8080"


@pytest.mark.parametrize(
    ("section", "broken"),
    [
        ("agents", {"reception": {"providers": ["x"], "prompt": "x", "tol": {}}}),
        ("agents", {"reception": {"providers": ["x"], "prompt": "x", "tools": {"end_cal": {}}}}),
        ("agents", {"reception": {"providers": ["x"], "prompt": "x", "tools": {"end_call": {"x": 1}}}}),
        ("agents", {"reception": {"providers": ["x"], "prompt": "x", "on_unavailable": "explode"}}),
        ("agents", {"reception": {"providers": [], "prompt": "x"}}),
        ("providers", {"openai": {"model": "x"}}),
        ("providers", {"gemini": {"model": "x"}}),
        ("providers", {"gemini": {"api_key": "x", "vertex": {"project": "p"}}}),
        ("providers", {"mine": {"api_key": "x"}}),
        ("trunks", {"a": {"allow": ["10.0.0.1"], "codecs": ["G729"]}}),
    ],
)
def test_what_is_wrong_does_not_fit_the_schema(section, broken):
    document = {**plain(EXAMPLES / "minimal.yaml"), section: broken}

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema(TOOLS))


@pytest.mark.parametrize(
    "providers",
    [
        {"openai": {"api_key": "x"}, "gemini": {"api_key": "x"}, "fake": {}},
        {"gemini": {"vertex": {"project": "p"}}, "second": {"kind": "gemini", "api_key": "x"}},
        {"openai": {"kind": "fake"}},
    ],
)
def test_a_provider_named_like_its_kind_may_leave_it_out(providers):
    jsonschema.validate({**plain(EXAMPLES / "minimal.yaml"), "providers": providers}, schema(TOOLS))


def test_secrets_are_marked_as_secrets():
    assert schema()["$defs"]["OpenAISettings"]["properties"]["api_key"]["writeOnly"] is True
