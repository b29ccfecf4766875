"""
Client messages of Gemini Live, checked against the SDK's types and brought to one spelling. No I/O.

The service reads protobuf JSON: a field may be written ``camelCase`` or ``snake_case`` at every level, an
unknown one refuses the message, numbers may be text. The SDK's pydantic models are the authority for names
and types; a message comes out with camelCase keys only. What is data and no message (arguments, results, JSON
Schemas) is left as it is.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import pydantic
from google.genai import types

Json: TypeAlias = dict[str, Any]
"""A JSON object that this side builds or has checked."""
JsonView: TypeAlias = Mapping[str, Any]
"""The same, to read only."""
Shape: TypeAlias = object
"""A type as the SDK writes it."""

MAX_REASON = 123
"""Bytes of a reason that fit into a close frame."""


class Refused(Exception):
    """The service closes the connection; ``code`` is the WebSocket's, ``reason`` is cut to what fits."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason.encode()[:MAX_REASON].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    shape: Shape


# Where the SDK's parameter types are wider than the wire (it converts), or know less.
_WIRE: dict[type, dict[str, Shape]] = {
    types.LiveClientSetup: {
        "system_instruction": types.Content,
        "tools": list[types.Tool],
        "realtime_input_config": types.RealtimeInputConfig,
    },
    types.LiveClientContextUpdate: {
        "system_instruction": types.Content,
        "tools": types.LiveClientContextUpdateTools,
    },
    types.LiveClientContextUpdateTools: {"tools": list[types.Tool]},
}


def read_message(value: object) -> Json:
    """Return a client message with camelCase keys; raise :exc:`Refused` as the service would."""
    if not isinstance(value, dict):
        raise Refused(1007, "Request contains an invalid argument.")
    message = _object(value, types.LiveClientMessage, "")
    if len(message) != 1:
        raise Refused(1007, f"Exactly one field of the message must be set, not {len(message)}.")
    return message


def _object(value: object, model: type[pydantic.BaseModel], path: str) -> Json:
    if not isinstance(value, dict):
        raise _invalid(path, model.__name__, value)
    fields = _fields(model)
    read: Json = {}
    for name, inner in value.items():
        field = fields.get(name)
        if field is None:
            where = f" at '{path}'" if path else ""
            raise Refused(
                1007, f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'
            )
        if inner is not None:
            read[field.name] = _read(inner, field.shape, f"{path}.{name}" if path else name)
    return read


@lru_cache(maxsize=512)
def _fields(model: type[pydantic.BaseModel]) -> dict[str, _Field]:
    """Return a message's fields under both of their names."""
    hints = get_type_hints(model) | _WIRE.get(model, {})
    both: dict[str, _Field] = {}
    for name in (*model.model_fields, *(name for name in hints if name in _WIRE.get(model, {}))):
        info = model.model_fields.get(name)
        camel = (info.alias if info else None) or _camel(name)
        both[name] = both[camel] = _Field(camel, hints[name])
    return both


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _read(value: object, shape: Shape, path: str) -> object:
    if get_origin(shape) in (Union, UnionType):
        inner = [each for each in get_args(shape) if each is not type(None)]
        shape = inner[0] if len(inner) == 1 else object
    if get_origin(shape) is list:
        if not isinstance(value, list):
            raise _invalid(path, "a list", value)
        return [_read(each, get_args(shape)[0], f"{path}[{index}]") for index, each in enumerate(value)]
    if get_origin(shape) is dict:
        if not isinstance(value, dict):
            raise _invalid(path, "a map", value)
        return {name: _read(each, get_args(shape)[1], f"{path}.{name}") for name, each in value.items()}
    if not isinstance(shape, type) or shape is object:
        return value
    if issubclass(shape, pydantic.BaseModel):
        return _object(value, shape, path)
    if issubclass(shape, enum.Enum):
        return _enum(value, shape, path)
    return _scalar(value, shape, path)


def _enum(value: object, shape: type[enum.Enum], path: str) -> str:
    if not isinstance(value, str) or value.upper() not in shape.__members__:
        raise _invalid(path, shape.__name__, value)
    return value.upper()


def _scalar(value: object, shape: type, path: str) -> object:
    if shape is bool:
        fits = isinstance(value, bool)
    elif shape in (int, float):
        return _number(value, shape, path)
    elif shape in (str, bytes):
        fits = isinstance(value, str)
    else:
        fits = True
    if not fits:
        raise _invalid(path, f"TYPE_{shape.__name__.upper()}", value)
    return value


def _number(value: object, shape: type, path: str) -> float | int:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            number = float(value)
            if shape is float or number.is_integer():
                return number if shape is float else int(number)
        except (ValueError, OverflowError):
            pass
    raise _invalid(path, "TYPE_INT64" if shape is int else "TYPE_DOUBLE", value)


def _invalid(path: str, kind: str, value: object) -> Refused:
    return Refused(1007, f"Invalid value at '{path}' ({kind}), {value!r}"[:400])
