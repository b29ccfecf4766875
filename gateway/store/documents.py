"""Text documents of a knowledge base: titles and passages (no I/O)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

MAX_PASSAGE_CHARS: Final = 800
_MAX_TITLE_CHARS: Final = 120
_HEADING: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
_BLANK: Final = re.compile(r"\n\s*\n")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+")
_FENCE: Final = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, small enough to be read out of."""

    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document with its title and, in reading order, its passages."""

    title: str
    passages: tuple[Passage, ...]


def read_document(path: PurePath, text: str) -> Document:
    """
    Split a text into passages of at most :data:`MAX_PASSAGE_CHARS` characters.

    The title is the first ``#`` heading of a markdown file, else the file's name. Passages end
    where a heading begins; short paragraphs are joined and long ones are cut between sentences.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    sections = list(_sections(text)) if path.suffix.lower() == ".md" else [("", 0, text)]
    title = next((heading for heading, level, _ in sections if level == 1), "") or path.stem
    title = " ".join(re.sub(r"[_-]+", " ", title).split() if title == path.stem else title.split())
    passages = [Passage(heading, piece) for heading, _, body in sections for piece in _pieces(body)]
    return Document(title[:_MAX_TITLE_CHARS], tuple(passages))


def _sections(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield heading, level and body; a ``#`` inside a code fence is no heading."""
    heading, level, body, fenced = "", 0, list[str](), False
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.fullmatch(line)
        if found is None:
            body.append(line)
            continue
        yield heading, level, "\n".join(body)
        heading, level, body = found[2], len(found[1]), []
    yield heading, level, "\n".join(body)


def _pieces(body: str) -> Iterator[str]:
    held = ""
    for part in _parts(body):
        if held and len(held) + len(part) + 1 > MAX_PASSAGE_CHARS:
            yield held
            held = ""
        held = f"{held}\n{part}" if held else part
    if held:
        yield held


def _parts(body: str) -> Iterator[str]:
    """Yield paragraphs, the long ones sentence by sentence, the longest sentences in slices."""
    for paragraph in _BLANK.split(body):
        clean = paragraph.strip()
        if len(clean) <= MAX_PASSAGE_CHARS:
            if clean:
                yield clean
            continue
        for sentence in _SENTENCE_END.split(clean):
            for start in range(0, len(sentence), MAX_PASSAGE_CHARS):
                yield sentence[start : start + MAX_PASSAGE_CHARS]
