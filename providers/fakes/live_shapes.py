"""
Client events of GPT-Live checked against the parameter types of the official SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from openai.types.live.client_event_param import ClientEventParam

from providers.fakes.openai_shapes import Problem, Shape, check_against, shapes_of


def check_event(event: Mapping[str, object]) -> Problem | None:
    """Return what is wrong with the names and types of a client event, or nothing."""
    return check_against(event, _client_events())


@lru_cache(maxsize=1)
def _client_events() -> dict[str, Shape]:
    return shapes_of(ClientEventParam)
