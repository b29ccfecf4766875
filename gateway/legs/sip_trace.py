"""
Which SIP message belongs to which call, without its secrets (no I/O).

The endpoint shows every message that it takes and sends. A message of a call that is known goes out at once;
the few before it (the INVITE that begins it, the 401 before that) wait until :meth:`SipTrace.bind` says whose
they are, or are forgotten.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.sdp import redact_sdp
from gateway.sip.flow import Address, Flow
from gateway.sip.uri import join_host_port

MAX_MESSAGES: Final = 1000
MAX_BYTES: Final = 1_000_000
"""Of one call; what comes after is not kept."""
MAX_MESSAGE: Final = 16_384
"""Bytes of one message that are kept."""
LINGER_S: Final = 64.0
"""How long the end of a call may have its last words: 64 times T1, twice."""

_WAITING_CALLS = 64
_WAITING_MESSAGES = 8
_HIDDEN = "[redacted]"
_CALL_ID = re.compile(rb"^(?:call-id|i)[ \t]*:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_SECRETS: Final = (
    # Who has these can try passwords at home (RFC 7616, section 5.10).
    re.compile(r"(^(?:proxy-)?authorization[ \t]*:.*?\bresponse[ \t]*=[ \t]*\"?)([^\",;\s]+)", re.I | re.M),
    re.compile(r"(^(?:proxy-)?authorization[ \t]*:[ \t]*(?:basic|bearer)[ \t]+)(\S+)", re.I | re.M),
)
_HINTS: Final = ("authorization", "inline:", "key-mgmt", "\nk=")
"""Most messages have nothing of it, and are done with at once."""
_FOLD = re.compile(r"\r?\n[ \t]+")


@dataclass(frozen=True, slots=True)
class Traced:
    """One message as it was on the wire, but for its secrets."""

    sent: bool
    transport: str
    local: str
    remote: str
    text: str


@dataclass(slots=True)
class _Clock:
    """When a call began, for all of its dialogs that are known."""

    began: float
    dialogs: int = 0


@dataclass(slots=True)
class _Known:
    """What is kept of a Call-ID."""

    sip_call_id: str
    call_id: str
    clock: _Clock
    messages: int = 0
    size: int = 0


Emit = Callable[[str, float, Traced], None]
"""Takes the gateway's id of the call, seconds since its first message, and the message."""


class SipTrace:
    """
    The messages of all calls that are going on.

    Args:
        emit: Takes each message; called at once.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._known: dict[str, _Known] = {}
        self._open: dict[str, _Known] = {}
        """By the user agent's handle, until it is released."""
        self._clocks: dict[str, _Clock] = {}
        self._over: deque[tuple[float, _Known]] = deque()
        """What was released, and when to forget it; in that order, for all wait equally long."""
        self._waiting: OrderedDict[str, list[tuple[float, Traced]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def saw(self, data: bytes, flow: Flow, *, sent: bool, now: float) -> None:
        """Take one message of any peer, whatever it holds."""
        found = _CALL_ID.search(data, 0, MAX_MESSAGE)
        if found is None:
            return
        call = found[1].decode("utf-8", "replace")
        known = self._known.get(call)
        if known is not None:
            self._keep(known, _traced(data, flow, sent=sent), now)
            return
        waiting = self._waiting.setdefault(call, [])
        if len(waiting) < _WAITING_MESSAGES:
            waiting.append((now, _traced(data, flow, sent=sent)))
        if len(self._waiting) > _WAITING_CALLS:
            self._waiting.popitem(last=False)

    def bind(self, handle: str, sip_call_id: str, call_id: str, *, now: float) -> None:
        """
        Say whose a Call-ID is.

        Args:
            handle: The user agent's name of that dialog, for :meth:`release`.
            sip_call_id: What its messages say.
            call_id: The gateway's id of the call; a call that was passed on has several dialogs.
            now: Monotonic seconds.
        """
        self._forget(now)
        waiting = self._waiting.pop(sip_call_id, [])
        if (before := self._known.get(sip_call_id)) is not None:
            self._drop(before)
        clock = self._clocks.get(call_id)
        if clock is None:
            clock = self._clocks[call_id] = _Clock(waiting[0][0] if waiting else now)
        clock.dialogs += 1
        known = self._known[sip_call_id] = self._open[handle] = _Known(sip_call_id, call_id, clock)
        for at, traced in waiting:
            self._keep(known, traced, at)

    def release(self, handle: str, *, now: float) -> None:
        """Say that a dialog has ended; what is still said in it in the next minute is kept as well."""
        known = self._open.pop(handle, None)
        if known is not None:
            self._over.append((now + LINGER_S, known))

    def _keep(self, known: _Known, traced: Traced, now: float) -> None:
        if known.messages >= MAX_MESSAGES or known.size >= MAX_BYTES:
            return
        known.messages += 1
        known.size += len(traced.text)
        self._emit(known.call_id, max(0.0, now - known.clock.began), traced)

    def _forget(self, now: float) -> None:
        while self._over and self._over[0][0] <= now:
            _, known = self._over.popleft()
            if self._known.get(known.sip_call_id) is known:
                self._drop(known)

    def _drop(self, known: _Known) -> None:
        del self._known[known.sip_call_id]
        known.clock.dialogs -= 1
        if not known.clock.dialogs:
            del self._clocks[known.call_id]


def _traced(data: bytes, flow: Flow, *, sent: bool) -> Traced:
    text = data[:MAX_MESSAGE].decode("utf-8", "replace")
    return Traced(sent, flow.transport, _place(flow.local), _place(flow.remote), without_secrets(text))


def _place(address: Address) -> str:
    return join_host_port(*address)


def without_secrets(text: str) -> str:
    """Return a SIP message without what would let its reader pose as somebody, or decrypt the call."""
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text
    if "authorization" in lower:
        head, blank, body = text.partition("\r\n\r\n")
        text = _FOLD.sub(" ", head) + blank + body
    for secret in _SECRETS:
        text = secret.sub(rf"\1{_HIDDEN}", text)
    return redact_sdp(text.encode()).decode()
