"""
How much may wait between two lines (pure): a relay neither stutters nor falls behind.

What is relayed waits in the other line's play-out. Two telephones' clocks differ, a key press or a hold
stops the play-out, a network holds packets back for a while: what waits then would never get less by itself,
so that both would hear each other ever later. A quiet frame is left out now and then instead; a frame with
something in it only when all the time allowed is used up.
"""

from __future__ import annotations

import math
from typing import Final

from gateway.rtp.level import QUIET_CODES, is_quiet
from providers.types import AudioFormat

TARGET_MS: Final = 100
"""What may wait in the best moment of a second: the frame that sounds, the start of a spurt, some jitter."""
LIMIT_MS: Final = 300
"""What may wait at any moment."""
WINDOW: Final = 50
"""Frames after which the best moment is looked at: a second."""
_PEAK: Final = 250
"""What is below it is quiet, in 16-bit samples."""
_CODES: Final = {"pcmu": QUIET_CODES[0], "pcma": QUIET_CODES[8]}


class Backlog:
    """
    Says of each frame whether it goes on or is left out.

    Args:
        audio_format: Of the frames.
        frame_ms: Their length.
    """

    def __init__(self, audio_format: AudioFormat, *, frame_ms: int = 20) -> None:
        self.dropped = 0
        self._frame_ms = frame_ms
        self._least = math.inf
        self._seen = 0
        self._surplus = 0
        self._was_quiet = False
        self._codes = _CODES.get(audio_format.encoding)

    def admits(self, audio: bytes, waiting_ms: float) -> bool:
        """Say whether the next frame goes on while so much waits."""
        self._least = min(self._least, waiting_ms)
        self._seen += 1
        if self._seen >= WINDOW:
            self._surplus = max(0, int((self._least - TARGET_MS) // self._frame_ms))
            self._seen, self._least = 0, math.inf
        if waiting_ms >= LIMIT_MS:
            self.dropped += 1
            return False
        if self._surplus > 0:
            # Two in a row: the moment between two syllables is no pause.
            was_quiet, self._was_quiet = self._was_quiet, self._is_quiet(audio)
            if was_quiet and self._was_quiet:
                self._surplus -= 1
                self.dropped += 1
                return False
        return True

    def _is_quiet(self, audio: bytes) -> bool:
        if self._codes is not None:
            return is_quiet(audio, self._codes)
        return max(map(abs, memoryview(audio[: len(audio) // 2 * 2]).cast("h")), default=0) < _PEAK
