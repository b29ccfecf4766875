"""Values that the audit may hold: only what stands along declared paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.types import JsonObject, JsonValue


def project(paths: Sequence[str], values: JsonObject) -> dict[str, JsonValue]:
    """
    Return ``{path: value}`` for every declared path that exists in ``values``.

    A list on the way is mapped over, so one path names a property of all its elements.
    """
    found: dict[str, JsonValue] = {}
    for path in paths:
        hits = list(_walk(values, path.split(".")))
        if hits:
            found[path] = hits[0] if len(hits) == 1 else hits
    return found


def _walk(value: JsonValue, parts: Sequence[str]) -> Sequence[JsonValue]:
    if isinstance(value, list | tuple):
        return [hit for element in value for hit in _walk(element, parts)]
    if not parts:
        return [value]
    if isinstance(value, Mapping) and parts[0] in value:
        return _walk(value[parts[0]], parts[1:])
    return []
