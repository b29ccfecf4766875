"""A bounded hand-over from callbacks to one reading task; the oldest is dropped, never the caller held up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Feed(Generic[T]):
    """
    One writer, one reader.

    ``put`` never blocks: when ``size`` items wait, the oldest goes and :attr:`dropped` counts it.
    After :meth:`close` the reader gets what is left and the iteration ends.
    """

    def __init__(self, size: int) -> None:
        self._items: deque[T] = deque(maxlen=size)
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self.dropped = 0

    def put(self, item: T) -> None:
        """Hand over one item; ignored after :meth:`close`."""
        if self._closed:
            return
        if len(self._items) == self._items.maxlen:
            self.dropped += 1
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """End the iteration once the waiting items are taken."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def __aiter__(self) -> AsyncIterator[T]:
        items = self._items
        while True:
            while items:
                yield items.popleft()
            if self._closed:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
