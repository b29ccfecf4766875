"""
Keeping the model's clock going when nothing comes from the caller (pure, time is an argument).

The clock of a session is the audio that it gets: on hold, with silence suppression or when packets are lost
the model would stand still, in the middle of a word. So what is missing is filled with silence. Packets that
were only late then come on top of that, and a little of such surplus is remembered, so that it does not grow.
"""

from __future__ import annotations

PATIENCE = 0.1
"""Seconds without audio after which it is missing, not late."""
STEP_MS = 40
"""How much silence goes at a time."""
_GRAIN_MS = 40
_MOST_MS = 400
"""More is not made up for: then we ourselves stood still."""


class Uplink:
    """Counts what was sent against the time."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._at = 0.0
        self._sent_ms = 0.0

    def begin(self, now: float) -> None:
        """Let the clock run from now on; harmless when it runs."""
        if self._began is None:
            self._began = now
            self._at = now + STEP_MS / 1000

    def sent(self, ms: float, now: float) -> None:
        """Count audio of the caller that is sent now; on the audio path."""
        if self._began is None:
            self.begin(now)
        assert self._began is not None
        self._sent_ms += ms
        elapsed_ms = (now - self._began) * 1000
        if self._sent_ms - elapsed_ms > _MOST_MS:
            self._sent_ms = elapsed_ms + _MOST_MS
        self._at = now + PATIENCE

    def next_timeout(self) -> float | None:
        """When to call :meth:`fill`, or ``None`` before the clock runs."""
        return None if self._began is None else self._at

    def fill(self, now: float) -> int:
        """Return how many milliseconds of silence to send now. Calling early is harmless."""
        if self._began is None or now < self._at:
            return 0
        self._at = now + STEP_MS / 1000
        elapsed_ms = (now - self._began) * 1000
        owed_ms = elapsed_ms - self._sent_ms
        if owed_ms > _MOST_MS:
            self._sent_ms = elapsed_ms - _MOST_MS
            owed_ms = _MOST_MS
        whole_ms = max(0, int(owed_ms // _GRAIN_MS)) * _GRAIN_MS
        self._sent_ms += whole_ms
        return whole_ms
