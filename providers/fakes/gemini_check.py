"""
Server messages checked with the official SDK's own models, for ``--validate`` and the tests.
"""

from __future__ import annotations

import copy

import pydantic
from google.genai import types
from google.genai._live_converters import _LiveServerMessage_from_mldev

from providers.fakes.gemini_shapes import Json


def check_server_message(message: Json) -> str | None:
    """Return what the SDK's models say against ``message``, or nothing; unknown fields count."""
    converted = _LiveServerMessage_from_mldev(copy.deepcopy(message))
    missing = len(message) - len(converted)
    if missing:
        return "the SDK knows no such message"
    try:
        types.LiveServerMessage.model_validate(converted)
    except pydantic.ValidationError as error:
        return str(error)
    return None
