"""
The clock of all outgoing media: one timer for the whole process.

A 5 ms tick with four slots; each call sits in one slot and is called every 20 ms. Deadlines are absolute
(start + n x 5 ms), so nothing drifts (RFC 3551 section 4.1). A short delay is caught up; after a stall the
missed ticks are skipped, so that no call sends a burst.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

TickCallback: TypeAlias = Callable[[float], None]
ErrorCallback: TypeAlias = Callable[[Exception], None]

_EARLY_S = 0.001  # uvloop counts in milliseconds: a timer may fire that much too early


class Due(NamedTuple):
    """A slot that has to be served."""

    slot: int
    at: float
    """When it was due, on the absolute grid."""


class TickSchedule:
    """
    Which slots are due: pure, driven with ``now``.

    Args:
        tick_s: Distance of two ticks.
        slots: How many slots take turns; each is due every ``tick_s * slots``.
        stall_s: Lateness from which ticks are skipped instead of being caught up.
    """

    def __init__(self, *, tick_s: float = 0.005, slots: int = 4, stall_s: float = 0.06) -> None:
        self.tick_s = tick_s
        self.slots = slots
        self.late_ticks = 0
        """Ticks that were served more than one tick too late."""
        self.skipped = 0
        """Ticks that were never served because of a stall."""
        self._stall_s = stall_s
        self._start = 0.0
        self._next = 1

    def start(self, now: float) -> None:
        """Begin a new grid; the first tick is due one tick from now."""
        self._start = now
        self._next = 1

    def next_timeout(self) -> float:
        """When the next tick is due."""
        return self._start + self._next * self.tick_s

    def due(self, now: float) -> list[Due]:
        """Take what is due at ``now``, in order."""
        ready: list[Due] = []
        if now - self.next_timeout() > self._stall_s:
            self._skip(now)
        while (at := self._start + self._next * self.tick_s) <= now:
            if now - at > self.tick_s:
                self.late_ticks += 1
            ready.append(Due(self._next % self.slots, at))
            self._next += 1
        return ready

    def _skip(self, now: float) -> None:
        """Go on with the last tick of each slot, so that every slot is served once."""
        last = int((now - self._start) / self.tick_s)
        resume = max(self._next, last - self.slots + 1)
        self.skipped += resume - self._next
        self._next = resume


class PacerHandle:
    """A callback's place in the pacer; opaque for its owner."""

    __slots__ = ("callback", "on_error", "slot")

    def __init__(self, callback: TickCallback, slot: int, on_error: ErrorCallback | None) -> None:
        self.callback = callback
        self.slot = slot
        self.on_error = on_error


class Pacer:
    """
    Call back every 20 ms, for every line of the process.

    It needs a running loop as soon as something is added, and has no timer while nothing is. A callback gets
    the time at which its tick was due, on the absolute grid, in seconds of :func:`time.monotonic`. One that
    raises is removed and reported; no other callback notices.

    Args:
        on_error: Told of an exception in a callback; without it the loop's exception handler is.
    """

    def __init__(self, *, on_error: ErrorCallback | None = None) -> None:
        self._schedule = TickSchedule()
        self._slots: list[dict[PacerHandle, TickCallback]] = [{} for _ in range(self._schedule.slots)]
        self._served: list[tuple[PacerHandle, ...] | None] = [None] * self._schedule.slots
        self._on_error = on_error
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def late_ticks(self) -> int:
        """Ticks that were served more than 5 ms too late."""
        return self._schedule.late_ticks

    @property
    def skipped(self) -> int:
        """Ticks that a stall has swallowed."""
        return self._schedule.skipped

    @property
    def active(self) -> int:
        """How many callbacks there are."""
        return sum(map(len, self._slots))

    def add(self, callback: TickCallback, *, on_error: ErrorCallback | None = None) -> PacerHandle:
        """
        Call ``callback(at)`` every 20 ms, for the first time at most 20 ms from now.

        Args:
            callback: Must not block.
            on_error: Told, before the pacer's own, that the callback has raised and was removed.
        """
        slot = min(range(len(self._slots)), key=lambda number: len(self._slots[number]))
        handle = PacerHandle(callback, slot, on_error)
        self._slots[slot][handle] = callback
        self._served[slot] = None
        if self._timer is None:
            self._loop = asyncio.get_running_loop()
            self._schedule.start(time.monotonic())
            self._arm()
        return handle

    def remove(self, handle: PacerHandle) -> None:
        """Stop calling; harmless when it has stopped."""
        if self._slots[handle.slot].pop(handle, None) is None:
            return
        self._served[handle.slot] = None
        if self._timer is not None and not self.active:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        assert self._loop is not None
        after = max(0.0, self._schedule.next_timeout() - time.monotonic())
        self._timer = self._loop.call_later(after, self._tick)

    def _tick(self) -> None:
        for slot, at in self._schedule.due(time.monotonic() + _EARLY_S):
            handles = self._served[slot]
            if handles is None:
                handles = self._served[slot] = tuple(self._slots[slot])
            for handle in handles:
                if handle in self._slots[slot]:
                    self._call(handle, at)
        if self.active:
            self._arm()
        else:
            self._timer = None

    def _call(self, handle: PacerHandle, at: float) -> None:
        try:
            handle.callback(at)
        except Exception as error:  # noqa: BLE001 - a fault in one call must not stop the media of all others
            self.remove(handle)
            self._tell(handle, error)
            if self._on_error is not None:
                self._on_error(error)
            elif self._loop is not None:
                self._loop.call_exception_handler({"message": "a paced callback failed", "exception": error})

    def _tell(self, handle: PacerHandle, error: Exception) -> None:
        if handle.on_error is None:
            return
        try:
            handle.on_error(error)
        except Exception as second:  # noqa: BLE001 - nor must a fault while it is cleared up
            if self._loop is not None:
                self._loop.call_exception_handler({"message": "ending a line failed", "exception": second})
