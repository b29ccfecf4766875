"""Somebody who iterates a session, as a call does, and keeps what was said."""

from __future__ import annotations

import asyncio
from typing import Self

from providers.errors import SessionLost
from providers.gemini.session import GeminiSession


class Listener:
    """Takes the events of a session in a task of its own, from entering to leaving."""

    def __init__(self, session: GeminiSession) -> None:
        self.session = session
        self.events: list = []
        self.lost: SessionLost | None = None
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._task = self._group.create_task(self._listen())
        return self

    async def __aexit__(self, *exc) -> None:
        self._task.cancel()
        await self._group.__aexit__(None, None, None)

    async def _listen(self) -> None:
        try:
            async for event in self.session:
                self.events.append(event)
                self._news.set()
        except SessionLost as error:
            self.lost = error
        self._news.set()

    async def until(self, kind: type, count: int = 1) -> list:
        """Wait for so many events of a kind, and return all of that kind."""
        async with asyncio.timeout(10):
            while len(found := [event for event in self.events if isinstance(event, kind)]) < count:
                assert self.lost is None, self.lost
                self._news.clear()
                await self._news.wait()
        return found

    async def loss(self) -> SessionLost:
        async with asyncio.timeout(10):
            while self.lost is None:
                self._news.clear()
                await self._news.wait()
        return self.lost

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]
