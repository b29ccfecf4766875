"""
Who calls, whom, and who forwarded the call: what an INVITE says about it, read once.

From and To (RFC 3261), P-Asserted-Identity (RFC 3325 and 5876), Remote-Party-ID
(draft-ietf-sip-privacy-04, which carriers never gave up), Privacy (RFC 3323), Diversion (RFC 5806)
and History-Info (RFC 7044). What to believe is the trunk's decision: see :meth:`Identity.caller`.
P-Preferred-Identity is a wish of the caller's own and is not read (RFC 3325, section 9.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, TypeVar

from gateway.sip.message import Headers, Request
from gateway.sip.party import Party, clean, parse_party, party_of
from gateway.sip.text import split_outside, unquote
from gateway.sip.uri import NameAddr, unescape

MAX_VALUES: Final = 16
"""Values of one header that are looked at."""

_WITHHELD: Final = frozenset({"id", "user", "header"})
_CAUSE = re.compile(r"(?i)(?:^|;)\s*cause\s*=\s*\"?([0-9]{3})")
_REASONS: Final = {
    "302": "unconditional",
    "404": "unknown",
    "408": "no-answer",
    "480": "deflection",
    "486": "user-busy",
    "487": "deflection",
    "503": "unavailable",
}
"""What RFC 4458, section 4 says by a cause, in the words of RFC 5806."""

T = TypeVar("T")


class CallerSource(StrEnum):
    """Where a caller's identity can come from."""

    ASSERTED = "p-asserted-identity"
    SCREENED = "remote-party-id"
    """A Remote-Party-ID that its network has verified (``screen=yes``)."""
    UNSCREENED = "remote-party-id-unscreened"
    """Any Remote-Party-ID."""
    FROM = "from"


DEFAULT_ORDER: Final = (CallerSource.ASSERTED, CallerSource.SCREENED, CallerSource.FROM)
"""For a trunk that is trusted to assert identities; from anybody else only ``FROM`` means anything."""


@dataclass(frozen=True, slots=True)
class RemoteParty:
    """One Remote-Party-ID."""

    party: Party
    role: str = "calling"
    """``calling``, ``called`` or what else was written, in lower case."""
    screened: bool = False
    privacy: frozenset[str] = frozenset()
    """``full``, ``uri``, ``name``; ``off`` is left out."""


@dataclass(frozen=True, slots=True)
class Diversion:
    """Somebody who forwarded the call."""

    party: Party
    reason: str = "unknown"
    """A word of RFC 5806: ``unconditional``, ``user-busy``, ``no-answer``, ``deflection`` …"""
    private: bool = False
    """Whether the diverting user asks not to be named."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One target that the call was sent to."""

    party: Party
    index: str = ""
    left_for: str = ""
    """Why the call went on from here, such as ``302``: the Reason inside the URI (RFC 7044, section 5)."""
    came_for: str = ""
    """Why it was sent here: the URI's own ``cause`` (RFC 4458)."""
    private: bool = False
    """Whether the entry is not to be shown (``Privacy=history`` inside the URI)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything that an INVITE says about the parties. Broken values are left out, as if never sent."""

    called: Party
    """The Request-URI."""
    to: Party
    from_: Party
    asserted: tuple[Party, ...] = ()
    """P-Asserted-Identity in its order; a SIP and a tel URI of the same caller may both be there."""
    remote_parties: tuple[RemoteParty, ...] = ()
    privacy: frozenset[str] = frozenset()
    """Tokens of Privacy in lower case."""
    diversions: tuple[Diversion, ...] = ()
    """The most recent diverting user first, the one who was called originally last (RFC 5806, section 4)."""
    history: tuple[HistoryEntry, ...] = ()
    """In the order of the message: the original target first."""

    @property
    def withheld(self) -> bool:
        """Whether the caller asks not to be known to the called party."""
        if self.privacy & _WITHHELD:
            return True
        return any(each.role == "calling" and each.privacy & {"full", "uri"} for each in self.remote_parties)

    def caller(self, order: Iterable[CallerSource] = DEFAULT_ORDER) -> Party | None:
        """
        Return the first known caller of the sources in their order.

        ``None`` when there is none, or when the caller withholds it: a network may know and tell us more
        than we are allowed to show.
        """
        if self.withheld:
            return None
        candidates = (party for source in order for party in self._parties(source))
        return next((party for party in candidates if party.is_known), None)

    @property
    def forwarded(self) -> tuple[Diversion, ...]:
        """Who forwarded the call, the most recent first: from Diversion, else from History-Info."""
        return self.diversions or _diversions_of(self.history)

    def _parties(self, source: CallerSource) -> Iterator[Party]:
        match source:
            case CallerSource.ASSERTED:
                yield from self.asserted
            case CallerSource.SCREENED:
                yield from (each.party for each in self.remote_parties if _calls(each) and each.screened)
            case CallerSource.UNSCREENED:
                yield from (each.party for each in self.remote_parties if _calls(each))
            case CallerSource.FROM:
                yield self.from_


def identity_of(request: Request) -> Identity:
    """Read the parties of a request that :mod:`gateway.sip.parser` has accepted. Raises nothing."""
    headers = request.headers
    from_, to = request.from_, request.to
    return Identity(
        called=party_of(request.uri),
        to=party_of(to.uri, to.display),
        from_=party_of(from_.uri, from_.display),
        asserted=_read(headers, "P-Asserted-Identity", lambda text: parse_party(text)[0]),
        remote_parties=_read(headers, "Remote-Party-ID", _remote_party),
        privacy=_privacy(headers),
        diversions=_read(headers, "Diversion", _diversion),
        history=_read(headers, "History-Info", _history_entry),
    )


def _read(headers: Headers, name: str, read: Callable[[str], T]) -> tuple[T, ...]:
    """Read the values of a list header; what is broken does not spoil the others."""
    values: list[T] = []
    for line in headers.get_all(name)[:MAX_VALUES]:
        try:
            pieces = split_outside(line, ",")
        except ValueError:
            continue
        for piece in pieces:
            if not piece or len(values) == MAX_VALUES:
                continue
            try:
                values.append(read(piece))
            except ValueError:
                continue
    return tuple(values)


def _privacy(headers: Headers) -> frozenset[str]:
    lines = headers.get_all("Privacy")[:MAX_VALUES]
    words = (word.strip().lower() for line in lines for word in re.split("[;,]", line))
    return frozenset(word for word in words if word and word != "none")


def _remote_party(text: str) -> RemoteParty:
    party, address = parse_party(text)
    privacy = {
        unquote(value or "").partition("-")[0].strip().lower()
        for name, value in address.params
        if name.lower() == "privacy"
    }
    return RemoteParty(
        party,
        role=_word(address, "party") or "calling",
        screened=_word(address, "screen") == "yes",
        privacy=frozenset(privacy - {"off", ""}),
    )


def _diversion(text: str) -> Diversion:
    party, address = parse_party(text)
    private = _word(address, "privacy") not in {"", "off"}
    return Diversion(party, reason=_word(address, "reason") or "unknown", private=private)


def _history_entry(text: str) -> HistoryEntry:
    party, address = parse_party(text)
    parts = address.uri.sip
    if parts is None:
        return HistoryEntry(party, index=_word(address, "index"))
    return HistoryEntry(
        party,
        index=_word(address, "index"),
        left_for=_cause(_embedded(parts.headers, "reason")),
        came_for=clean(parts.param("cause") or ""),
        private=bool(_embedded(parts.headers, "privacy")),
    )


def _embedded(headers: str, wanted: str) -> str:
    """Return a header that a URI carries behind its ``?`` (RFC 3261, section 19.1.1)."""
    for piece in headers.split("&"):
        name, _, value = piece.partition("=")
        if name.strip().lower() == wanted:
            return unescape(value)
    return ""


def _cause(reason: str) -> str:
    found = _CAUSE.search(reason)
    return "" if found is None else found[1]


def _diversions_of(history: tuple[HistoryEntry, ...]) -> tuple[Diversion, ...]:
    """Whoever has a cause beside it was left by a diversion; the rest is plain routing."""
    found = [
        Diversion(entry.party, reason=_REASONS.get(cause, "unknown"), private=entry.private)
        for entry, later in pairwise(history)
        if (cause := entry.left_for or later.came_for)
    ]
    return tuple(reversed(found))


def _word(address: NameAddr, name: str) -> str:
    return clean(unquote(address.param(name) or "")).lower()


def _calls(remote: RemoteParty) -> bool:
    return remote.role == "calling"
