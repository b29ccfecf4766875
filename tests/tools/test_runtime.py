import dataclasses
import functools

import pytest

from tests.tools.doubles import closed, make_tool
from tools import (
    RuntimeTool,
    ToolAuditPolicy,
    ToolDefinitionError,
    ToolEffect,
    ToolExecutionPolicy,
    ToolRetryPolicy,
)
from tools.schema import ClosedSchema


async def answer(context, arguments):
    return {"text": "x"}


@pytest.mark.requirement("V-6")
async def test_the_snippet_of_the_requirement_runs_after_one_import_line():
    namespace = {}
    exec(
        "from tools import RuntimeTool, ToolAuditPolicy, ToolEffect, ToolExecutionPolicy, ToolRetryPolicy\n"
        "async def find_order(context, arguments):\n"
        "    return {'state': context.consumer_state[arguments['order']]}\n"
        "tool = RuntimeTool(\n"
        "    'find_order',\n"
        "    '1.0',\n"
        "    {'type': 'object', 'properties': {'order': {'type': 'string'}},\n"
        "     'required': ['order'], 'additionalProperties': False},\n"
        "    {'type': 'object', 'properties': {'state': {'type': 'string'}},\n"
        "     'required': ['state'], 'additionalProperties': False},\n"
        "    find_order,\n"
        "    ToolExecutionPolicy(ToolEffect.READ_ONLY, ToolRetryPolicy(2)),\n"
        "    ToolAuditPolicy(),\n"
        ")\n",
        namespace,
    )

    tool = namespace["tool"]
    assert (tool.name, tool.version) == ("find_order", "1.0")
    assert tool.input["properties"] == {"order": {"type": "string"}}
    assert tool.output["properties"] == {"state": {"type": "string"}}
    assert tool.handler is namespace["find_order"]
    assert tool.execution.effect is ToolEffect.READ_ONLY
    assert tool.execution.retry.max_attempts == 2
    assert tool.audit.evidence_paths == ()
    assert tool.description == ""


@pytest.mark.requirement("V-6")
def test_the_positional_order_is_the_requirement_s_and_the_rest_is_keyword_only():
    fields = [field for field in dataclasses.fields(RuntimeTool) if field.init]

    assert [field.name for field in fields if not field.kw_only] == [
        "name", "version", "input", "output", "handler", "execution", "audit",
    ]  # fmt: skip
    assert "description" in [field.name for field in fields if field.kw_only]


def sync(context, arguments):
    return {}


async def one(context):
    return {}


async def three(context, arguments, more):
    return {}


async def three_with_default(context, arguments, more=None):
    return {}


async def star(*args):
    return {}


async def star_after(context, *arguments):
    return {}


async def keywords(context, arguments, **more):
    return {}


async def keyword_only(context, *, arguments):
    return {}


async def generator(context, arguments):
    yield {}


class SyncCallable:
    def __call__(self, context, arguments):
        return {}


@pytest.mark.requirement("V-7")
@pytest.mark.parametrize(
    "handler",
    [
        sync,
        one,
        three,
        three_with_default,
        star,
        star_after,
        keywords,
        keyword_only,
        generator,
        SyncCallable(),
        None,
    ],
    ids=lambda handler: getattr(handler, "__name__", type(handler).__name__),
)
def test_a_handler_that_is_not_async_with_exactly_two_arguments_is_refused(handler):
    with pytest.raises(ToolDefinitionError, match="handler"):
        make_tool("t", handler)


class Handlers:
    async def method(self, context, arguments):
        return {"text": "x"}

    async def __call__(self, context, arguments):
        return {"text": "x"}


async def with_more(more, context, arguments):
    return {"text": more}


@pytest.mark.requirement("V-7")
@pytest.mark.parametrize(
    "handler",
    [answer, Handlers().method, Handlers(), functools.partial(with_more, "x")],
    ids=["function", "method", "object", "partial"],
)
async def test_any_async_callable_of_context_and_arguments_is_a_handler(handler):
    tool = make_tool("t", handler)

    assert await tool.handler(None, {}) == {"text": "x"}


@pytest.mark.requirement("V-8")
@pytest.mark.parametrize("side", ["takes", "gives"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        closed(a={"type": "object"}),
        closed(a={"type": "array", "items": {"type": "object", "properties": {}}}),
        {**closed(), "$defs": {"r": {"type": "object"}}},
    ],
    ids=["top", "nested", "items", "$defs"],
)
def test_an_open_schema_on_either_side_is_an_error_at_construction(side, schema):
    with pytest.raises(ToolDefinitionError, match=r"t: (input|output) schema is not closed"):
        make_tool("t", answer, **{side: schema})


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "end.call", "звонок", "a\n"])
def test_a_name_that_a_provider_refuses_is_refused_here(name):
    with pytest.raises(ToolDefinitionError, match="tool name"):
        make_tool(name, answer)


def test_a_tool_without_a_version_is_refused():
    with pytest.raises(ToolDefinitionError, match="version"):
        dataclasses.replace(make_tool("t", answer), version="")


def test_a_non_idempotent_tool_with_retries_is_an_error():
    with pytest.raises(ToolDefinitionError, match="never repeated"):
        ToolExecutionPolicy(ToolEffect.NON_IDEMPOTENT, ToolRetryPolicy(2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolRetryPolicy(0),
        lambda: ToolRetryPolicy(1, backoff_ms=-1),
        lambda: ToolExecutionPolicy(ToolEffect.READ_ONLY, timeout_ms=0),
        lambda: ToolAuditPolicy(("secret",)),
        lambda: ToolAuditPolicy(("arguments",)),
        lambda: ToolAuditPolicy(("output..a",)),
    ],
)
def test_a_policy_without_sense_is_refused(make):
    with pytest.raises(ToolDefinitionError):
        make()


def test_a_tool_keeps_its_own_schemas():
    source = closed(a={"type": "string"})
    tool = make_tool("t", answer, takes=source)
    source["properties"]["b"] = {"type": "string"}

    assert list(tool.input["properties"]) == ["a"]
    assert isinstance(tool.input_schema, ClosedSchema)
    assert tool.definition.parameters == tool.input
