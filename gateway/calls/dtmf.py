"""Keys that a caller presses, collected into what they mean together (no I/O)."""

from __future__ import annotations

PAUSE_S = 1.2
"""After this long without another key the digits are complete."""


class DtmfCollector:
    """Collects keys until a pause or ``#``."""

    def __init__(self) -> None:
        self._digits = ""
        self._at = 0.0

    def add(self, digit: str, *, now: float) -> bool:
        """Take a key; ``True`` for the first one, when somebody has to begin waiting."""
        first = not self._digits
        self._digits += digit
        self._at = now
        return first

    def due(self, *, now: float) -> float:
        """Return in how many seconds the digits are complete; 0 when they are."""
        if self._digits.endswith("#"):
            return 0.0
        return max(0.0, self._at + PAUSE_S - now)

    def take(self) -> str:
        """Take the digits."""
        digits, self._digits = self._digits, ""
        return digits
