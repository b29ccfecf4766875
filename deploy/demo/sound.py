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
PAUSE_MS = 260
"""Silence between two frames, in all, that is no hole: after a stall of the machine the pacer skips ahead."""
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
    paused_ms: int
    """Silence that stands between its frames; nothing is missing there."""

    @property
    def complete(self) -> bool:
        return self.heard_ms >= self.of_ms

    @property
    def ends_ms(self) -> float:
        return self.begins_ms + self.heard_ms + self.paused_ms


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
    begins = _beginning(wanted, track)
    if begins is None:
        return None
    heard, unheard, worst, paused = _follow(wanted, track, begins)
    return Match(
        begins_ms=begins / RATE * 1000,
        heard_ms=heard * 1000 // RATE,
        unheard_ms=unheard * 1000 // RATE,
        of_ms=end * 1000 // RATE,
        worst=worst,
        paused_ms=paused * 1000 // RATE,
    )


def _beginning(wanted: Samples, track: Samples) -> int | None:
    """Find where a recording begins: by half a second of it, or by less, if a pause came so early."""
    probe_at = _first_audible(wanted)
    for length in (RATE // 2, RATE // 6):
        probe = wanted[probe_at : probe_at + length]
        if not probe.size or len(track) < len(probe):
            return None
        fits = correlate(probe, track)
        at = int(np.argmax(fits))
        if fits[at] >= ALIKE:
            return at - probe_at
    return None


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


def _follow(wanted: Samples, track: Samples, begins: int) -> tuple[int, int, float, int]:
    """Compare frame by frame; return the samples heard, where it breaks, the worst fit and the pauses."""
    worst, heard, paused = 1.0, 0, 0
    for at in range(0, len(wanted), FRAME):
        frame = wanted[at : at + FRAME]
        if np.sqrt((frame**2).mean()) < AUDIBLE_RMS:
            continue  # silence proves nothing: it counts once something audible after it was heard
        fit = _fit_near(frame, track, begins + at + paused)
        if fit < ALIKE:
            pause, fit = _after_a_pause(frame, track, begins + at + paused, PAUSE_MS * RATE // 1000 - paused)
            if fit < ALIKE:
                return heard, at, worst, paused
            paused += pause
        heard, worst = at + FRAME, min(worst, fit)
    return heard, len(wanted), worst, paused


def _after_a_pause(frame: Samples, track: Samples, at: int, most: int) -> tuple[int, float]:
    """Look for a frame behind silence that begins where the frame should be, or a little before."""
    for pause in range(FRAME, most + 1, FRAME):
        between = track[at : at + pause - FRAME]
        if between.size and np.sqrt((between**2).mean()) >= AUDIBLE_RMS:
            break
        fit = _fit_near(frame, track, at + pause)
        if fit >= ALIKE:
            return pause, fit
    return 0, 0.0


def _fit_near(frame: Samples, track: Samples, at: int) -> float:
    low = max(at - SLACK, 0)
    near = track[low : at + SLACK + len(frame)]
    return float(correlate(frame, near).max()) if len(near) >= len(frame) else 0.0
