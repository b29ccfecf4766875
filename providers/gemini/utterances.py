"""
What the model said and how much of it the caller heard.

The server keeps as history what it sent, and there is no truncate: the only correction is a note in words.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

_KEPT = 8
_LIMIT = 8000
"""Characters of one utterance."""
_BYTES_PER_MS = 48
_TOLERANCE_MS = 20


@dataclass(slots=True)
class Utterance:
    """The words and the length of one turn of the model; turns count from 1."""

    number: int
    sent_bytes: int = 0
    text: str = ""
    heard_ms: int | None = None
    """How much of it was heard, once it was interrupted."""

    @property
    def sent_ms(self) -> float:
        return self.sent_bytes / _BYTES_PER_MS

    @property
    def heard(self) -> str:
        """The words that were heard, by their share of the audio; cut between words."""
        whole = self.text.strip()
        if self.heard_ms is None or self.heard_ms + _TOLERANCE_MS >= self.sent_ms:
            return whole
        share = self.heard_ms / self.sent_ms
        cut = int(len(whole) * share)
        if cut < len(whole) and not whole[cut].isspace():
            cut = whole.rfind(" ", 0, cut) + 1
        return whole[:cut].rstrip()


class Utterances:
    """Keeps the last utterances by their item's id."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Utterance] = OrderedDict()
        self._count = 0
        self._stopped = 0

    def begin(self, item_id: str) -> Utterance:
        self._count += 1
        self._kept[item_id] = utterance = Utterance(self._count)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return utterance

    def stop(self) -> None:
        """Note that the server itself stopped all that was said so far."""
        self._stopped = self._count

    def is_stopped(self, item_id: str) -> bool:
        """Whether the server knows that an item is no longer heard; of an empty id it knows nothing."""
        utterance = self._kept.get(item_id)
        return bool(item_id) and (utterance is None or utterance.number <= self._stopped)

    def say(self, item_id: str, text: str) -> None:
        """Add words; of an item that is long over they are dropped."""
        utterance = self._kept.get(item_id)
        if utterance is not None:
            utterance.text += text[: max(0, _LIMIT - len(utterance.text))]

    def interrupt(self, item_id: str, heard_ms: int) -> str:
        """Note how much was heard, and return what the model should be told; empty for nothing."""
        utterance = self._kept.get(item_id)
        if utterance is None or heard_ms + _TOLERANCE_MS >= utterance.sent_ms:
            return ""
        utterance.heard_ms = max(0, heard_ms)
        if not (words := utterance.heard):
            return "[The caller interrupted before your last answer could be heard.]"
        return f'[The caller interrupted. Of your last answer only this was heard: "{words}"]'
