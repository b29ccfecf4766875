"""The JSON Schema of the configuration file: what editors complete and underline."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, JsonValue

from config.models import Settings
from config.providers import PROVIDER_KINDS
from config.tool_checks import NoSettings


def schema(tools: Mapping[str, type[BaseModel] | None] | None = None) -> dict[str, JsonValue]:
    """
    Return the schema.

    Args:
        tools: The settings model of each tool that exists, as for :func:`config.tool_checks.check_tools`;
            without it any tool is allowed.
    """
    whole = Settings.model_json_schema()
    providers = whole["properties"]["providers"]
    whole["properties"]["providers"] = {**providers, **_by_name(providers["additionalProperties"])}
    if tools is not None:
        agent = whole["$defs"]["AgentSettings"]["properties"]
        about = agent["tools"]["description"]
        agent["tools"] = {**tools_schema(tools), "description": about}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _by_name(union: JsonValue) -> dict[str, JsonValue]:
    """Return what :func:`config.providers.kind_by_name` means: one named like a kind may leave it out."""
    names: dict[str, JsonValue] = {
        name: {"if": {"required": ["kind"]}, "then": union, "else": {"$ref": f"#/$defs/{model.__name__}"}}
        for name, model in PROVIDER_KINDS.items()
    }
    return {"properties": names, "additionalProperties": {"allOf": [{"required": ["kind"]}, union]}}


def tools_schema(known: Mapping[str, type[BaseModel] | None]) -> dict[str, JsonValue]:
    """Return the schema of an agent's ``tools``, without references to elsewhere."""
    return {
        "type": "object",
        "properties": {name: _entry(model or NoSettings) for name, model in known.items()},
        "additionalProperties": False,
    }


def _entry(model: type[BaseModel]) -> dict[str, JsonValue]:
    own = model.model_json_schema()
    definitions = own.pop("$defs", {})
    switch = {"type": "boolean", "default": True, "description": "Whether the agent has the tool."}
    own["properties"] = {"enabled": switch, **own.get("properties", {})}
    inlined = _inline(own, definitions)
    assert isinstance(inlined, dict)
    return inlined


def _inline(part: JsonValue, definitions: Mapping[str, JsonValue]) -> JsonValue:
    """Put definitions where they are referred to: models of tool settings are small and never recursive."""
    if isinstance(part, list):
        return [_inline(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    if isinstance(reference, str):
        rest = {key: value for key, value in part.items() if key != "$ref"}
        found = definitions[reference.rpartition("/")[2]]
        return _inline({**(found if isinstance(found, dict) else {}), **rest}, definitions)
    return {key: _inline(value, definitions) for key, value in part.items()}
