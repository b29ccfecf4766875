"""
Two voices on one clock (no I/O): the caller left, the agent right.

Frames come with the moment at which they were heard or sent. Network and event loop make those
moments jitter, so a frame that comes nearly where the last one ended simply follows it; only a real
pause becomes silence, and nothing is ever written over something else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = NDArray[np.int16]
Stereo: TypeAlias = NDArray[np.int16]
"""Shape ``(frames, 2)``."""

CALLER, AGENT = 0, 1

_TOLERANCE_S = 0.04
"""A frame this far from the end of the last one still follows it."""
_WINDOW_S = 2.0
"""How long the end of the recording stays open for frames that come late."""
_AHEAD_S = 60
"""Audio this far ahead of its own clock is thrown away, so that memory is bounded."""
_BLOCK_S = 10
"""Longest block that is made at once, whatever the silence."""


class _Track:
    """One channel from ``begin`` on: pieces of audio and, as plain numbers, of silence."""

    def __init__(self, rate: int, *, elastic: bool) -> None:
        self._rate = rate
        self._elastic = elastic
        self._pieces: deque[Samples | int] = deque()
        self.begin = 0
        self.end = 0

    def add(self, start: int, samples: Samples) -> None:
        tolerance = int(_TOLERANCE_S * self._rate)
        lead = start - self.end
        if lead > tolerance:
            self._pieces.append(lead)
            self.end += lead
        elif lead < -tolerance and self._elastic:
            self._close_gaps(-lead)
        if self.end - start > _AHEAD_S * self._rate:
            return
        self._pieces.append(samples)
        self.end += len(samples)

    def _close_gaps(self, excess: int) -> None:
        """
        Take back silence that was only a delay: what was said in it comes now, in a burst.
        """
        for index in range(len(self._pieces) - 1, -1, -1):
            piece = self._pieces[index]
            if isinstance(piece, int):
                taken = min(piece, excess)
                self._pieces[index] = piece - taken
                self.end -= taken
                excess -= taken
            if not excess:
                return

    def pop(self, count: int) -> Samples:
        """Take ``count`` samples off the front; what is not there is silence."""
        block = np.zeros(count, np.int16)
        filled = 0
        while filled < count and self._pieces:
            piece = self._pieces.popleft()
            room = count - filled
            if isinstance(piece, int):
                used = min(piece, room)
                rest: Samples | int = piece - used
                more = rest > 0
            else:
                used = min(len(piece), room)
                block[filled : filled + used] = piece[:used]
                rest = piece[used:]
                more = len(rest) > 0
            filled += used
            if more:
                self._pieces.appendleft(rest)
        self.begin += count
        self.end = max(self.end, self.begin)
        return block


class StereoTimeline:
    """
    Collects frames and gives out finished stereo blocks.

    Args:
        rate: Samples a second.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        # A caller's burst was spoken before it came; an agent's is heard after it was sent.
        self._tracks = (_Track(rate, elastic=True), _Track(rate, elastic=False))

    @property
    def written(self) -> int:
        """Frames that were given out."""
        return self._tracks[CALLER].begin

    @property
    def pending(self) -> int:
        """Frames that wait to be given out."""
        return max(track.end for track in self._tracks) - self.written

    def add(self, channel: int, at: float, samples: Samples) -> None:
        """
        Add a frame.

        Args:
            channel: ``CALLER`` or ``AGENT``.
            at: When its first sample was heard, in seconds from the beginning.
            samples: 16-bit samples.
        """
        self._tracks[channel].add(max(round(at * self._rate), 0), samples)

    def take(self, now: float) -> Iterator[Stereo]:
        """Give out everything that is older than the window."""
        yield from self._pop(round((now - _WINDOW_S) * self._rate))

    def finish(self, end: float) -> Iterator[Stereo]:
        """Give out the rest; the recording lasts until ``end`` or longer, if audio does."""
        yield from self._pop(max(round(end * self._rate), *(track.end for track in self._tracks)))

    def _pop(self, until: int) -> Iterator[Stereo]:
        while (count := min(until - self.written, _BLOCK_S * self._rate)) > 0:
            yield np.stack([track.pop(count) for track in self._tracks], axis=1)
