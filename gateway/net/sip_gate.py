"""Who may talk SIP to us, and how much of it: asked before a byte is parsed."""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)

_QUIET_S = 60.0
_SHOWN = 8
_SOURCES = 4096
_HEAD = 4096  # a User-Agent further back is not worth the search
_SCANNER = re.compile(
    rb"\n(?:user-agent|server)[ \t]*:[^\r\n]*(?:friendly-(?:scanner|request)|sipvicious|sip-scan|sipcli"
    rb"|sundayddr|iwar|sivus|smap|gulp|pplsip|siparmyknife|voipbuster-scan)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class GateLimits:
    """What one source may send; bursts of two seconds' worth are let through."""

    messages_per_s: float = 2000.0
    connections_per_s: float = 100.0
    """New connections: a TLS handshake costs us milliseconds."""


class Buckets:
    """
    Token buckets by source; the sources that were silent the longest are forgotten first.

    Args:
        rate: Tokens a second.
        burst: Most tokens that a source can have.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._level)

    def take(self, source: str, now: float) -> bool:
        """Take a token; ``False`` when there is none."""
        tokens = self._at(source, now)
        enough = tokens >= 1
        self._put(source, tokens - 1 if enough else tokens, now)
        return enough

    def borrow(self, source: str, now: float) -> float:
        """Take a token that may not be there yet, and return after how many seconds it will be."""
        tokens = self._at(source, now) - 1
        self._put(source, tokens, now)
        return max(0.0, -tokens / self._rate)

    def _at(self, source: str, now: float) -> float:
        tokens, at = self._level.get(source, (self._burst, now))
        return min(self._burst, tokens + (now - at) * self._rate)

    def _put(self, source: str, tokens: float, now: float) -> None:
        self._level[source] = (tokens, now)
        self._level.move_to_end(source)
        if len(self._level) > _SOURCES:
            self._level.popitem(last=False)


class Gate:
    """
    Judges sources by their IP address.

    Args:
        allowed: Whether a source belongs to a trunk. Deny by default.
        clock: Seconds, monotonic.
        limits: For each source that is allowed.
    """

    def __init__(
        self, allowed: Callable[[str], bool], clock: Callable[[], float], limits: GateLimits | None = None
    ) -> None:
        limits = limits or GateLimits()
        self._allowed = allowed
        self._clock = clock
        self._messages = Buckets(limits.messages_per_s, max(1.0, 2 * limits.messages_per_s))
        self._connections = Buckets(limits.connections_per_s, max(1.0, 2 * limits.connections_per_s))
        self._logs = {reason: _MinuteLog(f"sip.{reason}", clock) for reason in REASONS}

    @property
    def dropped(self) -> Counter[str]:
        """How much was dropped, by reason."""
        return Counter({reason: log.total for reason, log in self._logs.items()})

    def welcomes(self, host: str) -> bool:
        """Whether a source may ask us something; says nothing about it."""
        return self._allowed(host)

    def admit_datagram(self, host: str, data: bytes) -> bool:
        """Whether a datagram may be read; when not, it is counted and gets no answer."""
        if not self._allowed(host):
            return self._drop("denied", host)
        if not self._messages.take(host, self._clock()):
            return self._drop("flooded", host)
        return not self.is_scan(host, data)

    def admit_connection(self, host: str) -> bool:
        """Whether a source may connect; asked before a byte is read."""
        if not self._allowed(host):
            return self._drop("denied", host)
        if not self._connections.take(host, self._clock()):
            return self._drop("flooded", host)
        return True

    def pause_for(self, host: str) -> float:
        """Count a message of a connection; return for how many seconds no further one may be read."""
        wait = self._messages.borrow(host, self._clock())
        if wait > 0:
            self._drop("flooded", host)
        return wait

    def is_scan(self, host: str, data: bytes) -> bool:
        """Whether a message comes from one of the well-known scanners; counts it."""
        if _SCANNER.search(data, 0, _HEAD) is None:
            return False
        self._drop("scanned", host)
        return True

    def refuse_full(self, host: str) -> None:
        """Count and tell of a connection for which there is no room."""
        self._drop("full", host)

    def refuse_tls(self, host: str, why: str) -> None:
        """Count and tell of a TLS session that could not be made."""
        self._drop("tls_failed", host, why)

    def refuse_websocket(self, host: str, why: str) -> None:
        """Count and tell of a WebSocket that broke its rules."""
        self._drop("websocket_failed", host, why)

    def _drop(self, reason: str, host: str, why: str = "") -> bool:
        self._logs[reason](host, why)
        return False


REASONS = ("denied", "flooded", "full", "scanned", "tls_failed", "websocket_failed")
"""Why something was dropped: the values of the metric's label, and behind ``sip.`` the events of the log."""


class _MinuteLog:
    """
    Tells of what any stranger can cause, at most once a minute: a scanner must not fill the log.

    What has a reason is told once for each source and reason, and again after a minute.
    """

    def __init__(self, event: str, clock: Callable[[], float]) -> None:
        self._event = event
        self._clock = clock
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._since: OrderedDict[str, None] = OrderedDict()
        self.total = 0

    def __call__(self, source: str, why: str) -> None:
        self.total += 1
        self._since[source] = None
        if len(self._since) > _SHOWN:
            self._since.popitem(last=False)
        # Without a reason, all sources share one line a minute.
        key, now = (source if why else "", why), self._clock()
        if now - self._told.get(key, -math.inf) < _QUIET_S:
            return
        self._told[key] = now
        self._told.move_to_end(key)
        if len(self._told) > _SOURCES:
            self._told.popitem(last=False)
        facts = {"why": why} if why else {"others": [each for each in self._since if each != source]}
        log.warning(self._event, source=source, total=self.total, **facts)
        self._since.clear()
