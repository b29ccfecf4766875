"""
Server events of GPT-Live checked with the official SDK's own models, for ``--validate`` and the tests.

The nested events of a backend (``response.event``) are checked with the models of the Responses API.
"""

from __future__ import annotations

from functools import lru_cache
from typing import get_args

import pydantic
from openai.types.live.server_event import ServerEvent
from openai.types.responses import ResponseStreamEvent

from providers.fakes.openai_check import unknown_fields
from providers.fakes.openai_wire import Json

_NESTED = (
    "response.created", "response.in_progress", "response.completed", "response.failed",
    "response.incomplete", "response.output_item", "response.output_text", "response.function_call_arguments",
)  # fmt: skip


def check_server_event(event: Json) -> str | None:
    """Return what the SDK's model for this type says against ``event``, or nothing."""
    problem = _check(event, _models(ServerEvent))
    if problem is None and event["type"] == "response.event":
        problem = _check(event["event"], _models(ResponseStreamEvent))
    return problem


def prepare() -> None:
    """Build the models of a conversation's events now: it takes half a second, which no caller is to hear."""
    for annotated, kinds in (
        (ServerEvent, ("session.", "response.", "error")),
        (ResponseStreamEvent, _NESTED),
    ):
        for kind, model in _models(annotated).items():
            if kind.startswith(kinds):
                model.model_rebuild()


def _check(event: Json, models: dict[str, type[pydantic.BaseModel]]) -> str | None:
    model = models.get(event["type"])
    if model is None:
        return f"the SDK knows no event {event['type']}"
    try:
        parsed = model.model_validate(event)
    except pydantic.ValidationError as error:
        return str(error)
    extras = unknown_fields(parsed)
    return f"fields that the SDK does not know: {', '.join(extras)}" if extras else None


@lru_cache(maxsize=2)
def _models(annotated: object) -> dict[str, type[pydantic.BaseModel]]:
    union = get_args(annotated)[0]
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(union)}
