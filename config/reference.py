"""
The table of all options in ``docs/configuration.md``, made of the models.

``python -m config.reference docs/configuration.md`` writes it anew between its two markers; a test
fails while the page says something else than the models do.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import UnionType
from typing import Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from config.fields import HttpListen, Listen, NameServer, PortRange
from config.models import Settings
from config.sip_address import SipAddress

BEGIN = "<!-- begin: made by config/reference.py -->"
END = "<!-- end -->"

_NAMES: Mapping[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    SecretStr: "secret text",
    Listen: "transport:address:port",
    HttpListen: "address:port",
    NameServer: "address:port",
    PortRange: "first-last",
    SipAddress: "SIP address",
    Decimal: "number",
    date: "YYYY-MM-DD",
    type(None): "null",
}


def render() -> str:
    """Return the reference as Markdown, one table for each section of the file."""
    return "\n\n".join(_tables(Settings, ""))


def update(page: str) -> str:
    """Return a page with the part between the two markers made anew."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{render()}\n\n{END}{tail}"


def _tables(model: type[BaseModel], path: str) -> Iterator[str]:
    rows, below = [], []
    for key, info in model.model_fields.items():
        place = f"{path}.{key}" if path else key
        models = list(_models(info.annotation))
        named = f"{place}.NAME" if _is_mapping(info.annotation) else place
        if models:
            below += [(m, _titled(m, named, models)) for m in models]
        rows.append(f"| `{key}` | {_type(info.annotation, named)} | {_default(info)} | {_about(info)} |")
    if path:
        yield "\n".join([f"### `{path}`", "", *_doc(model), "| key | value | default | meaning |",
                         "|---|---|---|---|", *rows])  # fmt: skip
    for child, place in below:
        yield from _tables(child, place)


def _titled(model: type[BaseModel], place: str, models: list[type[BaseModel]]) -> str:
    """Tell members of a tagged union apart by their tag."""
    if len(models) == 1:
        return place
    return f"{place} (kind: {model.model_fields['kind'].default})"


def _doc(model: type[BaseModel]) -> list[str]:
    text = " ".join((model.__doc__ or "").split())
    return [text, ""] if text else []


def _about(info: FieldInfo) -> str:
    return " ".join((info.description or "").split()).replace("|", "\\|")


def _strip(annotation: object) -> object:
    while get_origin(annotation) is typing.Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _is_mapping(annotation: object) -> bool:
    return get_origin(_strip(annotation)) in {Mapping, typing.Mapping, dict}


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    annotation = _strip(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for argument in get_args(annotation):
            yield from _models(argument)


def _type(annotation: object, place: str) -> str:
    annotation = _strip(annotation)
    if any(True for _ in _models(annotation)):
        return f"see `{place}`"
    if get_origin(annotation) in {Union, UnionType}:
        return " or ".join(_type(argument, place) for argument in get_args(annotation))
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"list of {_type(get_args(annotation)[0], place)}"
    if _is_mapping(annotation):
        return "mapping"
    return _NAMES[annotation]


def _default(info: FieldInfo) -> str:
    extra = info.json_schema_extra
    if isinstance(extra, dict) and "default" in extra:
        value: object = extra["default"]
    elif info.is_required():
        return "required"
    else:
        value = info.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel) or (isinstance(value, Mapping) and not value):
        return ""
    return f"`{_yaml(value)}`"


def _yaml(value: object) -> str:
    match value:
        case None:
            return "null"
        case "":
            return '""'
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list() | tuple():
            return f"[{', '.join(_yaml(item) for item in value)}]"
        case _:
            return str(value)


def main(arguments: list[str]) -> int:
    """Rewrite the page that is named; 1 when it was not current."""
    page = Path(arguments[0])
    old = page.read_text(encoding="utf-8")
    new = update(old)
    page.write_text(new, encoding="utf-8")
    return int(new != old)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
