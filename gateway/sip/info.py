"""
Keys that come in INFO requests, in every form that is in use.

``application/dtmf-relay`` and ``application/dtmf`` come from Cisco and never had an RFC; a line such as
``d=5`` is Nortel's, and a body of four octets is the payload of RFC 4733 sent in an INFO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.sip.body import UnsupportedBody
from gateway.sip.events import InfoReceived
from gateway.sip.kit import Kit
from gateway.sip.message import Request
from gateway.sip.transactions import Served

DTMF_TYPES: Final = (
    "application/dtmf-relay",
    "application/dtmf",
    "application/vnd.nortelnetworks.digits",
    "audio/telephone-event",
    "application/telephone-event",
)
"""The media types that are read, best known first."""
DEFAULT_DURATION_MS: Final = 100
LONGEST_MS: Final = 8_000
"""A longer duration is cut to it: 8 s is the most that RFC 4733's 16 bits hold at 8 kHz."""

_DIGITS: Final = "0123456789*#ABCD"
_MAX_BODY: Final = 1024
_SIGNAL = re.compile(
    r"(?im)^[ \t]*(?:signal|d|event)[ \t]*=[ \t]*(?:digits[ \t]*[=:][ \t]*)?\"?([0-9a-d*#]|1[0-5])\"?[ \t]*$"
)
_DURATION = re.compile(r"(?im)^[ \t]*duration[ \t]*=[ \t]*([0-9]{1,9})[ \t]*$")
_BARE = re.compile(r"\s*([0-9a-dA-D*#]|1[0-5])\s*")


@dataclass(frozen=True, slots=True)
class Key:
    """One key press."""

    digit: str
    """One of ``0`` to ``9``, ``*``, ``#``, ``A`` to ``D``."""
    duration_ms: int = DEFAULT_DURATION_MS


def read_key(request: Request) -> Key | None:
    """
    Return the key press that an INFO tells, ``None`` for one without body (a keep-alive).

    Raises:
        UnsupportedBody: a body of another kind, which has to be understood.
        ValueError: a body of ours that names no key.
    """
    if not request.body.strip():
        return None
    kind, _, _ = (request.headers.get("Content-Type") or "").partition(";")
    if kind.strip().lower() not in DTMF_TYPES:
        if _is_optional(request):
            return None
        raise UnsupportedBody(f"cannot read {kind.strip()[:60] or 'a body without a type'}")
    body = request.body[:_MAX_BODY]
    if "telephone-event" in kind.lower() and len(body) == 4 and body[0] < len(_DIGITS):
        return Key(_DIGITS[body[0]], _bounded(int.from_bytes(body[2:4], "big") // 8))
    text = body.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    found = _SIGNAL.search(text) or _BARE.fullmatch(text)
    if found is None:
        raise ValueError("the body names no key")
    told = _DURATION.search(text)
    return Key(_digit(found[1]), DEFAULT_DURATION_MS if told is None else _bounded(int(told[1])))


def receive_info(call: str, info: Served, kit: Kit, *, now: float) -> None:
    """
    Answer an INFO of a call and report the key that it tells.

    469 for a package, as we advertise none (RFC 6086, section 4.2.2), 415 for a body of another kind,
    400 for one of ours without a key; anything else 200.
    """
    if "Info-Package" in info.request.headers:
        kit.refuse(info, 469, "an INFO package", extra=(("Recv-Info", ""),), now=now)
        return
    try:
        key = read_key(info.request)
    except UnsupportedBody as error:
        kit.refuse(info, 415, str(error), extra=(("Accept", ", ".join(DTMF_TYPES)),), now=now)
        return
    except ValueError as error:
        kit.refuse(info, 400, str(error), now=now)
        return
    kit.respond(info, 200, now=now)
    if key is not None:
        kit.events.append(InfoReceived(call, key.digit, key.duration_ms))


def _digit(signal: str) -> str:
    """Return the key of a signal: a digit as such, 10 to 15 as RFC 4733 numbers the others."""
    return _DIGITS[int(signal)] if len(signal) == 2 else signal.upper()


def _bounded(duration_ms: int) -> int:
    return min(duration_ms, LONGEST_MS) or DEFAULT_DURATION_MS


def _is_optional(request: Request) -> bool:
    disposition = (request.headers.get("Content-Disposition") or "").lower()
    return re.search(r";\s*handling\s*=\s*\"?optional\b", disposition) is not None
