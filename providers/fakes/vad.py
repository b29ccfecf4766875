"""
Who is speaking: voice activity by energy, or by a written timeline, on the clock of the audio.

Both detectors count the samples they were given and never read a clock: 300 ms of audio is
300 ms, however fast it arrived. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from providers.fakes.g711 import Samples, decode
from providers.types import AudioFormat

WINDOW_MS = 20
"""The energy of this much audio decides at a time."""


@dataclass(frozen=True, slots=True)
class VadSettings:
    """
    How speech is told from silence.

    ``threshold`` (0 to 1) means what it means to OpenAI, more is stricter; here 0 is -60 dBFS and 1
    is -10 dBFS, so that the default of 0.5 stands at -35 dBFS, well below telephone speech.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_ms: int = 500
    onset_ms: int = 60
    """So much loud audio in a row is speech; less is a click."""

    @property
    def floor(self) -> float:
        """Mean square of 16-bit samples at the threshold."""
        dbfs = -60.0 + 50.0 * self.threshold
        return float((32768.0 * 10.0 ** (dbfs / 20.0)) ** 2)


@dataclass(frozen=True, slots=True)
class VoiceStarted:
    """Speech was heard; it began at ``start_ms`` of all audio, the prefix padding included."""

    start_ms: int


@dataclass(frozen=True, slots=True)
class VoiceStopped:
    """Silence was heard for long enough; ``end_ms`` includes that silence."""

    end_ms: int


VoiceEvent: TypeAlias = VoiceStarted | VoiceStopped


class Detector(Protocol):
    """Hears audio in call order."""

    @property
    def speaking(self) -> bool: ...

    @property
    def heard_ms(self) -> int:
        """All audio so far."""
        ...

    def hear(self, audio: bytes) -> list[VoiceEvent]: ...

    def reset(self) -> None:
        """Forget speech that has begun (the buffer was committed or cleared); the clock goes on."""
        ...

    def follow(self, fmt: AudioFormat, settings: VadSettings) -> None:
        """Go on with another format or other settings, also in the middle of a turn."""
        ...


class _Clock:
    """Counts audio in milliseconds, through changes of its format."""

    def __init__(self, fmt: AudioFormat) -> None:
        self._format = fmt
        self._base_ms = 0
        self._bytes = 0

    @property
    def ms(self) -> int:
        return self._base_ms + self._bytes // self._format.bytes_per_ms

    def count(self, audio: bytes) -> None:
        self._bytes += len(audio)

    def follow(self, fmt: AudioFormat) -> None:
        self._base_ms, self._bytes, self._format = self.ms, 0, fmt


class EnergyVad:
    """
    Speech is what is louder than a threshold.

    Args:
        fmt: What ``hear`` takes. Chunks may have any length; a rest waits for its window.
        settings: What is speech, and how long a pause ends it.
    """

    def __init__(self, fmt: AudioFormat, settings: VadSettings) -> None:
        self._clock = _Clock(fmt)
        self._take(fmt, settings)
        self._windows_ms = 0
        self._loud = 0
        self._quiet_ms = 0
        self._earliest_ms = 0
        self.speaking = False

    def _take(self, fmt: AudioFormat, settings: VadSettings) -> None:
        self._format = fmt
        self._settings = settings
        self._floor = settings.floor
        self._onset_windows = max(1, -(-settings.onset_ms // WINDOW_MS))
        self._window_bytes = fmt.bytes_per_ms * WINDOW_MS
        self._rest = b""

    @property
    def heard_ms(self) -> int:
        return self._clock.ms

    def follow(self, fmt: AudioFormat, settings: VadSettings) -> None:
        self._clock.follow(fmt)
        self._windows_ms = self._clock.ms
        self._take(fmt, settings)

    def hear(self, audio: bytes) -> list[VoiceEvent]:
        self._clock.count(audio)
        data = self._rest + audio if self._rest else audio
        whole = len(data) - len(data) % self._window_bytes
        self._rest = data[whole:]
        if not whole:
            return []
        samples = decode(data[:whole], self._format.encoding)
        return [event for loud in self._loudness(samples) for event in self._window(loud=loud)]

    def reset(self) -> None:
        self.speaking = False
        self._loud = self._quiet_ms = 0
        self._earliest_ms = self._windows_ms

    def _loudness(self, samples: Samples) -> list[bool]:
        windows = samples.reshape(-1, self._format.rate * WINDOW_MS // 1000).astype(np.float32)
        energy = np.einsum("ij,ij->i", windows, windows) / windows.shape[1]
        return [bool(loud) for loud in energy > self._floor]

    def _window(self, *, loud: bool) -> Iterator[VoiceEvent]:
        self._windows_ms += WINDOW_MS
        if not self.speaking:
            self._loud = self._loud + 1 if loud else 0
            if self._loud >= self._onset_windows:
                self.speaking, self._quiet_ms = True, 0
                onset = self._windows_ms - self._loud * WINDOW_MS
                yield VoiceStarted(max(onset - self._settings.prefix_padding_ms, self._earliest_ms))
        elif loud:
            self._quiet_ms = 0
        else:
            self._quiet_ms += WINDOW_MS
            if self._quiet_ms >= self._settings.silence_ms:
                self.reset()
                yield VoiceStopped(self._windows_ms)


class TimelineVad:
    """
    Speech is where the script says so, whatever the audio holds.

    Args:
        fmt: What ``hear`` takes.
        turns: ``(start_ms, end_ms)`` of each turn on the clock of the audio, in order.
    """

    def __init__(self, fmt: AudioFormat, turns: Iterable[tuple[int, int]]) -> None:
        self._clock = _Clock(fmt)
        self._edges = [edge for turn in turns for edge in turn]
        self.speaking = False

    @property
    def heard_ms(self) -> int:
        return self._clock.ms

    def follow(self, fmt: AudioFormat, settings: VadSettings) -> None:
        self._clock.follow(fmt)

    def hear(self, audio: bytes) -> list[VoiceEvent]:
        self._clock.count(audio)
        events: list[VoiceEvent] = []
        while self._edges and self.heard_ms >= self._edges[0]:
            at_ms = self._edges.pop(0)
            events.append(VoiceStopped(at_ms) if self.speaking else VoiceStarted(at_ms))
            self.speaking = not self.speaking
        return events

    def reset(self) -> None:
        if self.speaking:
            self._edges.pop(0)
        self.speaking = False


def detector(
    fmt: AudioFormat,
    settings: VadSettings,
    timeline: Iterable[tuple[int, int]] | None,
) -> Detector:
    """Return the detector that a script asks for: its timeline, else energy."""
    if timeline is not None:
        return TimelineVad(fmt, timeline)
    return EnergyVad(fmt, settings)
