"""
Closed JSON Schemas (draft 2020-12): what a tool takes and what it gives back.

Closed means that nothing unnamed can pass: ``additionalProperties`` is false at every object
level, and no value is left without a type, because a value of any type may be an open object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry

from tools.errors import ToolDefinitionError
from tools.types import JsonObject, JsonValue

_OBJECT_KEYWORDS: Final = frozenset(
    {"properties", "required", "additionalProperties", "minProperties", "maxProperties", "dependentRequired"}
)
# These admit properties that the schema does not name.
_OPENING: Final = (
    "patternProperties",
    "propertyNames",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
)
_MAX_PROBLEM_LENGTH: Final = 200


class ClosedSchema:
    """
    A schema that was found closed, compiled once.

    Raises :exc:`tools.errors.ToolDefinitionError` with the place of the first opening.
    """

    __slots__ = ("_validator",)

    def __init__(self, schema: JsonObject) -> None:
        try:
            text = json.dumps(schema, sort_keys=True, default=_mapping_as_dict)
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolDefinitionError(f"schema is not JSON: {error}") from None
        self._validator = _compile(text)

    def violations(self, value: object) -> tuple[Violation, ...]:
        """Return what is wrong with a plain JSON value, in a stable order; empty when it fits."""
        errors = sorted(self._validator.iter_errors(value), key=lambda error: error.json_path)
        return tuple(_violation(error) for error in errors)


class Violation:
    """One place where a value does not fit."""

    __slots__ = ("path", "problem", "rule")

    def __init__(self, path: str, rule: str, problem: str) -> None:
        self.path = path
        """Dotted place in the value; empty for the value itself."""
        self.rule = rule
        """The keyword of the schema that refuses."""
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path or 'arguments'}: {self.problem}"


class _Validator(Protocol):
    def iter_errors(self, instance: object) -> Iterator[ValidationError]: ...


def plain_json(value: object) -> JsonValue:
    """
    Return a detached copy of ``value`` made of plain JSON types.

    Raises :exc:`ValueError` for what JSON cannot say: NaN, lone surrogates, foreign types, cycles.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_mapping_as_dict)
        text.encode("utf-8")
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return cast("JsonValue", json.loads(text))  # json.loads of our own dump has no other types


def _mapping_as_dict(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


@lru_cache(maxsize=512)
def _compile(text: str) -> _Validator:
    """Compile from text, so that every call shares the validators and nobody can open them later."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ToolDefinitionError("schema is not closed: its top level must have type object")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolDefinitionError(f"schema is not valid: {error.json_path}: {error.message}") from None
    _check_closed(schema, schema, "$", constraint=False)
    return Draft202012Validator(schema, registry=Registry())  # an empty registry fetches nothing


def _check_closed(schema: object, root: Mapping[str, object], path: str, *, constraint: bool) -> None:
    if schema is False:
        return
    if not isinstance(schema, dict):
        raise ToolDefinitionError(f"schema is not closed: {path} accepts anything")
    _check_reference(schema, root, path)
    for keyword in _OPENING:
        if keyword in schema:
            raise ToolDefinitionError(f"schema is not closed: {path} uses {keyword}")
    if _describes_object(schema) and schema.get("additionalProperties") is not False:
        raise ToolDefinitionError(f"schema is not closed: {path} needs additionalProperties: false")
    if not constraint and not _is_bounded(schema):
        raise ToolDefinitionError(f"schema is not closed: {path} has no type")
    if "array" in _types(schema) and "items" not in schema:
        raise ToolDefinitionError(f"schema is not closed: {path} is an array without items")
    for below, place in _members(schema, path):
        _check_closed(below, root, place, constraint=False)
    for below, place in _branches(schema, path):
        _check_closed(below, root, place, constraint=True)


def _members(schema: Mapping[str, object], path: str) -> Iterator[tuple[object, str]]:
    """Yield what describes values below: each must be limited by itself."""
    for keyword in ("properties", "$defs", "definitions"):
        below = schema.get(keyword)
        if isinstance(below, dict):
            yield from ((sub, f"{path}.{keyword}.{name}") for name, sub in below.items())
    yield from _listed(schema, "prefixItems", path)
    if "items" in schema:
        yield schema["items"], f"{path}.items"


def _branches(schema: Mapping[str, object], path: str) -> Iterator[tuple[object, str]]:
    """Yield what describes the same value once more: it can only narrow a value that is limited."""
    for keyword in ("anyOf", "oneOf", "allOf"):
        yield from _listed(schema, keyword, path)
    for keyword in ("not", "if", "then", "else", "contains"):
        if keyword in schema:
            yield schema[keyword], f"{path}.{keyword}"


def _listed(schema: Mapping[str, object], keyword: str, path: str) -> Iterator[tuple[object, str]]:
    below = schema.get(keyword)
    if isinstance(below, list):
        yield from ((sub, f"{path}.{keyword}[{index}]") for index, sub in enumerate(below))


def _types(schema: Mapping[str, object]) -> Sequence[str]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else cast("Sequence[str]", kind)  # check_schema saw to it


def _describes_object(schema: Mapping[str, object]) -> bool:
    return "object" in _types(schema) or not _OBJECT_KEYWORDS.isdisjoint(schema)


def _is_bounded(schema: object) -> bool:
    """Whether a value that fits is limited to named types or values."""
    if schema is False:
        return True
    if not isinstance(schema, dict):
        return False
    if not {"type", "enum", "const", "$ref"}.isdisjoint(schema):
        return True
    if any(_is_bounded(branch) for branch in schema.get("allOf", ())):
        return True
    return any(key in schema and all(map(_is_bounded, schema[key])) for key in ("anyOf", "oneOf"))


def _check_reference(schema: Mapping[str, object], root: Mapping[str, object], path: str) -> None:
    """Allow references to ``$defs`` of the same schema only: they are checked, and need no network."""
    if "$id" in schema and schema is not root:
        raise ToolDefinitionError(f"schema is not valid: {path} has an $id of its own")
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return
    container, _, name = reference.removeprefix("#/").partition("/")
    definitions = root.get(container)
    if not reference.startswith("#/") or container not in {"$defs", "definitions"}:
        raise ToolDefinitionError(
            f"schema is not closed: {path} refers to {reference}, which is out of $defs"
        )
    if not isinstance(definitions, dict) or name not in definitions:
        raise ToolDefinitionError(f"schema is not valid: {path} refers to {reference}, which does not exist")


def _violation(error: ValidationError) -> Violation:
    path = ".".join(str(part) for part in error.absolute_path)
    rule = str(error.validator)
    return Violation(path, rule, _problem(error, rule)[:_MAX_PROBLEM_LENGTH])


def _problem(error: ValidationError, rule: str) -> str:
    """Say it to a model: what is expected, without repeating the value that was sent."""
    expected, value = error.validator_value, error.instance
    match rule:
        case "additionalProperties" if isinstance(value, dict):
            known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            unknown = sorted(str(name)[:40] for name in value if name not in known)
            return f"unknown property: {', '.join(unknown)}"
        case "required" if isinstance(value, dict) and isinstance(expected, list):
            return f"missing: {', '.join(str(name) for name in expected if name not in value)}"
        case "type":
            kinds = expected if isinstance(expected, list) else [expected]
            return f"must be of type {' or '.join(str(kind) for kind in kinds)}"
        case "enum" if isinstance(expected, list):
            return f"must be one of {', '.join(json.dumps(one, ensure_ascii=False) for one in expected)}"
        case _:
            return f"must satisfy {rule} {json.dumps(expected, ensure_ascii=False, default=str)}"
