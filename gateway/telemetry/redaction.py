"""
What never reaches a log: keys, tokens, passwords, and callers' numbers in full.

:class:`Redactor` is a structlog processor and the last one before rendering, so it sees tracebacks too.

- A value under a key that names a secret (``..._key``, ``token``, ``password``, ``secret``, ``auth``,
  ``authorization``, ``cookie`` ...) becomes ``[redacted]``, at any depth.
- In every text, what looks like a secret is cut out: bearer tokens, keys of known forms, user and
  password of a URL, secrets in JSON and in query strings.
- Under a key that holds a caller's number (``caller``, ``client``, ``from``) only the last four digits
  stay. Dialled numbers are our own and stay: without them a wrong route cannot be found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping

from pydantic import SecretStr

REDACTED = "[redacted]"
_DEPTH = 8
"""Deeper structures are not logged at all: nobody logs them on purpose."""

_SECRET_KEY = re.compile(
    r"(^|[_.-])(key|token|password|passwd|secret|auth|authorization|cookie|credentials?|signature)$|apikey$",
    re.IGNORECASE,
)
_PUBLIC_KEYS = frozenset({"message_key", "public_key"})
_CALLER_KEYS = frozenset({"caller", "client", "from", "caller_number", "from_number"})

_IN_TEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(Bearer|Basic|Digest)\s+[A-Za-z0-9+/=_.~-]{6,}", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"\b(sk|rk|pk|ek)[-_][A-Za-z0-9_-]{8,}"), REDACTED),
    (re.compile(r"\b(inline:|ice-pwd:)[A-Za-z0-9+/=]{16,}", re.IGNORECASE), rf"\1{REDACTED}"),  # keys of SRTP
    (re.compile(r"\bAIza[A-Za-z0-9_-]{20,}"), REDACTED),
    (re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"), REDACTED),
    (
        re.compile(
            r"""(["'][\w.-]*(?:token|password|secret|auth|authorization|cookie|api_?key)["']\s*:\s*)"""
            r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""",
            re.IGNORECASE,
        ),
        rf'\1"{REDACTED}"',
    ),
    (
        re.compile(r"\b((?:access_|api_?)?(?:token|key|secret|password)=)[^&\s\"']+", re.IGNORECASE),
        rf"\1{REDACTED}",
    ),
)
_DIGITS = re.compile(r"\d")


class Redactor:
    """
    The processor.

    Args:
        show_callers: Leave callers' numbers as they are.
    """

    def __init__(self, *, show_callers: bool = False) -> None:
        self._show_callers = show_callers

    def __call__(
        self, _logger: object, _method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        return {key: self._clean(key, value, _DEPTH) for key, value in event.items()}

    def _clean(self, key: str, value: object, depth: int) -> object:
        if isinstance(value, SecretStr):
            return REDACTED
        if isinstance(value, str | bytes | Mapping | list | tuple) and _is_secret(key):
            return REDACTED if value else value
        match value:
            case str():
                return self._text(key, value)
            case bytes():
                return f"<{len(value)} bytes>"
            case Mapping() if depth:
                return {str(k): self._clean(str(k), v, depth - 1) for k, v in value.items()}
            case list() | tuple() if depth:
                return [self._clean(key, item, depth - 1) for item in value]
            case None | bool() | int() | float():
                return value
            case _ if depth:
                return self._text(key, str(value))
            case _:
                return REDACTED

    def _text(self, key: str, text: str) -> str:
        for pattern, replacement in _IN_TEXT:
            text = pattern.sub(replacement, text)
        if key in _CALLER_KEYS and not self._show_callers:
            return mask_number(text)
        return text


def _is_secret(key: str) -> bool:
    return key not in _PUBLIC_KEYS and _SECRET_KEY.search(key) is not None


def mask_number(text: str) -> str:
    """Replace all digits but the last four: ``+12125551234`` is ``+*******1234``."""
    digits = len(_DIGITS.findall(text))
    return _DIGITS.sub("*", text, count=digits - 4) if digits > 4 else text
