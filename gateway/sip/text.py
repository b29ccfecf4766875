"""
Lexical pieces that every SIP header shares (RFC 3261, section 25.1).

All functions work on text decoded as UTF-8 with ``surrogateescape``, so that bytes of no
known encoding survive a round trip.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from gateway.sip.errors import UnsafeText

Params: TypeAlias = tuple[tuple[str, str | None], ...]
"""Parameters in the order of the message; ``None`` where there is no ``=``."""

_TOKEN = re.compile(r"[A-Za-z0-9\-.!%*_+`'~]+")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def quote(text: str) -> str:
    """Write a quoted-string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def unquote(text: str) -> str:
    """Return the content of a quoted-string; other text as it is."""
    if len(text) >= 2 and text[0] == '"' and text[-1] == '"':
        return _ESCAPED.sub(r"\1", text[1:-1])
    return text


def quoted_end(text: str, start: int) -> int:
    """Return the index behind the quoted-string at ``start``; raise ``ValueError`` if it never ends."""
    match = _QUOTED.match(text, start)
    if match is None:
        raise ValueError("a quoted string is never closed")
    return match.end()


def split_outside(text: str, separator: str) -> list[str]:
    """
    Split at a one-character separator that stands neither in quotes nor in ``<>``.

    Pieces are stripped; empty ones are kept for the caller to judge. Unbalanced quotes or
    brackets raise ``ValueError``.
    """
    if '"' not in text and "<" not in text:
        return [piece.strip() for piece in text.split(separator)]
    pieces: list[str] = []
    begin = at = 0
    while at < len(text):
        char = text[at]
        if char == '"':
            at = quoted_end(text, at)
            continue
        if char == "<":
            at = text.find(">", at)
            if at < 0:
                raise ValueError("a '<' is never closed")
        elif char == separator:
            pieces.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    pieces.append(text[begin:].strip())
    return pieces


def parse_params(text: str, *, strict: bool = False) -> Params:
    """
    Read ``;name=value;name`` (``text`` begins behind the first ``;``).

    Empty parameters, as in ``;;``, are skipped unless ``strict``. Values stay as written,
    with their quotes.
    """
    params: list[tuple[str, str | None]] = []
    for piece in split_outside(text, ";"):
        name, equals, value = piece.partition("=")
        name = name.strip()
        if not name:
            if strict or equals:
                raise ValueError("a parameter has no name")
            continue
        params.append((name, value.strip() if equals else None))
    return tuple(params)


def param(params: Params, name: str) -> str | None:
    """Return a parameter's value, ``""`` for one without ``=``, ``None`` when it is missing."""
    for key, value in params:
        if key.lower() == name:
            return "" if value is None else value
    return None


def write_params(params: Params) -> str:
    return "".join(f";{name}" if value is None else f";{name}={value}" for name, value in params)


def require_safe(text: str) -> str:
    """Return ``text``, or raise :exc:`UnsafeText` if writing it could start a new line (injection guard)."""
    if "\r" in text or "\n" in text:
        raise UnsafeText(f"line break in {text[:80]!r}")
    if not text.isascii():
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise UnsafeText(f"cannot encode {text[:80]!r}") from error
    return text
