"""
Faults of the servers, as switches: what goes wrong, when, and with which response.

A fault is written ``name[:value][@seconds][#response]``, several joined by commas::

    close:1011@2.5          close with that code 2.5 s after the session began
    failed#1:rate_limit_exceeded    the first response fails
    status:429,late_handshake:0.5   the upgrade waits half a second and is refused

``@`` counts seconds from the first event of the session; ``#`` counts responses (turns of the model) from 1,
and without it every response is meant. The order of the three suffixes does not matter. ``FAULTS`` lists all
names, ``SERVED`` which server has which: a fault that a server does not have is refused, not ignored.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Service(StrEnum):
    """Whose protocol a server speaks."""

    OPENAI = "openai"
    GEMINI = "gemini"
    LIVE = "live"


FAULTS: dict[str, str] = {
    "status": "answer the handshake with this HTTP status (401, 403, 404, 429, 500, 503)",
    "late_handshake": "wait so many seconds before the upgrade",
    "refuse_update": "refuse the first session.update or session.start with this error code (invalid_value)",
    "close": "close at @ with this code; 1006 cuts the connection",
    "stall": "say nothing from @ on, without closing",
    "expire": "at @ the session reaches its maximum duration without a warning before it",
    "error": "an error event at @ with this code (server_error)",
    "unknown_event": "an event of an unknown type at @",
    "garbage": "a frame at @ that is not JSON",
    "failed": "the response fails with this code (server_error)",
    "incomplete": "the response stops half way for this reason (max_output_tokens)",
    "no_audio": "the response completes without any output",
    "cut_arguments": "the response stops in the middle of a tool call's arguments",
    "slow_arguments": "the arguments of each tool call take so many seconds",
    "huge_delta": "the utterance comes as one delta of at least 1 MiB, padded with silence",
    "late_deltas": "so many deltas still come between the barge-in and the end of a response",
    "stray_deltas": "so many deltas still come after the end of an interrupted response",
    "transcript": "caller transcripts are failed, empty, late (after the next response) or unordered",
    "rate_limits": "rate_limits.updated comes before, after (the default) or none",
    "no_pong": "pings of the client are not answered",
    "slow_reader": "wait so many seconds (0.5) after each message that was read",
    "keeps_talking": "the model talks on while the caller speaks",
    "early_calls": "the tools are called while the speech before them is still going on",
    "late_pong": "pings are answered only after so many seconds (8)",
    "ignored": "nothing comes of the request for this response, or of the caller's turn",
    "hang": "the response stops in the middle of its speech, and its end never comes",
    "rejected": "the turn ends unheard for this reason (RESPONSE_REJECTED)",
    "silent_audio": "the turn's audio has this amplitude (0) instead of speech",
    "die": "the connection ends with this code (1006) in the middle of the turn's speech",
    "thoughts": "a text part with thought: true stands before the turn's audio",
    "phantom_interrupted": "at @ the model stops as if the caller had spoken, though nobody did",
    "no_interrupted": "a barge-in stops the model, but no interrupted says so",
    "freeze": "the model never answers again after an interruption",
    "ignored_text": "the first so many (1) realtime texts get no answer",
    "no_cancellation": "a barge-in cancels no call: the model is mute until it is answered",
    "wedge": "a call that waits so many seconds (10) makes the model mute until it is answered",
    "no_activity": "no voiceActivity tells when somebody speaks",
    "tool_audio": "audio while a call that blocks is open closes with 1008",
    "go_away": "goAway at @ with so many seconds left (10), then close 1011",
    "deadline": "the close comes so many seconds (0) after goAway, whatever goAway said",
    "hush": "nothing more is sent after goAway",
    "refuse_resume": "a session that resumes is closed with this code (1008)",
    "no_handles": "no state can be resumed: no update has a handle",
}
_EVERYWHERE = frozenset({
    "status", "late_handshake", "close", "stall", "expire", "error", "unknown_event", "garbage", "no_audio",
    "slow_arguments", "no_pong", "slow_reader",
})  # fmt: skip
_COMMON = _EVERYWHERE | {"huge_delta", "late_deltas", "stray_deltas", "transcript"}
SERVED: Mapping[Service, frozenset[str]] = {
    Service.OPENAI: _COMMON | {
        "refuse_update", "failed", "incomplete", "cut_arguments", "rate_limits", "silent_audio", "freeze",
        "phantom_interrupted", "ignored", "hang",
    },
    Service.GEMINI: _COMMON | {
        "late_pong", "rejected", "silent_audio", "die", "thoughts", "phantom_interrupted",
        "no_interrupted", "freeze", "ignored_text", "no_cancellation", "wedge", "no_activity",
        "tool_audio", "go_away", "deadline", "hush", "refuse_resume", "no_handles",
    },
    Service.LIVE: _EVERYWHERE | {
        "refuse_update", "failed", "cut_arguments", "silent_audio", "die", "keeps_talking", "early_calls",
    },
}  # fmt: skip
HANDSHAKE = frozenset({"status", "late_handshake", "no_pong", "late_pong", "slow_reader"})
"""Those of the connection, which a session that begins on it cannot bring any more."""
_AT = frozenset({
    "close", "stall", "expire", "error", "unknown_event", "garbage", "phantom_interrupted", "go_away",
})  # fmt: skip
_RESPONSE = frozenset({
    "failed", "incomplete", "no_audio", "cut_arguments", "slow_arguments", "huge_delta",
    "late_deltas", "stray_deltas", "rejected", "silent_audio", "die", "thoughts", "ignored", "hang",
    "keeps_talking", "early_calls",
})  # fmt: skip
_NUMBERS = {
    "status": (400, 599),
    "close": (1000, 4999),
    "late_handshake": (0, 3600),
    "slow_arguments": (0, 3600),
    "slow_reader": (0, 3600),
    "late_deltas": (1, 1000),
    "stray_deltas": (1, 1000),
    "late_pong": (0, 3600),
    "silent_audio": (0, 1000),
    "die": (1000, 4999),
    "ignored_text": (1, 1000),
    "wedge": (0, 3600),
    "go_away": (0, 3600),
    "deadline": (0, 3600),
    "refuse_resume": (1000, 4999),
}
_WORDS = {
    "incomplete": ("max_output_tokens", "content_filter"),
    "transcript": ("failed", "empty", "late", "unordered"),
    "rate_limits": ("before", "after", "none"),
    "rejected": (
        "RESPONSE_REJECTED", "PROHIBITED_INPUT_CONTENT", "GENERATED_AUDIO_SAFETY", "GENERATED_OTHER",
        "MALFORMED_FUNCTION_CALL", "NEED_MORE_INPUT",
    ),
}  # fmt: skip
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
    "late_pong": "8",
    "rejected": "RESPONSE_REJECTED",
    "silent_audio": "0",
    "die": "1006",
    "ignored_text": "1",
    "wedge": "10",
    "go_away": "10",
    "deadline": "0",
    "refuse_resume": "1008",
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


def parse_faults(text: str, service: Service | None = None) -> Faults:
    """
    Read ``name[:value][@seconds][#response]``, joined by commas; raise :exc:`FaultError`.

    With a ``service``, also for a fault that its server does not have.
    """
    faults = Faults(_parse(part.strip()) for part in text.split(",") if part.strip())
    if service is not None:
        for fault in faults.all:
            _check_served(fault.name, service)
    return faults


def _check_served(name: str, service: Service) -> None:
    if name not in SERVED[service]:
        near = difflib.get_close_matches(name, SERVED[service], n=1)
        hint = f"did you mean {near[0]}?" if near else f"write one of {', '.join(sorted(SERVED[service]))}"
        raise FaultError(f"the {service} server has no fault {name}; {hint}")


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
