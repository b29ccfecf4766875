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

from gateway.media import g711
from providers.types import AudioFormat

Samples: TypeAlias = NDArray[np.int16]
Stereo: TypeAlias = NDArray[np.int16]
"""Shape ``(frames, 2)``."""

CALLER, AGENT = 0, 1

_TOLERANCE_S = 0.04
"""A frame this far from the end of the last one still follows it."""
_WINDOW_S = 2.0
"""How long the end of the recording stays open for frames that come late."""
_STEP_S = 1.0
"""Less than this is not given out yet: one long block costs less than many short ones."""
_AHEAD_S = 60
"""Audio this far ahead of its own clock is thrown away, so that memory is bounded."""
_BLOCK_S = 10
"""Longest block that is made at once, whatever the silence."""

_SILENCE = {"pcmu": b"\xff", "pcma": b"\xd5", "pcm16": b"\0\0"}


class _Track:
    """
    One channel from ``begin`` on: pieces of encoded audio and, as plain numbers, of silence.

    Positions are samples. Audio stays encoded until a whole block of it is wanted: a decoder that is
    called for each frame costs more than all the rest.
    """

    def __init__(self, line: AudioFormat, *, elastic: bool) -> None:
        self._rate = line.rate
        self._encoding = line.encoding
        self._silence = _SILENCE[line.encoding]
        self._elastic = elastic
        self._pieces: deque[bytes | int] = deque()
        self.begin = 0
        self.end = 0

    def add(self, start: int, audio: bytes) -> None:
        lead = start - self.end
        if lead > _TOLERANCE_S * self._rate:
            self._pieces.append(lead)
            self.end = start
        elif lead < -_TOLERANCE_S * self._rate and self._elastic:
            self._close_gaps(-lead)
        if self.end - start <= _AHEAD_S * self._rate:
            self._pieces.append(audio)
            self.end += len(audio) // len(self._silence)

    def _close_gaps(self, excess: int) -> None:
        """Take back silence that was only a delay: what was said in it comes now, in a burst."""
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
        width = len(self._silence)
        block: list[bytes] = []
        room = count
        while room and self._pieces:
            piece = self._pieces.popleft()
            length = piece if isinstance(piece, int) else len(piece) // width
            if length > room:
                self._pieces.appendleft(length - room if isinstance(piece, int) else piece[room * width :])
            used = min(length, room)
            block.append(self._silence * used if isinstance(piece, int) else piece[: used * width])
            room -= used
        block.append(self._silence * room)
        self.begin += count
        self.end = max(self.end, self.begin)
        return self._decode(b"".join(block))

    def _decode(self, audio: bytes) -> Samples:
        match self._encoding:
            case "pcmu" | "pcma" as law:
                return g711.decode(law, audio)
            case "pcm16":
                return np.frombuffer(audio, "<i2")


class StereoTimeline:
    """
    Collects frames and gives out finished stereo blocks.

    Args:
        line: The format of all frames.
    """

    def __init__(self, line: AudioFormat) -> None:
        self._rate = line.rate
        self._width = line.bytes_per_ms * 1000 // line.rate
        # A caller's burst was spoken before it came; an agent's is heard after it was sent.
        self._tracks = (_Track(line, elastic=True), _Track(line, elastic=False))

    @property
    def written(self) -> int:
        """Frames that were given out."""
        return self._tracks[CALLER].begin

    @property
    def pending(self) -> int:
        """Frames that wait to be given out."""
        return max(track.end for track in self._tracks) - self.written

    def add_caller(self, at: float, audio: bytes) -> None:
        """Add audio that was heard until ``at``: it came in while it was spoken."""
        audio = self._whole(audio)
        start = round(at * self._rate) - len(audio) // self._width
        self._tracks[CALLER].add(max(start, 0), audio)

    def add_agent(self, at: float, audio: bytes) -> None:
        """Add audio that was sent at ``at``."""
        self._tracks[AGENT].add(max(round(at * self._rate), 0), self._whole(audio))

    def take(self, now: float) -> Iterator[Stereo]:
        """Give out what is older than the window, if it is worth it."""
        until = round((now - _WINDOW_S) * self._rate)
        if until - self.written >= _STEP_S * self._rate:
            yield from self._pop(until)

    def finish(self, end: float) -> Iterator[Stereo]:
        """Give out the rest; the recording lasts until ``end`` or longer, if audio does."""
        yield from self._pop(max(round(end * self._rate), *(track.end for track in self._tracks)))

    def _whole(self, audio: bytes) -> bytes:
        """Cut off half a sample, which would turn all that follows into noise."""
        return audio if len(audio) % self._width == 0 else audio[: -(len(audio) % self._width)]

    def _pop(self, until: int) -> Iterator[Stereo]:
        while (count := min(until - self.written, _BLOCK_S * self._rate)) > 0:
            yield np.stack([track.pop(count) for track in self._tracks], axis=1)
