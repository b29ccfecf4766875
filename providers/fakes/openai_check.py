"""
Server events checked with the official SDK's own models, for ``--validate`` and the tests.
"""

from __future__ import annotations

from functools import lru_cache
from typing import get_args

import pydantic
from openai.types.realtime import RealtimeServerEvent

from providers.fakes.openai_wire import Json

# What the recorded service sends and the SDK's models do not name.
_KNOWN_EXTRAS = frozenset({"session.object", "session.id", "session.expires_at"})


def check_server_event(event: Json) -> str | None:
    """Return what the SDK's model for this type says against ``event``, or nothing."""
    model = _models().get(event["type"])
    if model is None:
        return "the SDK knows no such event"
    try:
        parsed = model.model_validate(event)
    except pydantic.ValidationError as error:
        return str(error)
    extras = [name for name in unknown_fields(parsed) if name not in _KNOWN_EXTRAS]
    return f"fields that the SDK does not know: {', '.join(extras)}" if extras else None


def unknown_fields(parsed: pydantic.BaseModel) -> list[str]:
    """Return the paths of the fields that were sent and that the SDK's models do not name."""
    return sorted(set(_extras(parsed, "")))


@lru_cache(maxsize=1)
def _models() -> dict[str, type[pydantic.BaseModel]]:
    union = get_args(RealtimeServerEvent)[0]
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(union)}


def _extras(value: object, path: str) -> list[str]:
    if isinstance(value, list):
        return [extra for inner in value for extra in _extras(inner, path)]
    if not isinstance(value, pydantic.BaseModel):
        return []
    found = [f"{path}{name}" for name in value.model_extra or {}]
    for name in type(value).model_fields:
        found += _extras(getattr(value, name), f"{path}{name}.")
    return found
