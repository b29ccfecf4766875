import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.doubles import closed
from tools import ToolDefinitionError
from tools.schema import ClosedSchema, plain_json

OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
STRING = {"type": "string"}


def nest(**more):
    return {"type": "object", "properties": {}, "additionalProperties": False, **more}


OPEN_SCHEMAS = {
    "top": OPEN,
    "top true": {**OPEN, "additionalProperties": True},
    "top schema": {**OPEN, "additionalProperties": STRING},
    "nested": closed(a=OPEN),
    "nested without keywords": closed(a={"type": "object"}),
    "nullable": closed(a={"type": ["object", "null"]}),
    "untyped object": closed(a={"properties": {"b": STRING}}),
    "untyped required": closed(a={"type": "string", "required": ["b"]}),
    "items": closed(a={"type": "array", "items": OPEN}),
    "items of items": closed(a={"type": "array", "items": {"type": "array", "items": OPEN}}),
    "array without items": closed(a={"type": "array"}),
    "items true": closed(a={"type": "array", "items": True}),
    "prefix items": closed(a={"type": "array", "prefixItems": [OPEN], "items": False}),
    "$defs": nest(**{"$defs": {"r": OPEN}, "properties": {"a": {"$ref": "#/$defs/r"}}}),
    "unused $defs": nest(**{"$defs": {"r": OPEN}}),
    "definitions": nest(definitions={"r": OPEN}),
    "anyOf": closed(a={"anyOf": [STRING, OPEN]}),
    "oneOf": closed(a={"oneOf": [OPEN, STRING]}),
    "allOf": closed(a={"allOf": [OPEN]}),
    "open below a branch": closed(a={"anyOf": [STRING, closed(b={})]}),
    "branch without a type": closed(a={"anyOf": [STRING, {"minLength": 1}]}),
    "not": closed(a={"type": "string", "not": OPEN}),
    "then": closed(a={"type": "string", "if": STRING, "then": OPEN}),
    "else": closed(a={"type": "string", "if": STRING, "else": OPEN}),
    "contains": closed(a={"type": "array", "items": STRING, "contains": OPEN}),
    "anything": closed(a={}),
    "anything with a description": closed(a={"description": "whatever you like"}),
    "true": closed(a=True),
    "pattern properties": nest(patternProperties={"^x": STRING}),
    "unevaluated": nest(unevaluatedProperties=STRING),
    "reference away": closed(a={"$ref": "https://example.com/schema.json"}),
    "reference to the top": closed(a={"$ref": "#"}),
    "reference to a property": closed(a=STRING, b={"$ref": "#/properties/a"}),
    "property named enum": nest(properties={"enum": {"$ref": "https://example.com/schema.json"}}),
}


@pytest.mark.requirement("V-8")
@pytest.mark.parametrize("schema", OPEN_SCHEMAS.values(), ids=OPEN_SCHEMAS)
def test_a_schema_that_is_open_anywhere_is_refused(schema):
    with pytest.raises(ToolDefinitionError, match="not closed"):
        ClosedSchema(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string"}, "top level must have type object"),
        ({**closed(), "required": "a"}, "not valid"),
        (closed(a={"type": "text"}), "not valid"),
        (closed(a={"$ref": "#/$defs/r"}), "does not exist"),
        (closed(a={"type": "string", "$id": "https://example.com/"}), "has an \\$id"),
        ({**closed(), "default": {1, 2}}, "not JSON"),
    ],
    ids=["string", "bad required", "bad type", "dangling", "nested id", "set"],
)
def test_a_schema_that_is_not_valid_is_refused_with_its_reason(schema, reason):
    with pytest.raises(ToolDefinitionError, match=reason):
        ClosedSchema(schema)


def test_the_message_names_the_place_that_is_open():
    with pytest.raises(ToolDefinitionError, match=r"\$\.properties\.rows\.items needs additionalProp"):
        ClosedSchema(closed(rows={"type": "array", "items": {"type": "object"}}))


@pytest.mark.requirement("V-8")
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (closed(), {}),
        (closed(a=closed(b=closed())), {"a": {"b": {}}}),
        (closed(a={"type": "array", "items": closed(b={"type": "integer"})}), {"a": [{"b": 1}]}),
        (closed(a={"type": ["string", "null"]}), {"a": None}),
        (closed(a={"enum": [1, "x", {"free": True}]}), {"a": {"free": True}}),
        (closed(a={"anyOf": [STRING, closed(b=STRING)]}), {"a": {"b": "x"}}),
        (closed(a={"allOf": [{"type": "integer"}, {"minimum": 3}]}), {"a": 3}),
        (nest(**{"$defs": {"r": closed()}, "properties": {"a": {"$ref": "#/$defs/r"}}}), {"a": {}}),
        (closed(a={"type": "array", "prefixItems": [STRING], "items": False}), {"a": ["x"]}),
        (closed(a={"type": "string", "anyOf": [{"minLength": 2}, {"pattern": "^x"}]}), {"a": "xy"}),
        (closed(a={"type": "string", "not": {"minLength": 3}}), {"a": "xy"}),
    ],
)  # fmt: skip
def test_a_closed_schema_is_accepted_and_takes_what_fits(schema, value):
    assert ClosedSchema(schema).violations(value) == ()


def test_an_endless_schema_by_reference_is_closed_and_ends_with_the_value():
    node = closed(value=STRING)
    node["properties"]["next"] = {"$ref": "#/$defs/node"}
    schema = ClosedSchema(nest(**{"$defs": {"node": node}, "properties": {"head": {"$ref": "#/$defs/node"}}}))

    assert schema.violations({"head": {"value": "a", "next": {"value": "b"}}}) == ()
    assert schema.violations({"head": {"value": "a", "next": {"value": 1}}})


def test_changing_the_schema_afterwards_opens_nothing():
    source = closed(a=STRING)
    schema = ClosedSchema(source)
    source["additionalProperties"] = True

    assert schema.violations({"a": "x", "b": 1})


def test_violations_say_what_was_expected_without_repeating_the_value():
    schema = ClosedSchema(
        closed(
            number={"type": "string", "enum": ["+1", "+2"]},
            count={"type": "integer", "minimum": 1},
            must=STRING,
        )
    )

    problems = [str(one) for one in schema.violations({"number": "secret", "count": 0, "extra": {"a": 1}})]

    assert problems == [
        "arguments: unknown property: extra",
        "arguments: missing: must",
        "count: must satisfy minimum 1",
        'number: must be one of "+1", "+2"',
    ]
    assert [str(one) for one in schema.violations({"number": "+1", "count": "2", "must": "x"})] == [
        "count: must be of type integer"
    ]


@pytest.mark.parametrize(
    "value",
    [{1, 2}, float("nan"), {"a": object()}, "\ud800", b"x"],
    ids=["set", "nan", "object", "surrogate", "bytes"],
)
def test_plain_json_refuses_what_json_cannot_say(value):
    with pytest.raises(ValueError):
        plain_json(value)


def test_plain_json_refuses_a_cycle():
    value = []
    value.append(value)

    with pytest.raises(ValueError, match="Circular"):
        plain_json(value)


schemas = st.recursive(
    st.sampled_from([STRING, {"type": "integer"}, {"enum": [1]}, False]),
    lambda below: (
        st.dictionaries(st.sampled_from("abc"), below, max_size=3).map(lambda props: closed(**props))
        | below.map(lambda one: {"type": "array", "items": one})
        | st.lists(below, min_size=1, max_size=3).map(lambda some: {"anyOf": some})
    ),
    max_leaves=8,
)


def open_one(schema, choose):
    """Open one object level of a schema, the n-th that is found."""
    levels = []

    def walk(node):
        if isinstance(node, dict):
            if node.get("type") == "object":
                levels.append(node)
            for below in node.values():
                walk(below)
        elif isinstance(node, list):
            for below in node:
                walk(below)

    walk(schema)
    del levels[choose % len(levels)]["additionalProperties"]


@given(st.dictionaries(st.sampled_from("abc"), schemas, max_size=3), st.integers(0, 50))
@settings(max_examples=100, deadline=None)
def test_any_closed_schema_is_accepted_and_refused_once_one_level_is_opened(properties, choose):
    schema = closed(**copy.deepcopy(properties))
    ClosedSchema(schema)

    open_one(schema, choose)

    with pytest.raises(ToolDefinitionError, match="not closed"):
        ClosedSchema(schema)
