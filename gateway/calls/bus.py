"""
The in-process event bus: calls publish, others listen, and nobody who listens can hold a call up.

Publishing never waits. Each subscription has a bounded queue; what does not fit is lost for that
subscription alone and counted in :attr:`Subscription.dropped`. Audio goes only to those who ask for
it, and may be kept from filling the room that other events need. One event loop uses one bus.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from gateway.calls.events import AudioEvent, CallEvent

_CALLS = 10_000
"""Calls whose lost events are counted one by one."""


class Subscription:
    """
    One listener's events, oldest first.

    Iterating waits for events and ends after :meth:`close`, once the queue is empty. One task
    iterates; used as a context manager, it is closed on leaving.
    """

    def __init__(
        self, name: str, size: int, *, audio: bool, reserve: int, on_close: Callable[[Subscription], None]
    ) -> None:
        self.name = name
        self.audio = audio
        """Whether audio events are wanted."""
        self.dropped = 0
        """Events that did not fit into the queue."""
        self._dropped_of: dict[str, int] = {}
        self._size = size
        self._audio_size = size - reserve
        self._queue: deque[CallEvent] = deque()
        self._ready = asyncio.Event()
        self._closed = False
        self._on_close = on_close

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, event: CallEvent) -> bool:
        """Queue an event; ``False`` when the queue is full or closed."""
        return self._offer(event, self._size)

    def offer_audio(self, event: AudioEvent) -> bool:
        """Queue an audio event; ``False`` when the part of the queue that audio may take is full."""
        return self._offer(event, self._audio_size)

    def _offer(self, event: CallEvent, size: int) -> bool:
        waiting = len(self._queue)
        if waiting >= size or self._closed:
            self._drop(event.call_id)
            return False
        self._queue.append(event)
        if not waiting:
            self._ready.set()
        return True

    def _drop(self, call_id: str) -> None:
        self.dropped += 1
        if call_id in self._dropped_of or len(self._dropped_of) < _CALLS:
            self._dropped_of[call_id] = self._dropped_of.get(call_id, 0) + 1

    def forget_dropped(self, call_id: str) -> int:
        """Return how many events of a call were lost, and forget it."""
        return self._dropped_of.pop(call_id, 0)

    def take(self) -> list[CallEvent]:
        """Return everything that is queued, without waiting."""
        taken = list(self._queue)
        self._queue.clear()
        self._ready.clear()
        return taken

    async def batch(self) -> list[CallEvent]:
        """Wait for events and return all that are queued; empty only when the subscription is closed."""
        if not self._queue and not self._closed:
            await self._ready.wait()
        return self.take()

    async def __aiter__(self) -> AsyncIterator[CallEvent]:
        while events := await self.batch():
            for event in events:
                yield event

    def close(self) -> None:
        """Take no more events; what is queued can still be read."""
        if not self._closed:
            self._closed = True
            self._ready.set()
            self._on_close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventBus:
    """
    Hands each event to every subscription.

    Args:
        on_drop: Told the name of the subscription for each event it lost; counts metrics.
    """

    def __init__(self, on_drop: Callable[[str], None] | None = None) -> None:
        self._subscriptions: tuple[Subscription, ...] = ()
        self._audio_subscriptions: tuple[Subscription, ...] = ()
        self._on_drop = on_drop

    @property
    def wants_audio(self) -> bool:
        """Whether anybody listens to audio; where nobody does, audio events need not be made."""
        return bool(self._audio_subscriptions)

    def subscribe(self, name: str, size: int, *, audio: bool = False, reserve: int = 0) -> Subscription:
        """
        Add a listener.

        Args:
            name: Who listens, for logs and metrics.
            size: How many events may wait for it.
            audio: Whether it gets audio events too.
            reserve: Part of ``size`` that audio events cannot take.
        """
        subscription = Subscription(name, size, audio=audio, reserve=reserve, on_close=self._remove)
        self._set((*self._subscriptions, subscription))
        return subscription

    def want_audio(self, subscription: Subscription, *, wanted: bool) -> None:
        """Begin or stop giving audio events to a listener."""
        subscription.audio = wanted
        self._set(self._subscriptions)

    def publish(self, event: CallEvent) -> None:
        """Give an event to all who want it; never blocks and never raises."""
        if isinstance(event, tuple):  # an audio event: there are fifty a second for each direction of a call
            for subscription in self._audio_subscriptions:
                if not subscription.offer_audio(event) and self._on_drop is not None:
                    self._on_drop(subscription.name)
            return
        for subscription in self._subscriptions:
            if not subscription.offer(event) and self._on_drop is not None:
                self._on_drop(subscription.name)

    def _remove(self, subscription: Subscription) -> None:
        self._set(tuple(x for x in self._subscriptions if x is not subscription))

    def _set(self, subscriptions: tuple[Subscription, ...]) -> None:
        self._subscriptions = subscriptions
        self._audio_subscriptions = tuple(x for x in subscriptions if x.audio)
