"""
Concealment of lost packets in a G.711 stream, after the idea of G.711 appendix I.

The last pitch period is repeated and faded out over 60 ms; the first good frame is cross-faded with it.
Good frames of an undisturbed stream pass untouched.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from gateway.media.g711 import Law, decode, encode
from gateway.media.playout import SILENCE_BYTE

_RATE_MS = 8  # samples in a millisecond
_SHORTEST_PITCH = 40  # 200 Hz
_LONGEST_PITCH = 120  # 66 Hz
_WINDOW = 160
_FULL_MS = 10
_SILENT_MS = 60
_JOIN = 40
_QUIETEST = 32.0

_FULL = _FULL_MS * _RATE_MS
_SILENT = _SILENT_MS * _RATE_MS


class Concealer:
    """Fills the gaps of one stream."""

    def __init__(self, law: Law) -> None:
        self._law: Law = law
        self._silence = SILENCE_BYTE[law]
        self._history: deque[bytes] = deque(maxlen=5)
        self._period: NDArray[np.float64] | None = None
        self._gap = 0  # samples since the last good one

    def good(self, frame: bytes) -> bytes:
        """Pass a frame that came; the first one after a gap is joined to what was made up."""
        if self._gap:
            frame = self._join(frame)
            self._gap = 0
            self._period = None
        self._history.append(frame)
        return frame

    def silence(self, duration_ms: int) -> bytes:
        """Make silence that the sender meant."""
        frame = self._silence * (duration_ms * _RATE_MS)
        self._gap = 0
        self._history.clear()
        return frame

    def lost(self, duration_ms: int) -> bytes:
        """Make up for audio that did not come; a gap may be reported in several pieces."""
        count = duration_ms * _RATE_MS
        if not self._gap:
            self._period = self._find_period()
        start, self._gap = self._gap, self._gap + count
        if self._period is None or start >= _SILENT:
            return self._silence * count
        voiced = min(count, _SILENT - start)
        made = encode(self._law, self._extrapolate(start, voiced).astype(np.int16))
        return made + self._silence * (count - voiced)

    def _join(self, frame: bytes) -> bytes:
        if self._period is None or self._gap >= _SILENT or len(frame) < _JOIN:
            return frame
        rise = (np.arange(_JOIN) + 1) / (_JOIN + 1)
        head = decode(self._law, frame[:_JOIN]) * rise + self._extrapolate(self._gap, _JOIN) * (1 - rise)
        return encode(self._law, head.astype(np.int16)) + frame[_JOIN:]

    def _extrapolate(self, start: int, count: int) -> NDArray[np.float64]:
        assert self._period is not None
        index = np.arange(start, start + count)
        fade = np.clip((_SILENT - index) / (_SILENT - _FULL), 0.0, 1.0)
        repeated: NDArray[np.float64] = self._period[index % len(self._period)]
        return repeated * fade

    def _find_period(self) -> NDArray[np.float64] | None:
        """Take the last pitch period, its end blended into its beginning."""
        samples = decode(self._law, b"".join(self._history)).astype(np.float64)
        if len(samples) < _WINDOW + _LONGEST_PITCH or np.sqrt(np.mean(samples[-_WINDOW:] ** 2)) < _QUIETEST:
            return None
        recent = samples[-_WINDOW:]
        past = samples[-_WINDOW - _LONGEST_PITCH :]
        scores = np.correlate(past, recent, "valid")[: _LONGEST_PITCH - _SHORTEST_PITCH + 1]
        energy = np.convolve(past**2, np.ones(_WINDOW), "valid")[: len(scores)]
        pitch = _LONGEST_PITCH - int(np.argmax(scores / np.sqrt(energy + 1.0)))
        period = samples[-pitch:].copy()
        seam = pitch // 4
        rise = (np.arange(seam) + 1) / (seam + 1)
        before = samples[-pitch - seam : -pitch]
        period[-seam:] = period[-seam:] * (1 - rise) + before * rise
        return period
