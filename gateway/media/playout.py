"""
The heard-truth ledger: what the caller has heard of each item, and nothing guessed.

Audio of named items goes in at any speed; frames of fixed length come out, one for each packet that is
really sent. A frame counts as heard when it was sent *and* its own duration has passed: the next call of
:meth:`Playout.next_frame` (or :meth:`Playout.settle`) says so. Marks, truncation, transcripts and
recordings all read this one ledger.

Rules of play-out:

* Samples are never cut, reordered or held back for longer than ``patience_ms``.
* A talk spurt starts when ``prebuffer_ms`` are queued, when its item is finished, or when it has waited
  for ``patience_ms``. So a provider that sends at the speed of speech does not stutter. What comes behind
  a finished item is a spurt of its own: a server that speaks again as soon as it knows the last words to
  be played sends the first ones just then.
* Underrun (less than a frame is queued and its item is not finished): nothing is played, what is there
  stays queued, and the spurt starts anew by the rule above.
* The last partial frame of a finished item is filled with the next item's first samples if a whole frame
  of them is there, else with silence. A frame filled with silence counts only for its real samples.
* A frame that was sent before :meth:`Playout.clear` cannot be called back: it is counted as heard.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple

from providers.types import AudioFormat

SILENCE_BYTE = {"pcmu": b"\xff", "pcma": b"\xd5", "pcm16": b"\x00"}
"""The byte of which silence is made, by encoding (ITU-T G.711: +0 in mu-law, +0 in A-law)."""

_MAX_ITEMS = 256


class ClearedAudio(NamedTuple):
    """What :meth:`Playout.clear` cut off."""

    item_id: str
    """The item whose audio was dropped first, else the last one that was heard, else empty."""
    heard_ms: int
    """How much of that item was heard."""
    dropped_ms: int
    """Audio thrown away, over all items."""


class _Item:
    __slots__ = ("began_at", "carry", "dropped", "end", "enqueued", "heard", "id", "sent")

    def __init__(self, item_id: str) -> None:
        self.id = item_id
        self.enqueued = 0
        self.sent = 0
        self.heard = 0
        self.dropped = 0
        self.began_at: float | None = None
        """When its first sample was sent."""
        self.end = 0
        """Queue position behind the item's last byte."""
        self.carry = b""
        """Half a PCM sample that waits for its other half."""


class Playout:
    """
    Audio on its way to the caller, in one format.

    Args:
        audio_format: Format of everything that is enqueued and of the frames that come out.
        frame_ms: Length of the frames.
        prebuffer_ms: What must be queued before a talk spurt starts.
        patience_ms: How long queued audio may wait for more of its item.
        limit_ms: Most audio that is kept; what exceeds it is dropped and counted as dropped.
    """

    def __init__(
        self,
        audio_format: AudioFormat,
        *,
        frame_ms: int = 20,
        prebuffer_ms: int = 40,
        patience_ms: int = 100,
        limit_ms: int = 600_000,
    ) -> None:
        self.format = audio_format
        self.frame_ms = frame_ms
        self._frame_s = frame_ms / 1000
        self.underruns = 0
        """How often a talk spurt ran dry before its item was finished."""
        self.sounds_until = 0.0
        """When the last frame that was sent is over, on the clock given to :meth:`next_frame`."""
        self._bytes_per_ms = audio_format.bytes_per_ms
        self._bytes_per_s = audio_format.bytes_per_ms * 1000
        self._sample_bytes = 2 if audio_format.encoding == "pcm16" else 1
        self._frame_bytes = frame_ms * self._bytes_per_ms
        self._prebuffer_bytes = max(prebuffer_ms * self._bytes_per_ms, self._frame_bytes)
        self._patience = -(-patience_ms // frame_ms)
        self._limit_bytes = limit_ms * self._bytes_per_ms
        self._silence = SILENCE_BYTE[audio_format.encoding] * self._frame_bytes
        # The queue. Positions count bytes since the beginning and never go back.
        self._segments: deque[tuple[_Item, bytes]] = deque()
        self._offset = 0  # what of the first segment is gone
        self._head = 0  # sent or dropped
        self._tail = 0  # accepted
        self._flush_to = 0  # everything before is of finished items
        self._heard_to = 0
        self._playing = False
        self._waited = 0  # frames since audio began to wait
        # The ledger.
        self._items: dict[str, _Item] = {}
        self._last_sent: _Item | None = None
        self._pending: tuple[tuple[_Item, int], ...] = ()  # the frame that is being heard now
        self._sent_at = 0.0
        self._marks: deque[tuple[int, int]] = deque()  # (position, mark)
        self._last_mark = 0
        self._reached = 0
        self._newly_reached: list[int] = []

    # Inputs.

    def enqueue(self, audio: bytes, *, item_id: str) -> None:
        """Queue audio behind everything that is queued; any length, also half a sample."""
        item = self._items.get(item_id) or self._new_item(item_id)
        if item.carry:
            audio, item.carry = item.carry + audio, b""
        if self._sample_bytes == 2 and len(audio) & 1:
            audio, item.carry = audio[:-1], audio[-1:]
        item.enqueued += len(audio)
        room = self._limit_bytes - (self._tail - self._head)
        if len(audio) > room:
            item.dropped += len(audio) - room
            audio = audio[:room]
        if audio:
            self._segments.append((item, audio))
            self._tail += len(audio)
            item.end = self._tail

    def finish(self, item_id: str) -> None:
        """Say that no more audio comes for an item, so that nothing of it is held back."""
        item = self._items.get(item_id)
        if item is not None:
            item.carry = b""
            self._flush_to = max(self._flush_to, item.end)

    def mark(self) -> int:
        """Set a mark behind everything that is queued; marks are numbered from 1 upwards."""
        self._last_mark += 1
        if self._tail <= self._heard_to:
            self._reach(self._last_mark)
        else:
            self._marks.append((self._tail, self._last_mark))
        return self._last_mark

    def clear(self) -> ClearedAudio:
        """Drop what was not sent; every mark counts as reached."""
        self.settle()
        current = self._segments[0][0] if self._segments else self._last_sent
        dropped = self._tail - self._head
        offset = self._offset
        for item, audio in self._segments:
            item.dropped += len(audio) - offset
            item.carry = b""
            offset = 0
        self._segments.clear()
        self._offset = 0
        self._head = self._heard_to = self._tail
        self._playing = False
        self._waited = 0
        self.sounds_until = 0.0
        self._settle_marks()
        if current is None:
            return ClearedAudio("", 0, 0)
        return ClearedAudio(current.id, current.heard // self._bytes_per_ms, dropped // self._bytes_per_ms)

    # The send clock.

    def next_frame(self, at: float | None = None) -> bytes | None:
        """
        Take the frame for a packet that is sent now; the one before it has then been heard.

        Args:
            at: When the packet is sent, in seconds; without it the clock runs by one frame for each call.

        Returns:
            A whole frame, or ``None`` when there is nothing to play.
        """
        if self._pending:
            self.settle()
        self._sent_at = self._sent_at + self._frame_s if at is None else at
        queued = self._tail - self._head
        if not queued:
            self._playing = False
            self._waited = 0
            return None
        size = self._frame_bytes
        finished = self._flush_to - self._head
        if not finished:
            self._playing = False  # what is queued is the beginning of another spurt
        if not (
            (self._playing and queued >= size)
            or finished > 0
            or queued >= self._prebuffer_bytes
            or self._waited >= self._patience
        ):
            self._hold_back()
            return None
        self._playing = True
        self._waited = 0
        self.sounds_until = self._sent_at + self._frame_s
        if queued >= size:
            return self._take(size)
        count = finished if finished > 0 else queued
        return self._take(count) + self._silence[count:]

    def settle(self) -> None:
        """Count the frame that was sent last as heard: its duration has passed."""
        for item, count in self._pending:
            item.heard += count
        self._pending = ()
        self._heard_to = self._head
        if self._marks:
            self._settle_marks()

    # Outputs.

    @property
    def reached(self) -> int:
        """The highest mark that was reached, 0 before the first."""
        return self._reached

    def take_reached(self) -> list[int]:
        """Take the marks that were reached since the last call, in order."""
        ready, self._newly_reached = self._newly_reached, []
        return ready

    def heard_ms(self, item_id: str) -> int:
        """How much of an item was heard; 0 for an unknown one."""
        item = self._items.get(item_id)
        return item.heard // self._bytes_per_ms if item else 0

    def began_at(self, item_id: str) -> float | None:
        """When the first sample of an item was sent, on the clock given to :meth:`next_frame`."""
        item = self._items.get(item_id)
        return item.began_at if item else None

    def dropped_ms(self, item_id: str) -> int:
        """How much of an item was cleared or did not fit."""
        item = self._items.get(item_id)
        return item.dropped // self._bytes_per_ms if item else 0

    @property
    def queued_ms(self) -> int:
        """Audio that was not sent yet."""
        return (self._tail - self._head) // self._bytes_per_ms

    # Inside.

    def _new_item(self, item_id: str) -> _Item:
        if len(self._items) >= _MAX_ITEMS:
            # Items are heard in order: where the first are not, a search through all is in vain.
            first = islice(self._items.items(), _MAX_ITEMS)
            done = (key for key, item in first if item.heard + item.dropped == item.enqueued)
            oldest = next(done, None)
            if oldest is not None:
                del self._items[oldest]
        item = self._items[item_id] = _Item(item_id)
        return item

    def _hold_back(self) -> None:
        if self._playing:
            self._playing = False
            self.underruns += 1
        self._waited += 1

    def _take(self, count: int) -> bytes:
        """Remove ``count`` bytes from the queue, which has at least as many."""
        self._head += count
        item, audio = self._segments[0]
        end = self._offset + count
        if end <= len(audio):
            frame = audio[self._offset : end]
            self._offset = end
            if end == len(audio):
                self._segments.popleft()
                self._offset = 0
            if not item.sent:
                item.began_at = self._sent_at
            item.sent += count
            self._last_sent = item
            self._pending = ((item, count),)
            return frame
        return self._take_across(count)

    def _take_across(self, count: int) -> bytes:
        pieces: list[bytes] = []
        taken: list[tuple[_Item, int]] = []
        while count:
            item, audio = self._segments[0]
            piece = audio[self._offset : self._offset + count]
            self._offset += len(piece)
            if self._offset == len(audio):
                self._segments.popleft()
                self._offset = 0
            count -= len(piece)
            if not item.sent:
                sent_before = sum(length for _, length in taken)
                item.began_at = self._sent_at + sent_before / self._bytes_per_s
            item.sent += len(piece)
            self._last_sent = item
            pieces.append(piece)
            taken.append((item, len(piece)))
        self._pending = tuple(taken)
        return b"".join(pieces)

    def _settle_marks(self) -> None:
        while self._marks and self._marks[0][0] <= self._heard_to:
            self._reach(self._marks.popleft()[1])

    def _reach(self, mark: int) -> None:
        self._reached = mark
        self._newly_reached.append(mark)
