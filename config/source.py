"""
A YAML file as plain data, with the line of every key.

The file is composed by ruamel and its scalars are resolved here, by the rules of YAML 1.2's core
schema, so that what a value means never depends on a loader: an unquoted telephone number that
YAML takes for an integer (+12025550100, 0112) is a problem with its line, never another number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from config.errors import KeyPath, Marks, Problem
from config.expand import Expander

_MAX_BYTES = 4 << 20
_MAX_NODES = 100_000
"""Aliases included: a file of a few lines can name itself a billion times."""

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"-?(0|[1-9][0-9]*)")
_BASED_INT = re.compile(r"0x[0-9A-Fa-f]+|0o[0-7]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_SIGNED = re.compile(r"\+[0-9]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")

_STANDARD_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
}
_IMPLICIT_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("timestamp", "merge", "value")}


@dataclass(frozen=True)
class Source:
    """What a file holds; ``data`` has ``${…}`` replaced and may hold secrets."""

    data: JsonValue = field(repr=False)
    marks: Marks
    problems: tuple[Problem, ...]


class _TooMuch(Exception):
    """The file is nested or aliased beyond any sense."""


def read_source(path: Path, environ: Mapping[str, str], files: set[Path]) -> Source:
    """
    Read a YAML file.

    Args:
        path: The file; relative paths in it start in its folder.
        environ: Where ``${env:X}`` looks.
        files: Gets the paths of all ``${file:X}``.
    """
    marks = Marks(str(path))
    try:
        raw = path.read_bytes()
    except OSError as error:
        return _unusable(
            marks, 1, f"cannot be read: {error.strerror}", "write the path of a file that exists"
        )
    if len(raw) > _MAX_BYTES:
        return _unusable(marks, 1, "is larger than 4 MiB", "move long texts into files of their own")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return _unusable(marks, line, "is not UTF-8 text", "save the file as UTF-8")
    return parse_source(text, path=path, environ=environ, files=files)


def parse_source(text: str, *, path: Path, environ: Mapping[str, str], files: set[Path]) -> Source:
    """Read YAML text that stands in ``path``; see :func:`read_source`."""
    marks = Marks(str(path))
    try:
        root = YAML(typ="safe", pure=True).compose(text)
        if root is None:
            return _unusable(marks, 1, "the file is empty", "begin with config/examples/minimal.yaml")
        reader = _Reader(marks.file, text, Expander(path.parent, environ, files))
        data = reader.value(root, ())
    except MarkedYAMLError as error:
        # What the end of the file leaves open is mended where it began.
        mark = error.problem_mark
        if mark is not None and mark.index >= len(text.rstrip()):
            mark = error.context_mark or mark
        last = text.rstrip().count("\n") + 1
        return _unusable(marks, min(mark.line + 1, last) if mark else 1, *_syntax(error))
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return _unusable(marks, line, "YAML does not allow a control character here", "remove it")
    except YAMLError:
        return _unusable(marks, 1, "this is not YAML", "see config/examples for the form")
    except (RecursionError, _TooMuch):
        return _unusable(marks, 1, "is nested too deeply", "write at most a few levels")
    return Source(data, reader.marks, tuple(reader.problems))


def _unusable(marks: Marks, line: int, what: str, write: str) -> Source:
    return Source(None, marks, (Problem(marks.file, line, "", what, write),))


def _syntax(error: MarkedYAMLError) -> tuple[str, str]:
    said = " ".join(f"{error.context or ''} {error.problem or ''}".split())
    if "\\t" in said or "'\t'" in said:
        return "YAML syntax: a tab stands where text should begin", "indent with spaces"
    if "another document" in said:
        return "YAML syntax: a second document begins here", "keep everything in one document and remove ---"
    if "undefined alias" in said:
        return f"YAML syntax: {error.problem}", "define it above with &, or quote a value that begins with *"
    if "mapping values" in said:
        return (
            "YAML syntax: a colon where none may stand",
            "put text that holds a colon in quotes, or begin the line in the column of its neighbours",
        )
    if "block mapping expected <block end>, but found '<block" in said:
        return (
            "YAML syntax: this line is indented otherwise than those it belongs to",
            "begin it in the column of its neighbours",
        )
    return f"YAML syntax: {said}", "check indentation, quotes and brackets on this line and the one above"


class _Reader:
    """Turns nodes into plain data, collecting marks and problems on the way."""

    def __init__(self, file: str, text: str, expander: Expander) -> None:
        self._text = text
        self._lines: dict[KeyPath, int] = {}
        self._written: dict[KeyPath, str] = {}
        self.marks = Marks(file, self._lines, self._written)
        self.problems: list[Problem] = []
        self._expander = expander
        self._open: set[int] = set()
        self._nodes = 0

    def _wrong(self, path: KeyPath, what: str, write: str, *, line: int | None = None) -> None:
        problem = self.marks.problem(path, what, write)
        if line is not None:
            problem = Problem(problem.file, line, problem.path, problem.what, problem.write)
        self.problems.append(problem)

    def value(self, node: Node, path: KeyPath) -> JsonValue:
        self._nodes += 1
        if self._nodes > _MAX_NODES or id(node) in self._open:
            raise _TooMuch
        self._lines.setdefault(path, node.start_mark.line + 1)
        self._open.add(id(node))
        try:
            return self._construct(node, path)
        finally:
            self._open.discard(id(node))

    def _construct(self, node: Node, path: KeyPath) -> JsonValue:
        tag = str(node.tag)
        if tag not in _STANDARD_TAGS | _IMPLICIT_TAGS:
            self._wrong(path, f"the tag {tag!r} is not known", "remove it")
        match node:
            case ScalarNode():
                return self._scalar(node, path)
            case SequenceNode():
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            case MappingNode():
                return self._mapping(node, path)
            case _:
                raise AssertionError(type(node))

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, JsonValue]:
        data: dict[str, JsonValue] = {}
        merged: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._wrong(path, "a key is a list or a mapping", "write a word as the key", line=line)
                continue
            key = str(key_node.value)
            if key == "<<" and key_node.style is None:
                self._merge(value_node, path, merged)
                continue
            place = (*path, key)
            if key in data:
                first = self._lines[place]
                self._wrong(
                    place, f"stands here twice, first on line {first}", "keep one of the two", line=line
                )
                continue
            if not key:
                self._wrong(path, "a key is empty", "write a word in front of the colon", line=line)
                continue
            self._lines[place] = line
            if self._is_plain(key_node):
                self._check_number(key, place)
            data[key] = self.value(value_node, place)
        return {**merged, **data}

    def _merge(self, node: Node, path: KeyPath, merged: dict[str, JsonValue]) -> None:
        """Take over the keys of ``<<: *anchor`` (or of a list of them, the first winning)."""
        for part in node.value if isinstance(node, SequenceNode) else [node]:
            if not isinstance(part, MappingNode):
                self._wrong(path, "<< names something that is no mapping", "write <<: *NAME of a mapping")
                continue
            value = self.value(part, path)
            if isinstance(value, dict):
                merged.update({key: entry for key, entry in value.items() if key not in merged})

    def _scalar(self, node: ScalarNode, path: KeyPath) -> JsonValue:
        text = str(node.value)
        self._written[path] = text
        if self._is_plain(node):
            if self._check_number(text, path):
                return text
            resolved = _resolve(text)
            if not isinstance(resolved, str):
                return resolved
        expanded, faults = self._expander.expand(text)
        for what, write in faults:
            self._wrong(path, what, write)
        return expanded

    def _is_plain(self, node: ScalarNode) -> bool:
        """Whether a scalar is unquoted and not forced to be text by ``!!str``."""
        if node.style is not None:
            return False
        # The node's own tag does not tell !!str from what ruamel took for text by itself.
        written = self._text[node.start_mark.index : node.end_mark.index]
        return not (
            str(node.tag).endswith(":str") and "!" in written[: max(0, len(written) - len(node.value))]
        )

    def _check_number(self, text: str, path: KeyPath) -> bool:
        """Report a plain scalar that YAML takes for another number than the one that is written."""
        if _SIGNED.fullmatch(text):
            loss = "takes the unquoted {} for an integer and drops its plus sign"
        elif _LEADING_ZERO.fullmatch(text):
            loss = "takes the unquoted {} for a number, without its leading zero or in octal"
        else:
            return False
        self._wrong(path, "YAML " + loss.format(text), f'quote this number: "{text}"')
        return True


def _resolve(text: str) -> JsonValue:
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INT.fullmatch(text):
        return int(text) if len(text) <= 40 else text
    if _BASED_INT.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
