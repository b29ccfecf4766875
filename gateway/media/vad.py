"""
Voice activity by energy: coarse, cheap and deterministic. The model's own turn detection stays the judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gateway.media.levels import rms
from providers.types import AudioFormat


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    at_ms: int
    """Where the speech began, in the audio that was fed."""


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    at_ms: int
    """Where the speech ended; it is known only ``hang_ms`` later."""


VadEvent: TypeAlias = SpeechStarted | SpeechStopped


class EnergyVad:
    """
    Finds speech in a stream of frames.

    The threshold follows the background: it is ``factor`` times the quietest level of late, but at least
    ``floor``. Speech must last ``attack_ms`` to count, and silence ``hang_ms`` to end it.

    Args:
        audio_format: Of the frames.
        floor: Lowest threshold, RMS on the scale of 16-bit samples.
        factor: How far above the background speech is; 4 is 12 dB.
        attack_ms: Shortest speech.
        hang_ms: Shortest pause.
    """

    def __init__(
        self,
        audio_format: AudioFormat,
        *,
        floor: float = 200.0,
        factor: float = 4.0,
        attack_ms: int = 60,
        hang_ms: int = 300,
    ) -> None:
        self.speaking = False
        self._format = audio_format
        self._floor = floor
        self._factor = factor
        self._attack_ms = attack_ms
        self._hang_ms = hang_ms
        self._fed = 0  # bytes
        self._changed_at_ms = (
            0  # where the present run of loud or quiet frames that may become a change began
        )
        self._run_ms = 0
        self._background = floor / factor

    @property
    def position_ms(self) -> int:
        """How much was fed."""
        return self._fed // self._format.bytes_per_ms

    def feed(self, frame: bytes) -> VadEvent | None:
        """Take the next frame, 10 to 60 ms; return what it has made certain."""
        start_ms = self.position_ms
        self._fed += len(frame)
        duration_ms = self.position_ms - start_ms
        level = rms(self._format, frame)
        loud = level >= max(self._floor, self._background * self._factor)
        self._follow(level, duration_ms)
        if loud == self.speaking:
            self._run_ms = 0
            return None
        if not self._run_ms:
            self._changed_at_ms = start_ms
        self._run_ms += duration_ms
        if self._run_ms < (self._hang_ms if self.speaking else self._attack_ms):
            return None
        self._run_ms = 0
        self.speaking = loud
        return SpeechStarted(self._changed_at_ms) if loud else SpeechStopped(self._changed_at_ms)

    def _follow(self, level: float, duration_ms: int) -> None:
        """Sink to a quieter background at once, rise to a louder one within some seconds."""
        if level < self._background:
            self._background = level
        else:
            rise = duration_ms / (20_000 if self.speaking else 4_000)
            self._background += (level - self._background) * min(rise, 1.0)
