"""Tones that a caller hears while somebody else is called (ITU-T E.180, supplement 2; pure)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gateway.media.convert import converter
from providers.types import AudioFormat

_RATE = 8000
_AMPLITUDE = 3200
"""About -20 dBm0 for one frequency."""
_EDGE = 40
"""Samples of fade at each edge, against clicks."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """A tone that comes and goes."""

    hertz: tuple[float, ...]
    """Frequencies that sound together."""
    pattern: tuple[tuple[float, float], ...]
    """On and off, in seconds, again and again."""


EUROPE = Cadence((425,), ((1, 4),))
NORTH_AMERICA = Cadence((440, 480), ((2, 4),))
BRITAIN = Cadence((400, 450), ((0.4, 0.2), (0.4, 2)))
WAITING = Cadence((425,), ((0.15, 4.85),))
"""A short beep every five seconds: somebody is still there."""

_RINGBACKS = (("+1", NORTH_AMERICA), ("+44", BRITAIN))


def ringback(number: str) -> Cadence:
    """Return the ring-back tone of the country of a number; the European one where none is known."""
    return next((cadence for prefix, cadence in _RINGBACKS if number.startswith(prefix)), EUROPE)


@lru_cache(maxsize=32)
def tone(cadence: Cadence, line: AudioFormat) -> bytes:
    """Make one period of a tone in the line's format."""
    pieces: list[np.ndarray[tuple[int], np.dtype[np.int16]]] = []
    for on, off in cadence.pattern:
        times = np.arange(round(on * _RATE)) / _RATE
        sound = sum(np.sin(2 * np.pi * hertz * times) for hertz in cadence.hertz)
        fade = np.minimum(1.0, np.minimum(np.arange(len(times)), np.arange(len(times))[::-1]) / _EDGE)
        loud = (np.asarray(sound) * fade * (_AMPLITUDE / len(cadence.hertz))).astype(np.int16)
        pieces += [loud, np.zeros(round(off * _RATE), np.int16)]
    return converter(AudioFormat("pcm16", _RATE), line).convert(np.concatenate(pieces).tobytes())
