"""
Who is tried when a provider fails, and what a session that takes over is told (no I/O).

A provider that failed several times in a row is left alone for a while: its breaker is *open*. After the
pause one call may try it again (*half-open*); its success closes the breaker, its failure doubles the pause.
All calls of the process share one :class:`Failover`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from config.recovery import BreakerSettings
from providers.types import HistoryItem, Said, ToolUsed
from tools.types import ToolCall

PROBE_S = 60.0
"""A try of a half-open breaker that nobody spoke of again after so long is forgotten."""
MAX_ITEMS = 400
"""Of a call's history; the oldest go first."""
MAX_CHARACTERS = 60_000
"""Of what is carried over: what a context window surely has room for."""


class BreakerState(StrEnum):
    """Whether a provider is tried."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class BreakerChanged:
    """A provider is left alone from now on, or is used again."""

    provider: str
    state: BreakerState
    code: str = ""
    """The provider's word for the last failure."""
    pause_s: float = 0.0


class Breaker:
    """One provider's record."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._failed: deque[float] = deque(maxlen=settings.failures)
        self._open_until: float | None = None
        self._pause_s = settings.pause_s
        self._probe_until = 0.0
        self.failures = 0
        """All of them."""

    def state(self, now: float) -> BreakerState:
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._open_until else BreakerState.HALF_OPEN

    def is_free(self, now: float) -> bool:
        """Whether a half-open breaker waits for somebody to try."""
        return self.state(now) is BreakerState.HALF_OPEN and now >= self._probe_until

    def begin(self, now: float) -> None:
        """Note that somebody tries."""
        if self.state(now) is BreakerState.HALF_OPEN:
            self._probe_until = now + PROBE_S

    def abandon(self) -> None:
        """Note that somebody gave a try up for reasons of their own."""
        self._probe_until = 0.0

    def succeed(self) -> bool:
        """Close the breaker; say whether it was open."""
        was_open, self._open_until = self._open_until is not None, None
        self._pause_s, self._probe_until = self._settings.pause_s, 0.0
        self._failed.clear()
        return was_open

    def fail(self, now: float) -> float | None:
        """Count a failure; return the pause where the breaker opens by it."""
        self.failures += 1
        state = self.state(now)
        self._failed.append(now)
        self._probe_until = 0.0
        if state is BreakerState.OPEN:
            return None  # it was tried because nothing else was left, or by a call that began before
        if state is BreakerState.HALF_OPEN:
            self._pause_s = min(self._pause_s * 2, self._settings.longest_pause_s)
        elif len(self._failed) < self._settings.failures or now - self._failed[0] > self._settings.within_s:
            return None
        self._open_until = now + self._pause_s
        return self._pause_s


class Failover:
    """
    The breakers of all providers, by name.

    After a call of ``begin``, say ``succeeded``, ``failed`` or ``abandoned``; then take ``changes``.
    """

    def __init__(self, settings: BreakerSettings | None = None) -> None:
        self._settings = settings or BreakerSettings()
        self._breakers: dict[str, Breaker] = {}
        self._changes: list[BreakerChanged] = []

    def keep(self, names: Iterable[str]) -> None:
        """Forget providers that are not named: their settings have changed, or they are gone."""
        kept = frozenset(names)
        self._breakers = {name: each for name, each in self._breakers.items() if name in kept}

    def order(self, names: Sequence[str], now: float, *, urgent: bool = False) -> list[str]:
        """
        Return whom to try, in order: not those that are left alone, unless nobody else is left.

        Args:
            names: The agent's providers, the preferred first.
            now: Seconds.
            urgent: Whether a caller is waiting in mid-call: nothing is then tried out.
        """
        closed = [name for name in names if self._of(name).state(now) is BreakerState.CLOSED]
        free = [name for name in names if self._of(name).is_free(now)]
        good = [*closed, *free] if urgent else [name for name in names if name in closed or name in free]
        return good or list(names)

    def begin(self, name: str, now: float) -> None:
        self._of(name).begin(now)

    def abandoned(self, name: str) -> None:
        self._of(name).abandon()

    def succeeded(self, name: str) -> None:
        """A session was opened."""
        if self._of(name).succeed():
            self._changes.append(BreakerChanged(name, BreakerState.CLOSED))

    def failed(self, name: str, now: float, *, code: str) -> None:
        """A session could not be opened, or was lost."""
        pause_s = self._of(name).fail(now)
        if pause_s is not None:
            self._changes.append(BreakerChanged(name, BreakerState.OPEN, code, pause_s))

    def changes(self) -> list[BreakerChanged]:
        """Take what has changed; for the log."""
        changes, self._changes = self._changes, []
        return changes

    def states(self, now: float) -> Mapping[str, BreakerState]:
        """Return the state of each provider that was ever tried."""
        return {name: breaker.state(now) for name, breaker in self._breakers.items()}

    def failures(self) -> Mapping[str, int]:
        """Return how often each provider failed."""
        return {name: breaker.failures for name, breaker in self._breakers.items()}

    def _of(self, name: str) -> Breaker:
        breaker = self._breakers.get(name)
        if breaker is None:
            breaker = self._breakers[name] = Breaker(self._settings)
        return breaker


@dataclass(slots=True)
class _Entry:
    """One place in the conversation."""

    said: Said | None = None
    call: ToolCall | None = None
    output: str | None = None
    changed: int = 0

    def item(self) -> HistoryItem | None:
        """What a model can be told of it; nothing where it is still empty."""
        if self.call is not None:
            return None if self.output is None else ToolUsed(self.call, self.output)
        return self.said if self.said is not None and self.said.text else None


@dataclass(slots=True)
class History:
    """
    What was said and done in a call, in the order in which it began.

    A turn has its place as soon as it begins; its words may come later, and again. ``version`` grows with
    each change, so that :meth:`items` can tell what came after a session had been told.
    """

    version: int = 0
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _texts: int = 0

    def caller(self, item_id: str, text: str) -> None:
        """Write a turn of the caller down; an empty text keeps its place."""
        self._say(f"caller {item_id}", Said("caller", text))

    def agent(self, item_id: str, text: str) -> None:
        """Write down what was heard of the agent; an empty text keeps its place."""
        self._say(f"agent {item_id}", Said("agent", text))

    def text(self, said: Said) -> None:
        """Write down what we ourselves put into the conversation."""
        self._texts += 1
        self._say(f"text {self._texts}", said)

    def asked(self, call: ToolCall) -> None:
        """Note a tool call that has no answer yet."""
        self._change(f"tool {call.call_id}", _Entry(call=call))

    def answered(self, call_id: str, output: str) -> None:
        """Note the answer to a call, once; unknown calls are ignored."""
        entry = self._entries.get(f"tool {call_id}")
        if entry is not None and entry.output is None:
            entry.output = output
            self._changed(entry)

    def items(self, *, after: int = 0) -> tuple[HistoryItem, ...]:
        """Return what a session has to know, the oldest first; only what changed after that version."""
        items: deque[HistoryItem] = deque()
        size = 0
        for entry in reversed(self._entries.values()):
            item = entry.item() if entry.changed > after else None
            if item is None:
                continue
            size += len(item.text) if isinstance(item, Said) else len(item.call.arguments) + len(item.output)
            if size > MAX_CHARACTERS and items:
                break
            items.appendleft(item)
        return tuple(items)

    def _say(self, key: str, said: Said) -> None:
        entry = self._entries.get(key)
        if entry is None:
            self._change(key, _Entry(said=said))
        elif entry.said != said:
            entry.said = said
            self._changed(entry)

    def _change(self, key: str, entry: _Entry) -> None:
        if key in self._entries:
            return
        while len(self._entries) >= MAX_ITEMS:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = entry
        self._changed(entry)

    def _changed(self, entry: _Entry) -> None:
        """A place that is only kept is no news."""
        if entry.item() is not None:
            self.version += 1
            entry.changed = self.version
