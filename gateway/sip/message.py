"""
Requests, responses and their headers (RFC 3261, section 7).

Messages are built by :mod:`gateway.sip.parser` or by us; either way the structured accessors
(:attr:`_Message.via`, ``cseq``, ``to`` …) parse on demand and raise ``ValueError`` where the
text is not what its header asks for. The parser has checked the mandatory ones before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from gateway.sip.errors import UnsafeText
from gateway.sip.fields import COMPACT_FORMS, CSeq, Via
from gateway.sip.text import is_token, require_safe, split_outside
from gateway.sip.uri import NameAddr, Uri

REASONS = {
    100: "Trying",
    180: "Ringing",
    181: "Call Is Being Forwarded",
    182: "Queued",
    183: "Session Progress",
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    410: "Gone",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    416: "Unsupported URI Scheme",
    420: "Bad Extension",
    422: "Session Interval Too Small",
    469: "Bad Info Package",
    480: "Temporarily Unavailable",
    481: "Call/Transaction Does Not Exist",
    482: "Loop Detected",
    484: "Address Incomplete",
    486: "Busy Here",
    487: "Request Terminated",
    488: "Not Acceptable Here",
    489: "Bad Event",
    491: "Request Pending",
    500: "Server Internal Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Server Time-out",
    505: "Version Not Supported",
    513: "Message Too Large",
    600: "Busy Everywhere",
    603: "Decline",
    606: "Not Acceptable",
}
"""Reason phrases of the statuses that we may send (RFC 3261, section 21 and its extensions)."""
_LONGEST_KNOWN = 64


def canonical(name: str) -> str:
    """Return the long form of a header name; any other name as it is."""
    return COMPACT_FORMS.get(name.lower(), name) if len(name) == 1 else name


def is_header_name(name: str) -> bool:
    """Whether a header may be called so."""
    return _is_known_name(name) if len(name) <= _LONGEST_KNOWN else is_token(name)


@lru_cache(maxsize=1024)
def _is_known_name(name: str) -> bool:
    """Remember names, which are the same few in every message; nothing that fills the memory."""
    return is_token(name)


class Headers:
    """
    Header fields in the order of the message, names compared without case and in long form.

    Everything that is added is checked: a value with CR or LF raises :exc:`UnsafeText`.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields: list[tuple[str, str, str]] = []
        for name, value in fields:
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        """Append a field line."""
        self._fields.append(_field(name, value))

    def replace_first(self, name: str, value: str) -> None:
        """Exchange the first such field line and keep the others; raise ``KeyError`` if there is none."""
        new = _field(name, value)
        for at, old in enumerate(self._fields):
            if old[0] == new[0]:
                self._fields[at] = new
                return
        raise KeyError(name)

    def get(self, name: str) -> str | None:
        """Return the first field line of that name."""
        key = canonical(name).lower()
        for line in self._fields:
            if line[0] == key:
                return line[2]
        return None

    def get_all(self, name: str) -> list[str]:
        """Return all field lines of that name, not split at commas."""
        key = canonical(name).lower()
        return [line[2] for line in self._fields if line[0] == key]

    def elements(self, name: str) -> list[str]:
        """
        Return the elements of a list header over all its lines, without empty ones.

        Raises ``ValueError`` when quotes or brackets are unbalanced.
        """
        return [piece for line in self.get_all(name) for piece in split_outside(line, ",") if piece]

    def tokens(self, name: str) -> list[str]:
        """Return the elements of a list header in lower case without parameters; lenient, never raises."""
        pieces = (piece.partition(";")[0].strip() for line in self.get_all(name) for piece in line.split(","))
        return [piece.lower() for piece in pieces if piece]

    def copy(self) -> Headers:
        other = Headers()
        other._fields = list(self._fields)
        return other

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((name, value) for _, name, value in self._fields)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]  # mutable, and mypy knows no unhashable class

    def __repr__(self) -> str:
        return f"Headers({list(self)!r})"


def _field(name: str, value: str) -> tuple[str, str, str]:
    if not is_header_name(name):
        raise UnsafeText(f"not a header name: {name[:40]!r}")
    name = canonical(name)
    return name.lower(), name, require_safe(value)


@dataclass(slots=True)
class _Message:
    """What requests and responses have in common."""

    headers: Headers = field(default_factory=Headers)
    body: bytes = b""

    @property
    def via(self) -> Via:
        """The topmost Via."""
        # Of the first line alone: what is below is not ours, and may be broken.
        line = self.headers.get("Via")
        if line is None:
            raise ValueError("no Via")
        return Via.parse(split_outside(line, ",")[0])

    @property
    def cseq(self) -> CSeq:
        return CSeq.parse(self.headers.get("CSeq") or "")

    @property
    def call_id(self) -> str:
        return self.headers.get("Call-ID") or ""

    @property
    def from_(self) -> NameAddr:
        return NameAddr.parse(self.headers.get("From") or "")

    @property
    def to(self) -> NameAddr:
        return NameAddr.parse(self.headers.get("To") or "")

    @property
    def contact(self) -> NameAddr | None:
        """The first Contact; raises ``ValueError`` if it is malformed."""
        elements = self.headers.elements("Contact")
        return NameAddr.parse(elements[0]) if elements else None

    def _to_bytes(self, start: str) -> bytes:
        lines = [start]
        lines += [f"{name}: {value}" for name, value in self.headers if name.lower() != "content-length"]
        lines.append(f"Content-Length: {len(self.body)}\r\n\r\n")
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + self.body


@dataclass(slots=True)
class Request(_Message):
    """A request; ``uri`` is the Request-URI as written, of any scheme."""

    method: str = ""
    uri: Uri = Uri()  # noqa: RUF009 (immutable)

    def to_bytes(self) -> bytes:
        """Write the message; Content-Length is always that of the body."""
        if not is_token(self.method) or " " in self.uri:
            raise UnsafeText(f"not a request line: {self.method[:40]!r} {self.uri[:80]!r}")
        return self._to_bytes(require_safe(f"{self.method} {self.uri} SIP/2.0"))


@dataclass(slots=True)
class Response(_Message):
    """A response."""

    status: int = 0
    reason: str = ""

    @property
    def is_provisional(self) -> bool:
        return self.status < 200

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def to_bytes(self) -> bytes:
        """Write the message; Content-Length is always that of the body."""
        return self._to_bytes(require_safe(f"SIP/2.0 {self.status:03d} {self.reason}"))
