"""The arguments of a call as a model sends them: JSON text that deserves no trust."""

from __future__ import annotations

import json
import math
from typing import Final, NoReturn, cast

from tools.types import JsonValue

MAX_ARGUMENT_CHARS: Final = 65_536
"""A model's arguments are a few hundred characters; what is longer is a fault or an attack."""


class BadArguments(ValueError):
    """The text is not one JSON object; the message may be sent to the model."""


def parse_arguments(text: str | None) -> dict[str, JsonValue]:
    """
    Parse strictly: one object, no duplicate keys, no NaN, no infinity, no lone surrogates.

    Providers leave the arguments of a tool without parameters out in several ways: nothing, an
    empty string and ``null`` all mean no arguments.
    """
    if text is None or not text.strip():
        return {}
    if len(text) > MAX_ARGUMENT_CHARS:
        raise BadArguments(f"arguments are longer than {MAX_ARGUMENT_CHARS} characters")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except BadArguments:
        raise
    except UnicodeEncodeError:
        raise BadArguments("arguments hold half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise BadArguments(f"arguments are not JSON: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError):
        raise BadArguments("arguments are not JSON: too deep or too large a number") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadArguments("arguments must be a JSON object")
    return cast("dict[str, JsonValue]", value)  # json.loads builds nothing else


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise BadArguments("arguments name the same property twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise BadArguments(f"arguments are not JSON: {name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BadArguments("arguments are not JSON: a number is out of range")
    return number
