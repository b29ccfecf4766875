"""
Requests that are too long for a datagram go by TCP where the peer takes it (RFC 3261, section 18.1.1).

The transaction knows nothing of it: it goes on as over UDP, and its repetitions are swallowed here while
the connection lives.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gateway.sip.flow import Address, Flow, Transport

_REMEMBERED: Final = 512
_REFUSED_S: Final = 600.0
_OURS: Final = re.compile(
    rb"([A-Z]+) [^\r\n]*\r\nVia: SIP/2\.0/([A-Z]+) [^\r\n]*?;branch=([^;,\s]+)", re.IGNORECASE
)


def over(data: bytes, transport: Transport) -> bytes:
    """Return a message with the transport in the topmost Via; a response stays as it is."""
    found = _OURS.match(data)
    if found is None or data.startswith(b"SIP/"):
        return data
    begin, end = found.span(2)
    return data[:begin] + transport.upper().encode() + data[end:]


class LargeRequests:
    """
    Remembers which requests left by TCP, and who takes none.

    Args:
        clock: Seconds, monotonic.
        above: Octets of a request that may still go by UDP; ``None`` moves none.
    """

    def __init__(self, clock: Callable[[], float], above: int | None) -> None:
        self._clock = clock
        self._above = above
        self._moved: OrderedDict[bytes, bytes] = OrderedDict()
        self._refused: OrderedDict[Address, float] = OrderedDict()

    def move(self, flow: Flow, data: bytes) -> tuple[Flow, bool] | None:
        """
        Return the way by TCP for a request that has to take it; ``None`` leaves it to UDP.

        The second value says whether this is a repetition of what went that way before.
        """
        if flow.transport != "udp" or self._above is None or (len(data) <= self._above and not self._moved):
            return None
        found = _OURS.match(data)
        if found is None or data.startswith(b"SIP/"):
            return None
        method, branch = found[1], found[3]
        by_tcp = replace(flow, transport="tcp", id=0)
        if (moved := self._moved.get(branch)) is not None:  # its ACK and CANCEL follow it
            return by_tcp, method == moved
        if len(data) <= self._above or self._clock() < self._refused.get(flow.remote, 0.0):
            return None
        self._moved[branch] = method
        if len(self._moved) > _REMEMBERED:
            self._moved.popitem(last=False)
        return by_tcp, False

    def refuse(self, flow: Flow, data: bytes) -> None:
        """Note that a peer took no TCP: for ten minutes it is not asked again."""
        found = _OURS.match(data)
        if found is not None:
            self._moved.pop(found[3], None)
        self._refused[flow.remote] = self._clock() + _REFUSED_S
        if len(self._refused) > _REMEMBERED:
            self._refused.popitem(last=False)
