"""
Faults of the OpenAI server, as switches: what goes wrong, when, and with which response.

A fault is written ``name[:value][@seconds][#response]``, several joined by commas::

    close:1011@2.5          close with that code 2.5 s after the session began
    failed#1:rate_limit_exceeded    the first response fails
    status:429,late_handshake:0.5   the upgrade waits half a second and is refused

``@`` counts seconds from ``session.created``; ``#`` counts responses from 1, and without it every response
is meant. The order of the three suffixes does not matter. ``FAULTS`` lists all names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

FAULTS: dict[str, str] = {
    "status": "answer the handshake with this HTTP status (401, 403, 404, 429, 500, 503)",
    "late_handshake": "wait so many seconds before the upgrade",
    "refuse_update": "refuse the first session.update with this error code (invalid_value)",
    "close": "close at @ with this code; 1006 cuts the connection",
    "stall": "say nothing from @ on, without closing",
    "expire": "at @ the session reaches its maximum duration: session_expired and close 1001",
    "error": "an error event at @ with this code (server_error)",
    "unknown_event": "an event of an unknown type at @",
    "garbage": "a text frame at @ that is not JSON",
    "failed": "the response fails with this code (server_error)",
    "incomplete": "the response stops half way for this reason (max_output_tokens)",
    "no_audio": "the response completes without any output",
    "cut_arguments": "the response stops in the middle of a tool call's arguments",
    "slow_arguments": "the arguments of each tool call take so many seconds",
    "huge_delta": "the utterance comes as one delta of at least 1 MiB, padded with silence",
    "late_deltas": "so many deltas still come between speech_started and the end of a response",
    "stray_deltas": "so many deltas still come after response.done of a cancelled response",
    "transcript": "caller transcripts are failed, empty, late (after the next response) or unordered",
    "rate_limits": "rate_limits.updated comes before, after (the default) or none",
    "no_pong": "pings of the client are not answered",
    "slow_reader": "wait so many seconds (0.5) after each message that was read",
}
_AT = frozenset({"close", "stall", "expire", "error", "unknown_event", "garbage"})
_RESPONSE = frozenset({
    "failed", "incomplete", "no_audio", "cut_arguments", "slow_arguments", "huge_delta",
    "late_deltas", "stray_deltas",
})  # fmt: skip
_NUMBERS = {
    "status": (400, 599),
    "close": (1000, 4999),
    "late_handshake": (0, 3600),
    "slow_arguments": (0, 3600),
    "slow_reader": (0, 3600),
    "late_deltas": (1, 1000),
    "stray_deltas": (1, 1000),
}
_WORDS = {
    "incomplete": ("max_output_tokens", "content_filter"),
    "transcript": ("failed", "empty", "late", "unordered"),
    "rate_limits": ("before", "after", "none"),
}
DEFAULTS = {
    "status": "503",
    "late_handshake": "1",
    "refuse_update": "invalid_value",
    "close": "1011",
    "error": "server_error",
    "failed": "server_error",
    "incomplete": "max_output_tokens",
    "slow_arguments": "2",
    "late_deltas": "3",
    "stray_deltas": "2",
    "transcript": "failed",
    "rate_limits": "after",
    "slow_reader": "0.5",
}
_SYNTAX = re.compile(r"(?P<name>\w+)(?P<suffixes>(?:[:@#][^:@#]+)*)")


class FaultError(ValueError):
    """A fault that cannot be understood; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One switch; see ``FAULTS`` for the names."""

    name: str
    value: str = ""
    at: float | None = None
    response: int | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def setting(self) -> str:
        """The value, or the name's default."""
        return self.value or DEFAULTS.get(self.name, "")

    @property
    def number(self) -> float:
        return float(self.setting)


class Faults:
    """The faults of one connection, asked by name."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.all = tuple(faults)

    def get(self, name: str, *, response: int | None = None) -> Fault | None:
        """Return the first fault of that name, for the response with that number where one is given."""
        for fault in self.all:
            if fault.name == name and (fault.response is None or fault.response == response):
                return fault
        return None

    def timed(self) -> list[Fault]:
        """Return the faults that happen at a time."""
        return [fault for fault in self.all if fault.name in _AT]

    def __add__(self, other: Faults) -> Faults:
        return Faults((*other.all, *self.all))


def parse_faults(text: str) -> Faults:
    """Read ``name[:value][@seconds][#response]``, joined by commas; raise :exc:`FaultError`."""
    return Faults(_parse(part.strip()) for part in text.split(",") if part.strip())


def _parse(text: str) -> Fault:
    found = _SYNTAX.fullmatch(text)
    if found is None:
        raise FaultError(
            f"{text!r} is no fault; write name[:value][@seconds][#response], such as close:1011@2.5"
        )
    suffixes = dict(re.findall(r"([:@#])([^:@#]+)", found["suffixes"]))
    try:
        return Fault(
            found["name"],
            value=suffixes.get(":", ""),
            at=float(suffixes["@"]) if "@" in suffixes else None,
            response=int(suffixes["#"]) if "#" in suffixes else None,
        )
    except FaultError:
        raise
    except ValueError as error:
        raise FaultError(f"{text!r}: {error}; write a number after @ and #") from error


def _check(fault: Fault) -> None:
    name = fault.name
    if name not in FAULTS:
        near = difflib.get_close_matches(name, FAULTS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"write one of {', '.join(FAULTS)}"
        raise FaultError(f"there is no fault {name!r}; {hint}")
    if fault.at is not None and name not in _AT:
        raise FaultError(f"{name} does not happen at a time; leave out @{fault.at:g}")
    if fault.response is not None and name not in _RESPONSE:
        raise FaultError(f"{name} does not belong to a response; leave out #{fault.response}")
    if fault.value and name not in DEFAULTS:
        raise FaultError(f"{name} takes no value; leave out :{fault.value}")
    if name in _NUMBERS:
        _check_number(fault, *_NUMBERS[name])
    if name in _WORDS and fault.setting not in _WORDS[name]:
        raise FaultError(f"{name} does not know {fault.value!r}; write one of {', '.join(_WORDS[name])}")


def _check_number(fault: Fault, low: float, high: float) -> None:
    try:
        fits = low <= fault.number <= high
    except ValueError:
        fits = False
    if not fits:
        raise FaultError(f"{fault.name} needs a number from {low} to {high}, not {fault.value!r}")
