"""
Problems of a configuration file, one line each, in words for the person who wrote the file.

``file:line: key.path: what is wrong; what to write``. No line ever holds a value that came from
``${env:…}`` or ``${file:…}``: where a value is shown, it is shown as it stands in the file.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

from config.fields import INVALID, did_you_mean

KeyPath: TypeAlias = tuple[str | int, ...]
_SHOWN = 60
"""Characters of a value that a problem quotes at most."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to mend; ``str()`` of it is the line to print."""

    file: str
    line: int
    path: str
    what: str
    write: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " + (f"{self.path}: " if self.path else "")
        return f"{place}{self.what}; {self.write}" if self.write else place + self.what


class ConfigError(Exception):
    """
    A configuration that cannot be used.

    Args:
        problems: Everything that is wrong with it, in the order of the file.
        files: The other files that it names; a change of one may mend it.
    """

    def __init__(self, problems: Iterable[Problem], files: Iterable[Path] = ()) -> None:
        self.problems = tuple(problems)
        self.files = frozenset(files)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def show_path(path: KeyPath) -> str:
    """Write a key path: ``numbers."+12125550100".agent``, ``trunks.a.codecs[1]``."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            plain = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            shown += ("." if shown else "") + (part if plain else '"' + repr(part)[1:-1] + '"')
    return shown


@dataclass(frozen=True)
class Marks:
    """
    Where each key of the file stands.

    Attributes:
        file: Name of the file, as the operator gave it.
        lines: Line (from 1) of each key and list item.
        written: Each scalar as it stands in the file, before ``${…}`` was replaced.
    """

    file: str
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    written: Mapping[KeyPath, str] = field(default_factory=dict, repr=False)

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest key above it that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: KeyPath, what: str, write: str = "") -> Problem:
        """Make a problem of the key at ``path``; ``{value}`` becomes what is written there."""
        shown = self._show(path)
        what, write = (text.replace("{value}", shown) for text in (what, write))
        return Problem(self.file, self.line(path), show_path(path), what, write)

    def problem_in(self, path: KeyPath, what: str, write: str) -> Problem:
        """Make a problem of a section; where ``what`` begins with a key of it, on the line of that key."""
        problem = self.problem(path, what, write)
        first = re.match(r"\w+", what)
        inside = (*path, first[0]) if first else path
        return replace(problem, line=self.line(inside))

    def _show(self, path: KeyPath) -> str:
        # What is written as {file: PATH} is meant by its path.
        written = self.written.get(path) or self.written.get((*path, "file"))
        if written is None:
            return "this value"
        return repr(written if len(written) <= _SHOWN else written[:_SHOWN] + "…")


def problems_of(
    error: ValidationError, *, model: type[BaseModel], marks: Marks, prefix: KeyPath = ()
) -> list[Problem]:
    """
    Put pydantic's errors into our words.

    Args:
        error: What the validation of ``model`` raised.
        model: The model that was validated; knows the keys for "did you mean".
        marks: Where the keys stand.
        prefix: Key path of the part of the file that was validated.
    """
    errors = error.errors(include_url=False)
    # A list whose only item is wrong is also "too short" to pydantic: say it once.
    deeper = {details["loc"][:-1] for details in errors}
    return [
        _problem_of(details, model, marks, prefix)
        for details in errors
        if not (details["type"] == "too_short" and details["loc"] in deeper)
    ]


def _problem_of(details: ErrorDetails, model: type[BaseModel], marks: Marks, prefix: KeyPath) -> Problem:
    path, owner, wanted = _follow(model, details["loc"])
    kind, context = details["type"], details.get("ctx", {})
    if kind == INVALID:
        what, write = context["what"], context["write"]
    elif kind == "extra_forbidden":
        what, write = "is not known here", _known_keys(str(path[-1]), owner, model)
    elif kind == "missing":
        what, write = "is missing", _how_to_fill(str(path[-1]), owner)
    elif kind == "union_tag_invalid":
        path = (*path, "kind")
        what, write = _unknown_kind(context, details["input"])
    else:
        what, write = _WORDS.get(kind, _unknown)(context, details["input"])
        if kind in _MODEL_EXPECTED and path and wanted is not None:
            write = _how_to_begin(wanted, details["input"])
        elif kind in _MODEL_EXPECTED and path[-2:-1] == ("tools",):
            write = "write {enabled: true}, or key: value lines, indented"
    return marks.problem_in(prefix + path, what, write)


def _follow(
    model: type[BaseModel], loc: tuple[int | str, ...]
) -> tuple[KeyPath, type[BaseModel] | None, type[BaseModel] | None]:
    """
    Return the key path of a pydantic location, the model that its last key belongs to, and the one it wants.

    A location also names the member of a tagged union, which is no key of the file: it is left out.
    """
    path: list[str | int] = []
    owner: type[BaseModel] | None = None
    here: object = model
    rest = list(loc)
    while rest:
        part = rest.pop(0)
        here = _unwrap_root(here)
        members = _members(here)
        if len(members) > 1 and isinstance(part, str) and (tagged := _tagged(members, part)):
            here = tagged
            continue
        if part == "[key]":  # pydantic's sign for "the key itself"
            continue
        path.append(part)
        owner = members[0] if len(members) == 1 else None
        if owner is not None and isinstance(part, str):
            here = owner.model_fields[part].annotation if part in owner.model_fields else None
        else:
            here = _element(here)
    members = _members(_unwrap_root(here))
    return tuple(path), owner, members[0] if len(members) == 1 else None


def _unwrap_root(annotation: object) -> object:
    """A root model adds no key of its own: what it holds stands in its place."""
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        return annotation.model_fields["root"].annotation
    return annotation


def _strip(annotation: object) -> object:
    while get_origin(annotation) is typing.Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _members(annotation: object) -> list[type[BaseModel]]:
    """Return the models that a value of this type may be."""
    annotation = _strip(annotation)
    if get_origin(annotation) in {Union, UnionType}:
        return [model for member in get_args(annotation) for model in _members(member)]
    return [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []


def _tagged(members: list[type[BaseModel]], tag: str) -> type[BaseModel] | None:
    for member in members:
        if any(tag in get_args(info.annotation) for info in member.model_fields.values()):
            return member
    return None


def _element(annotation: object) -> object:
    """Return the type of the elements of a list or mapping, or of the one that is not ``None``."""
    annotation = _strip(annotation)
    arguments = [argument for argument in get_args(annotation) if argument not in {type(None), ...}]
    if get_origin(annotation) in {Union, UnionType}:
        return _element(arguments[0]) if len(arguments) == 1 else None
    return arguments[-1] if arguments else None


def _known_keys(key: str, owner: type[BaseModel] | None, root: type[BaseModel]) -> str:
    known = list(owner.model_fields) if owner is not None else []
    if near := did_you_mean(key, known):
        return near
    if elsewhere := next(_places(key, root, ""), ""):
        return f"its place is {elsewhere}"
    return f"known keys: {', '.join(known)}" if known else "remove it"


def _places(key: str, model: type[BaseModel], path: str) -> Iterator[str]:
    """Yield the key paths under which a key is known, ``NAME`` standing for names of the operator's."""
    for name, info in model.model_fields.items():
        place = f"{path}{name}"
        if name == key:
            yield place
        members = _members(info.annotation) or _members(_element(info.annotation))
        named = "" if _members(info.annotation) else ".NAME"
        for member in members:
            yield from _places(key, member, f"{place}{named}.")


def _how_to_fill(key: str, owner: type[BaseModel] | None) -> str:
    about = owner.model_fields[key].description if owner is not None and key in owner.model_fields else None
    return f"add {key} ({about.splitlines()[0].rstrip('.')})" if about else f"add {key}"


def _how_to_begin(wanted: type[BaseModel], value: object) -> str:
    """Say what to write where a mapping with the keys of a model has to stand."""
    keys = ", ".join(wanted.model_fields)
    if value is None and not any(info.is_required() for info in wanted.model_fields.values()):
        return f"write {{}} for the defaults, or key: value lines, indented (keys: {keys})"
    return f"write key: value lines, indented (keys: {keys})"


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "a mapping"
        case _:
            return "a list"


_Words: TypeAlias = Callable[[Mapping[str, object], object], tuple[str, str]]


def _unknown(_context: Mapping[str, object], _value: object) -> tuple[str, str]:
    return "cannot be used here", "see docs/configuration.md for what may stand here"


def _must_be(noun: str, write: str) -> _Words:
    def words(_context: Mapping[str, object], value: object) -> tuple[str, str]:
        if value is None:
            return f"is empty and must be {noun}", write
        return f"must be {noun}, not {_kind_of(value)}", write

    return words


def _must_be_text(_context: Mapping[str, object], value: object) -> tuple[str, str]:
    if isinstance(value, bool | int | float):
        return f"must be text, not {_kind_of(value)}", "put the value in quotes"
    if value is None:
        return "is empty and must be text", "write text in quotes, or remove the key where it is optional"
    return f"must be text, not {_kind_of(value)}", "write one line of text"


def _number(noun: str) -> _Words:
    def words(_context: Mapping[str, object], value: object) -> tuple[str, str]:
        if isinstance(value, str | int | float):
            return f"{{value}} is not {noun}", f"write {noun}"
        return _must_be(noun, f"write {noun}")(_context, value)

    return words


def _bound(words: str, key: str) -> _Words:
    def compare(context: Mapping[str, object], _value: object) -> tuple[str, str]:
        limit = context[key]
        shown = int(limit) if isinstance(limit, float) and limit.is_integer() else limit
        return f"{{value}} is out of range: it must be {words} {shown}", f"write a value {words} {shown}"

    return compare


def _one_of(context: Mapping[str, object], value: object) -> tuple[str, str]:
    listed = str(context.get("expected") or context.get("expected_tags") or "")
    known = re.findall(r"'([^']*)'", listed)
    near = did_you_mean(value, known) if isinstance(value, str) else ""
    return "{value} is not known here", f"choose from {', '.join(known)}" + (f"; {near}" if near else "")


def _unknown_kind(context: Mapping[str, object], value: object) -> tuple[str, str]:
    known = re.findall(r"'([^']*)'", str(context["expected_tags"]))
    tag = value.get("kind") if isinstance(value, Mapping) else None
    near = did_you_mean(tag, known) if isinstance(tag, str) else ""
    return "there is no kind {value}", f"write kind: {' or kind: '.join(known)}" + (
        f"; {near}" if near else ""
    )


def _no_kind(_context: Mapping[str, object], value: object) -> tuple[str, str]:
    if isinstance(value, Mapping):
        return "has no kind", "add kind: openai, kind: gemini or kind: fake, or name the entry so"
    what, write = _mapping(_context, value)
    return what, "write {} for the defaults, or key: value lines, indented" if value is None else write


_MODEL_EXPECTED = frozenset({"dict_type", "mapping_type", "model_type", "model_attributes_type"})


def _list(context: Mapping[str, object], value: object) -> tuple[str, str]:
    if isinstance(value, str) and value and "," not in value:
        return "must be a list, not text", "write [{value}], or one item a line with - in front"
    return _must_be("a list", "write [a, b], or one item a line with - in front")(context, value)


_mapping = _must_be("a mapping", "write key: value lines, indented")
_whole = _number("a whole number")
_decimal = _number("a number")
_boolean = _number("true or false")


def _length(noun: str) -> _Words:
    def words(context: Mapping[str, object], _value: object) -> tuple[str, str]:
        if "min_length" in context:
            return f"has too few {noun}", f"write at least {context['min_length']}"
        return f"has too many {noun}", f"write at most {context['max_length']}"

    return words


_WORDS: Mapping[str, _Words] = {
    "string_type": _must_be_text,
    "string_sub_type": _must_be_text,
    "string_too_short": _length("characters"),
    "string_too_long": _length("characters"),
    "int_type": _whole,
    "int_parsing": _whole,
    "int_parsing_size": _whole,
    "int_from_float": _whole,
    "float_type": _decimal,
    "float_parsing": _decimal,
    "finite_number": _decimal,
    "bool_type": _boolean,
    "bool_parsing": _boolean,
    "tuple_type": _list,
    "list_type": _list,
    "iterable_type": _list,
    "dict_type": _mapping,
    "mapping_type": _mapping,
    "model_type": _mapping,
    "model_attributes_type": _no_kind,
    "too_short": _length("items"),
    "too_long": _length("items"),
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("more than", "gt"),
    "less_than_equal": _bound("at most", "le"),
    "less_than": _bound("less than", "lt"),
    "literal_error": _one_of,
    "enum": _one_of,
    "union_tag_not_found": _no_kind,
}
