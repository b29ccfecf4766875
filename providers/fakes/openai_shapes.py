"""
Client events checked against the parameter types of the official SDK.

The SDK's ``TypedDict`` classes are the authority for names and types; this module walks them, so that
an error can name the parameter as the real service does (``session.audio.input.format.rate``). What
types cannot say (ranges, voices, lengths) is checked in ``openai_config``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Literal, NotRequired, Required, TypeAlias, Union, get_args, get_origin

from openai.types.realtime import RealtimeClientEventParam
from openai.types.realtime.response_create_event_with_references_param import (
    ResponseCreateEventWithReferencesParam,
)
from typing_extensions import get_type_hints, is_typeddict

Shape: TypeAlias = object
"""A type as the SDK writes it: a ``TypedDict``, ``Literal``, ``Union``, ``list`` and so on."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a client event is refused: the fields of the service's error object."""

    code: str
    message: str
    param: str | None = None


_NULL_CLEARS = frozenset({
    "previous_item_id",
    "session.audio.input.noise_reduction",
    "session.audio.input.transcription",
    "session.audio.input.turn_detection",
})  # fmt: skip
"""Documented to be cleared by null, though the SDK's parameter types do not all say so."""


def check_event(event: Mapping[str, object]) -> Problem | None:
    """Return what is wrong with a client event, or nothing."""
    return check_against(event, _client_events())


def check_against(event: Mapping[str, object], shapes: Mapping[str, Shape]) -> Problem | None:
    """Return what is wrong with a client event of a protocol whose events have these shapes, by type."""
    kind = event.get("type")
    if not isinstance(kind, str):
        return Problem("missing_required_parameter", "Missing required parameter: 'type'.", "type")
    if kind not in shapes:
        return _not_one_of(kind, tuple(shapes), "type")
    return _check(event, shapes[kind], "")


def shapes_of(union: object) -> dict[str, Shape]:
    """Return the members of a union of the SDK's event parameters by their type."""
    return {_literals(_fields(shape)["type"])[0]: shape for shape in get_args(union)}


@lru_cache(maxsize=1)
def _client_events() -> dict[str, Shape]:
    shapes = shapes_of(RealtimeClientEventParam)
    # The richer form of response.create: its input may refer to items (``item_reference``).
    shapes["response.create"] = ResponseCreateEventWithReferencesParam
    return shapes


@lru_cache(maxsize=512)
def _fields(shape: type) -> dict[str, Shape]:
    return dict(get_type_hints(shape, include_extras=True))


def _bare(shape: Shape) -> Shape:
    while get_origin(shape) in (Required, NotRequired, Annotated):
        shape = get_args(shape)[0]
    return shape


def _literals(shape: Shape) -> tuple[str, ...]:
    shape = _bare(shape)
    return get_args(shape) if get_origin(shape) is Literal else ()


def _check(value: object, shape: Shape, path: str) -> Problem | None:
    shape = _bare(shape)
    origin = get_origin(shape)
    if shape is object or (value is None and path in _NULL_CLEARS):
        return None
    if origin in (Union, UnionType):
        return _check_union(value, get_args(shape), path)
    if origin is Literal:
        literals = get_args(shape)
        return (
            None if value in literals and not isinstance(value, bool) else _not_one_of(value, literals, path)
        )
    if isinstance(shape, type) and is_typeddict(shape):
        return _check_object(value, shape, path)
    if origin is dict:
        return _check_map(value, get_args(shape)[1], path)
    if origin is not None and len(get_args(shape)) == 1:
        return _check_list(value, get_args(shape)[0], path)
    return _check_scalar(value, shape, path)


def _check_object(value: object, shape: type, path: str) -> Problem | None:
    if not isinstance(value, Mapping):
        return _wrong_type(value, "an object", path)
    fields = _fields(shape)
    for name in value:
        if name not in fields:
            return Problem(
                "unknown_parameter", f"Unknown parameter: '{_join(path, name)}'.", _join(path, name)
            )
    for name, field in fields.items():
        if name in value:
            problem = _check(value[name], field, _join(path, name))
            if problem:
                return problem
        elif get_origin(field) is Required:
            at = _join(path, name)
            return Problem("missing_required_parameter", f"Missing required parameter: '{at}'.", at)
    return None


def _check_map(value: object, element: Shape, path: str) -> Problem | None:
    if not isinstance(value, Mapping):
        return _wrong_type(value, "an object", path)
    problems = (_check(inner, element, _join(path, name)) for name, inner in value.items())
    return next((problem for problem in problems if problem), None)


def _check_list(value: object, element: Shape, path: str) -> Problem | None:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return _wrong_type(value, "an array", path)
    problems = (_check(inner, element, f"{path}[{index}]") for index, inner in enumerate(value))
    return next((problem for problem in problems if problem), None)


def _check_scalar(value: object, shape: Shape, path: str) -> Problem | None:
    if shape in (None, NoneType):
        return None if value is None else _wrong_type(value, "null", path)
    if shape is bool:
        return None if isinstance(value, bool) else _wrong_type(value, "a boolean", path)
    if shape is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
        return None if fits else _wrong_type(value, "an integer", path)
    if shape is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return None if fits else _wrong_type(value, "a decimal", path)
    return None if isinstance(value, str) else _wrong_type(value, "a string", path)


def _check_union(value: object, shapes: tuple[Shape, ...], path: str) -> Problem | None:
    shapes = tuple(_bare(shape) for shape in shapes)
    flat = tuple(
        inner
        for shape in shapes
        for inner in (get_args(shape) if get_origin(shape) in (Union, UnionType) else (shape,))
    )
    objects = [shape for shape in flat if isinstance(shape, type) and is_typeddict(shape)]
    if isinstance(value, Mapping) and objects:
        return _check_one_object(value, objects, path)
    problems = [_check(value, shape, path) for shape in flat]
    if None in problems:
        return None
    expected = [problem for problem in problems if problem and problem.code == "invalid_value"]
    return (expected or [problem for problem in problems if problem])[0]


def _check_one_object(value: Mapping[str, object], shapes: list[type], path: str) -> Problem | None:
    """Choose the object that ``type`` (and ``role``) name, then check against that one."""
    for tag in ("type", "role"):
        tagged = [shape for shape in shapes if _literals(_fields(shape).get(tag, object))]
        if tag not in value or not tagged:
            continue
        named = [shape for shape in tagged if value[tag] in _literals(_fields(shape)[tag])]
        if not named:
            allowed = tuple(word for shape in tagged for word in _literals(_fields(shape)[tag]))
            return _not_one_of(value[tag], allowed, _join(path, tag))
        shapes = named
    problems = [_check_object(value, shape, path) for shape in shapes]
    return None if None in problems else problems[0]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else str(name)


def _not_one_of(value: object, allowed: Sequence[object], path: str) -> Problem:
    words = [f"'{word}'" for word in dict.fromkeys(allowed)]
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return Problem("invalid_value", f"Invalid value: '{value}'. Supported values are: {listed}.", path)


def _wrong_type(value: object, expected: str, path: str) -> Problem:
    names = {
        str: "a string",
        bool: "a boolean",
        int: "an integer",
        float: "a decimal",
        list: "an array",
        dict: "an object",
    }
    got = "null" if value is None else names.get(type(value), "something else")
    return Problem(
        "invalid_type", f"Invalid type for '{path}': expected {expected}, but got {got} instead.", path
    )
