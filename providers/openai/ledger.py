"""
What the server sent of each spoken item, so that it can be told how much was heard.

The call knows what was *heard* and the server knows what was *generated*; only the smaller of
heard and received may be named in a truncation ("Audio content of X ms is already shorter
than Y ms" otherwise).
"""

from __future__ import annotations

from dataclasses import dataclass

_ITEMS_KEPT = 64
"""More than a call ever has queued for playing at once."""
_RESPONSES_KEPT = 16


@dataclass(slots=True)
class _Item:
    response_id: str
    received: int = 0
    shown: bool = False
    finished: bool = False
    truncated: bool = False


class ItemLedger:
    """
    Bytes received for each item, in the order of arrival.

    Args:
        bytes_per_ms: Of the session's output format.
    """

    def __init__(self, bytes_per_ms: int) -> None:
        self._bytes_per_ms = bytes_per_ms
        self._items: dict[str, _Item] = {}
        self._muted: dict[str, None] = {}

    def receive(self, response_id: str, item_id: str, size: int) -> bool:
        """Count ``size`` bytes of audio; returns whether the caller may hear them."""
        item = self._items.get(item_id)
        if item is None:
            item = self._items[item_id] = _Item(response_id)
            if len(self._items) > _ITEMS_KEPT:
                del self._items[next(iter(self._items))]
        item.received += size
        if response_id in self._muted:
            return False
        item.shown = True
        return True

    def finish(self, item_id: str) -> bool:
        """Note that an item's audio is complete; returns ``False`` when that was known."""
        item = self._items.get(item_id)
        if item is None or item.finished:
            return False
        item.finished = True
        return True

    def finish_response(self, response_id: str) -> list[str]:
        """Finish what is open of a response; returns those items."""
        return [
            item_id
            for item_id, item in self._items.items()
            if item.response_id == response_id and self.finish(item_id)
        ]

    def has_audio(self, response_id: str) -> bool:
        return any(item.received > 0 for item in self._items.values() if item.response_id == response_id)

    def received_ms(self, item_id: str) -> int:
        item = self._items.get(item_id)
        return item.received // self._bytes_per_ms if item else 0

    def mute(self, response_id: str) -> None:
        """Let nothing more of this response be heard."""
        self._muted[response_id] = None
        if len(self._muted) > _RESPONSES_KEPT:
            del self._muted[next(iter(self._muted))]

    def is_muted(self, response_id: str) -> bool:
        return response_id in self._muted

    def cut(self, item_id: str, heard_ms: int) -> list[tuple[str, int]]:
        """
        Note that playing stopped ``heard_ms`` into an item; returns ``(item, ms)`` to truncate.

        An item that was heard in full is left alone; what was received after it was never
        started, so nothing of it was heard. An unknown item cuts nothing.
        """
        if item_id not in self._items:
            return []
        order = list(self._items)
        later = order[order.index(item_id) + 1 :]
        cuts = [(item_id, heard_ms), *((other, 0) for other in later)]
        return [cut for cut in (self._cut(*each) for each in cuts) if cut is not None]

    def cut_unheard(self, response_id: str) -> list[tuple[str, int]]:
        """Cut the items of a muted response of which nothing was ever shown."""
        unheard = [
            item_id
            for item_id, item in self._items.items()
            if item.response_id == response_id and not item.shown
        ]
        return [cut for cut in (self._cut(item_id, 0) for item_id in unheard) if cut is not None]

    def _cut(self, item_id: str, heard_ms: int) -> tuple[str, int] | None:
        item = self._items[item_id]
        received_ms = item.received // self._bytes_per_ms
        if item.truncated or received_ms == 0 or (item.finished and heard_ms >= received_ms):
            return None
        item.truncated = True
        return item_id, max(0, min(heard_ms, received_ms))
