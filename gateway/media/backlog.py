"""
How much may wait between two lines (pure): a relay neither stutters nor falls behind.

What is relayed waits in the other line's play-out. Two telephones' clocks differ, a key press or a hold
stops the play-out for a while: what waits then would never get less by itself, so that both would hear each
other ever later. A frame now and then is left out instead.
"""

from __future__ import annotations

import math

TARGET_MS = 60
"""What may wait in the best moment of a second; jitter needs some."""
LIMIT_MS = 240
"""What may wait at any moment."""
WINDOW = 50
"""Frames after which the best moment is looked at: a second."""


class Backlog:
    """
    Says of each frame whether it goes on or is left out.

    Args:
        frame_ms: Length of the frames.
    """

    def __init__(self, *, frame_ms: int = 20) -> None:
        self.dropped = 0
        self._frame_ms = frame_ms
        self._least = math.inf
        self._seen = 0
        self._surplus = 0

    def admits(self, waiting_ms: float) -> bool:
        """Say whether the next frame goes on while so much waits."""
        self._least = min(self._least, waiting_ms)
        self._seen += 1
        if self._seen >= WINDOW:
            self._surplus = max(0, int((self._least - TARGET_MS) // self._frame_ms))
            self._seen, self._least = 0, math.inf
        if self._surplus > 0:
            self._surplus -= 1
        elif waiting_ms < LIMIT_MS:
            return True
        self.dropped += 1
        return False
