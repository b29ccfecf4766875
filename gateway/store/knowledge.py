"""
Knowledge bases as folders of text files, searched by SQLite's full-text index.

Every ``.md`` and ``.txt`` file below a base's folder is a document. The folders are looked at
before each answer, so a file that was added, changed or removed counts from the next question on;
only changed files are read again. The index lives in memory, since it is rebuilt in a moment.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from gateway.store.documents import read_document
from gateway.store.relevance import THRESHOLD, content_words, rarity, relevance, words
from tools.ports import PortError
from tools.types import KnowledgeBaseInfo, KnowledgePassage

MAX_FILE_BYTES: Final = 4_194_304
MAX_FILES: Final = 2_000
"""Of one base; a folder with more was surely meant to be another one."""
_SUFFIXES: Final = frozenset({".md", ".txt"})
_CANDIDATES: Final = 50
_MAX_QUERY_WORDS: Final = 32

_SCHEMA: Final = """
CREATE TABLE document (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, title TEXT NOT NULL, stamp TEXT NOT NULL);
CREATE TABLE passage (
    id INTEGER PRIMARY KEY, document INTEGER NOT NULL, text TEXT NOT NULL, words TEXT NOT NULL);
CREATE INDEX passage_document ON passage (document);
CREATE VIRTUAL TABLE by_word USING fts5(words, tokenize='unicode61 remove_diacritics 0', prefix='3');
CREATE VIRTUAL TABLE by_trigram USING fts5(words, tokenize='trigram');
"""


class FolderKnowledge:
    """
    A :class:`tools.ports.KnowledgeStore` over folders.

    Args:
        bases: The folder of each knowledge base.

    Files are read and searched on a worker thread; several calls may ask at once.
    """

    def __init__(self, bases: Mapping[str, Path]) -> None:
        self._indexes = {name: _Index(name, folder) for name, folder in bases.items()}

    async def describe(self, knowledge_base_ids: Sequence[str]) -> Sequence[KnowledgeBaseInfo]:
        """List the documents of each base as the folder is now."""
        indexes = [self._index(name) for name in knowledge_base_ids]
        return await asyncio.to_thread(lambda: [index.describe() for index in indexes])

    async def search(
        self, knowledge_base_ids: Sequence[str], query: str, *, limit: int
    ) -> Sequence[KnowledgePassage]:
        """Return the passages that hold the query's subject, best first, of all bases together."""
        indexes = [self._index(name) for name in dict.fromkeys(knowledge_base_ids)]
        return await asyncio.to_thread(_search_all, indexes, query, limit)

    def _index(self, name: str) -> _Index:
        index = self._indexes.get(name)
        if index is None:
            raise PortError(f"knowledge base {name!r} is not configured")
        return index


def _search_all(indexes: Sequence[_Index], query: str, limit: int) -> list[KnowledgePassage]:
    asked = content_words(query)[:_MAX_QUERY_WORDS]
    hits = [hit for index in indexes for hit in index.search(asked)] if asked else []
    hits.sort(key=lambda hit: hit.score, reverse=True)
    return hits[:limit]


class _Index:
    """One folder and what is known of it; the lock makes one thread at a time look."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.executescript(_SCHEMA)

    def describe(self) -> KnowledgeBaseInfo:
        with self._lock:
            self._refresh()
            rows = self._database.execute("SELECT title FROM document ORDER BY path").fetchall()
        return KnowledgeBaseInfo(self._name, tuple(str(title) for (title,) in rows))

    def search(self, asked: Sequence[str]) -> list[KnowledgePassage]:
        """Return all passages above the threshold, the best first."""
        with self._lock:
            self._refresh()
            (total,) = self._database.execute("SELECT count(*) FROM passage").fetchone()
            weights = {word: rarity(total, self._holding(word)) for word in asked}
            rows = self._candidates(asked)
        hits = []
        for title, text, held in rows:
            score = relevance(asked, frozenset(held.split()), weights.__getitem__)
            if score >= THRESHOLD:
                hits.append(KnowledgePassage(title, text, round(score, 4)))
        hits.sort(key=lambda hit: hit.score, reverse=True)
        return hits

    def _candidates(self, asked: Sequence[str]) -> list[tuple[str, str, str]]:
        """Take the best of both indexes: whole beginnings of words, and pieces of three letters."""
        found: dict[int, None] = {}
        pieces = {word[i : i + 3] for word in asked for i in range(len(word) - 2)}
        searches = [("by_word", [_beginning(word) for word in asked])]
        if pieces:
            searches.append(("by_trigram", [f'"{piece}"' for piece in sorted(pieces)]))
        for table, terms in searches:
            rows = self._database.execute(
                f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?",  # noqa: S608 - ours
                (" OR ".join(terms), _CANDIDATES),
            )
            found.update(dict.fromkeys(rowid for (rowid,) in rows))
        return [self._passage(rowid) for rowid in found]

    def _passage(self, rowid: int) -> tuple[str, str, str]:
        row: tuple[str, str, str] = self._database.execute(
            "SELECT title, text, words FROM passage JOIN document ON document.id = document"
            " WHERE passage.id = ?",
            (rowid,),
        ).fetchone()
        return row

    def _holding(self, word: str) -> int:
        (count,) = self._database.execute(
            "SELECT count(*) FROM by_word WHERE by_word MATCH ?", (_beginning(word),)
        ).fetchone()
        return int(count)

    def _refresh(self) -> None:
        """Make the index say what the folder says."""
        try:
            present = self._scan()
            known = dict(self._database.execute("SELECT path, stamp FROM document"))
            changed = [path for path, stamp in present.items() if known.get(path) != stamp]
            read = {path: (self._folder / path).read_bytes() for path in changed}
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PortError(f"knowledge base {self._name}: {error.filename}: {reason}") from error
        if not read and known.keys() <= present.keys():
            return
        self._database.execute("BEGIN")
        with self._database:
            for path in known.keys() - present.keys():
                self._remove(path)
            for path, content in read.items():
                self._remove(path)
                self._add(path, present[path], content)

    def _scan(self) -> dict[str, str]:
        if not self._folder.is_dir():
            raise PortError(f"knowledge base {self._name}: {self._folder} is not a folder")
        present: dict[str, str] = {}
        for path in self._files():
            about = path.stat()
            if about.st_size > MAX_FILE_BYTES:
                raise PortError(f"knowledge base {self._name}: {path} is larger than {MAX_FILE_BYTES} bytes")
            present[str(path.relative_to(self._folder))] = (
                f"{about.st_mtime_ns} {about.st_size} {about.st_ino}"
            )
        if len(present) > MAX_FILES:
            raise PortError(
                f"knowledge base {self._name}: {self._folder} holds more than {MAX_FILES} documents"
            )
        return present

    def _files(self) -> list[Path]:
        """List what may be a document; a folder that cannot be opened is an error, not a gap."""
        found: list[Path] = []
        for folder, below, names in os.walk(self._folder, onerror=_fail):
            below[:] = [name for name in below if not name.startswith(".")]
            paths = [Path(folder, name) for name in names if not name.startswith(".")]
            found += [path for path in paths if path.suffix.lower() in _SUFFIXES]
        return sorted(found)

    def _remove(self, path: str) -> None:
        row = self._database.execute("SELECT id FROM document WHERE path = ?", (path,)).fetchone()
        if row is None:
            return
        for table in ("by_word", "by_trigram"):
            self._database.execute(
                f"DELETE FROM {table} WHERE rowid IN (SELECT id FROM passage WHERE document = ?)",  # noqa: S608
                row,
            )
        self._database.execute("DELETE FROM passage WHERE document = ?", row)
        self._database.execute("DELETE FROM document WHERE id = ?", row)

    def _add(self, path: str, stamp: str, content: bytes) -> None:
        document = read_document(PurePath(path), content.decode("utf-8-sig", errors="replace"))
        added = self._database.execute(
            "INSERT INTO document (path, title, stamp) VALUES (?, ?, ?)", (path, document.title, stamp)
        )
        for passage in document.passages:
            held = " ".join(words(f"{document.title} {passage.heading} {passage.text}"))
            above = "" if passage.heading in {"", document.title} else f"{passage.heading}\n"
            row = self._database.execute(
                "INSERT INTO passage (document, text, words) VALUES (?, ?, ?)",
                (added.lastrowid, above + passage.text, held),
            )
            for table in ("by_word", "by_trigram"):
                self._database.execute(
                    f"INSERT INTO {table} (rowid, words) VALUES (?, ?)",  # noqa: S608 - our own two names
                    (row.lastrowid, held),
                )


def _fail(error: OSError) -> None:
    raise error


def _beginning(word: str) -> str:
    """A search term for words that begin like this one, its last letters (an ending) left out."""
    if word.isdigit() or len(word) <= 3:
        return f'"{word}"'
    return f'"{word[: max(3, len(word) - 3)]}"*'
