"""
One key press, however often and on however many ways it is told (no I/O).

A telephone may send one press as telephone-events, as INFO and as tones in the audio, all three at once
(BR-140). The best way that has brought a key is the call's way; what comes by a lesser one is the same press.
"""

from __future__ import annotations

from enum import IntEnum


class KeyWay(IntEnum):
    """How a key came; the surer way is the greater."""

    INBAND = 0
    INFO = 1
    RFC4733 = 2


_SAME_PRESS_S = 2.0
"""A press that a lesser way told first is told by the better one within this time; INFO comes at its end."""


class Keys:
    """Lets each press of a call through once."""

    def __init__(self) -> None:
        self._way: KeyWay | None = None
        self._last = ("", 0.0)

    def takes(self, digit: str, way: KeyWay, *, now: float) -> bool:
        """Whether a key that came on this way is a press of its own."""
        if self._way is not None and way < self._way:
            return False
        better = self._way is not None and way > self._way
        last, at = self._last
        self._way = way
        self._last = (digit, now)
        return not (better and digit == last and now - at <= _SAME_PRESS_S)

    def forget(self) -> None:
        """The media were agreed on anew: perhaps keys come on another way now."""
        self._way = None
