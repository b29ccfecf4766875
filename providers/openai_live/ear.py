"""
Whether the caller speaks, told from the caller's audio (pure; time is counted in audio).

A session of GPT-Live has no events for this. What is found here moves the transcript, latency, tool rounds
and the goodbye, and it decides who has the floor when both speak (:mod:`providers.openai_live.voice`); when
to *answer* is the model's own business.

A line hums, so the threshold follows the noise: it stands 8 dB above the quietest audio of the last
seconds, where that is higher than the configured one. While the agent is heard it stands 6 dB higher, since
some of that comes back as an echo.
"""

from __future__ import annotations

from enum import Enum

from providers.openai_live.level import Power, power_at

ONSET_MS = 60
"""So much speech in a row is speech; less is a click."""
_ABOVE_NOISE = 6.3
_ABOVE_ECHO = 4.0
_NOISE_RISE = 1.0005
"""By which the estimate of the noise grows with each millisecond: 2 dB a second."""
_NOISE_RISE_20 = _NOISE_RISE**20
_NOISE_FIRST = power_at(-60.0)


class Heard(Enum):
    """What changed with a piece of audio."""

    STARTED = "started"
    STOPPED = "stopped"


class Ear:
    """
    Listens to one caller.

    Args:
        threshold: How loud speech must be, 0 (-60 dBFS) to 1 (-10 dBFS).
        silence_ms: Silence that ends a turn.
    """

    def __init__(self, *, threshold: float, silence_ms: int) -> None:
        self._floor = power_at(-60.0 + 50.0 * threshold)
        self._silence_ms = silence_ms
        self._noise = _NOISE_FIRST
        self._onset_ms = 0
        self._quiet_ms = 0
        self.speaking = False
        self.heard_ms = 0
        """All audio so far."""
        self.began_ms = 0
        """Where the last speech began."""
        self.loud = False
        """Whether the last piece was speech."""

    @property
    def pausing_ms(self) -> int:
        """How long the caller has been quiet within a turn."""
        return self._quiet_ms if self.speaking else 0

    def hear(self, power: Power, ms: int, *, agent_heard: bool) -> Heard | None:
        """Take a piece of audio; says whether speech began or ended with it."""
        self.heard_ms += ms
        threshold = max(self._floor, self._noise * _ABOVE_NOISE)
        self.loud = power > (threshold * _ABOVE_ECHO if agent_heard else threshold)
        self._noise = min(max(power, 1.0), self._noise * (_NOISE_RISE_20 if ms == 20 else _NOISE_RISE**ms))
        if self.speaking:
            self._quiet_ms = 0 if self.loud else self._quiet_ms + ms
            if self._quiet_ms >= self._silence_ms:
                return self.stop()
            return None
        self._onset_ms = self._onset_ms + ms if self.loud else 0
        if self._onset_ms < ONSET_MS:
            return None
        self.speaking, self._quiet_ms = True, 0
        self.began_ms = self.heard_ms - self._onset_ms
        return Heard.STARTED

    def stop(self) -> Heard:
        """End the turn now: the agent has begun to answer it."""
        self.speaking, self._onset_ms, self._quiet_ms = False, 0, 0
        return Heard.STOPPED
