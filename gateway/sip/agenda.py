"""Which of many timed things is due next: a heap, so that idle transactions cost nothing."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Agenda(Generic[T]):
    """One deadline for each item; setting it again moves it."""

    def __init__(self) -> None:
        self._at: dict[T, float] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._serial = 0

    def set(self, item: T, at: float | None) -> None:
        """Put ``item`` on the agenda, move it, or take it off with ``None``."""
        if at is None:
            self._at.pop(item, None)
        elif self._at.get(item) != at:
            self._at[item] = at
            self._serial += 1
            heapq.heappush(self._heap, (at, self._serial, item))
        if len(self._heap) > 64 + 2 * len(self._at):
            self._rebuild()

    def next(self) -> float | None:
        """Return the earliest deadline."""
        while self._heap:
            at, _, item = self._heap[0]
            if self._at.get(item) == at:
                return at
            heapq.heappop(self._heap)
        return None

    def take_due(self, now: float) -> T | None:
        """Take one item whose deadline is not after ``now`` off the agenda."""
        at = self.next()
        if at is None or at > now:
            return None
        item = heapq.heappop(self._heap)[2]
        del self._at[item]
        return item

    def __len__(self) -> int:
        return len(self._at)

    def _rebuild(self) -> None:
        """Drop moved and cancelled entries, so that the heap never outgrows what it holds."""
        self._heap = [(at, serial, item) for at, serial, item in self._heap if self._at.get(item) == at]
        heapq.heapify(self._heap)
