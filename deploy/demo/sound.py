"""Finds recordings in captured audio by content: normalised cross-correlation, 8 kHz mono."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]

RATE = 8000
FRAME = 160
AUDIBLE_RMS = 100.0
"""Below this, mu-law leaves too little of a frame to recognise it."""
ALIKE = 0.85
"""Frames that correlate at least so much are the same audio; strangers stay below 0.6."""
SLACK = 4
"""Samples by which a frame may be displaced, for a path that resamples."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a recording lies in a capture."""

    begins_ms: float
    """May be negative when the capture lacks the beginning."""
    heard_ms: int
    """From the recording's beginning to its last frame that is in the capture, without a hole."""
    unheard_ms: int
    """Where the next audible frame begins that was not heard; the recording's end when all was."""
    of_ms: int
    """The recording's own length up to its last audible 20 ms."""
    worst: float
    """The lowest correlation among the audible frames that were heard."""

    @property
    def complete(self) -> bool:
        return self.heard_ms >= self.of_ms

    @property
    def ends_ms(self) -> float:
        return self.begins_ms + self.heard_ms


def audible_end(recording: Samples) -> int:
    """Return the number of samples up to the end of the last audible 20 ms frame."""
    frames = recording[: len(recording) // FRAME * FRAME].reshape(-1, FRAME)
    loud = np.nonzero(np.sqrt((frames**2).mean(axis=1)) >= AUDIBLE_RMS)[0]
    return int(loud[-1] + 1) * FRAME if loud.size else 0


def find(recording: npt.NDArray[np.int16], capture: npt.NDArray[np.int16]) -> Match | None:
    """
    Find a recording from its beginning on; it may break off anywhere.

    Returns:
        ``None`` when not even its first half second of speech is there.
    """
    wanted, track = recording.astype(np.float64), capture.astype(np.float64)
    end = audible_end(wanted)
    wanted = wanted[:end]
    probe_at = _first_audible(wanted)
    probe = wanted[probe_at : probe_at + RATE // 2]
    if not probe.size or len(track) < len(probe):
        return None
    fits = correlate(probe, track)
    at = int(np.argmax(fits))
    if fits[at] < ALIKE:
        return None
    begins = at - probe_at
    heard, unheard, worst = _follow(wanted, track, begins)
    return Match(
        begins_ms=begins / RATE * 1000,
        heard_ms=heard * 1000 // RATE,
        unheard_ms=unheard * 1000 // RATE,
        of_ms=end * 1000 // RATE,
        worst=worst,
    )


def correlate(probe: Samples, track: Samples) -> Samples:
    """Return the normalised correlation (-1..1) of ``probe`` with each position of ``track``."""
    size = 1 << (len(track) + len(probe) - 1).bit_length()
    spectrum = np.fft.rfft(track, size) * np.conj(np.fft.rfft(probe, size))
    raw = np.fft.irfft(spectrum, size)[: len(track) - len(probe) + 1]
    energy = np.concatenate(([0.0], np.cumsum(track**2)))
    energy = energy[len(probe) :] - energy[: -len(probe)]
    scale = np.sqrt(np.maximum(energy, 1.0) * max(float(probe @ probe), 1.0))
    fits: Samples = raw / scale
    return fits


def _first_audible(samples: Samples) -> int:
    for at in range(0, len(samples) - FRAME + 1, FRAME):
        if np.sqrt((samples[at : at + FRAME] ** 2).mean()) >= AUDIBLE_RMS:
            return at
    return 0


def _follow(wanted: Samples, track: Samples, begins: int) -> tuple[int, int, float]:
    """Compare frame by frame; return the samples heard in a row, where it breaks, and the worst fit."""
    worst, heard = 1.0, 0
    for at in range(0, len(wanted), FRAME):
        frame = wanted[at : at + FRAME]
        if np.sqrt((frame**2).mean()) < AUDIBLE_RMS:
            continue  # silence proves nothing: it counts once something audible after it was heard
        fit = _fit_near(frame, track, begins + at)
        if fit < ALIKE:
            return heard, at, worst
        heard, worst = at + FRAME, min(worst, fit)
    return heard, len(wanted), worst


def _fit_near(frame: Samples, track: Samples, at: int) -> float:
    low = max(at - SLACK, 0)
    near = track[low : at + SLACK + len(frame)]
    return float(correlate(frame, near).max()) if len(near) >= len(frame) else 0.0
