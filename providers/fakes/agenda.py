"""
Things to do later, by time. No I/O.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Agenda:
    """Things to do at a time; each gets the time that it was meant for or later."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = itertools.count()

    def at(self, when: float, action: Callable[[float], None]) -> None:
        heapq.heappush(self._heap, (when, next(self._count), action))

    def run(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2](now)

    @property
    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None
