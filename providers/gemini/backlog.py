"""The last second of the caller's voice, for a moment in which it cannot be sent."""

from __future__ import annotations

from collections import deque

_BYTES = 32_000
"""One second: what is older would be an answer to a question of the past."""


class Backlog:
    """Keeps the newest pieces of 16 kHz PCM16, up to a second."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, audio: bytes) -> None:
        self._pieces.append(audio)
        self._size += len(audio)
        while self._size > _BYTES:
            self._size -= len(self._pieces.popleft())

    def take(self) -> bytes:
        """Return everything and be empty."""
        audio = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return audio
