"""
What a fake server was told and what it said, as JSON lines: a record that no client has a hand in.

Each line has ``session`` (1 for the first that was opened), ``at`` (Unix time), ``side`` (``client`` or
``server``) and ``event``, the message as it was on the wire. Audio is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import IO, TypeAlias

import orjson

Note: TypeAlias = Callable[[str, Mapping[str, object]], None]
"""Takes ``client`` or ``server`` and an event."""


class Journal:
    """
    Writes down the events of all sessions of a server.

    Args:
        file: Binary; each line is written through at once, so that a reader may follow it.
        clock: Unix time.
    """

    def __init__(self, file: IO[bytes], clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock

    def of(self, session: int) -> Note:
        """Return what notes the events of one session."""

        def note(side: str, event: Mapping[str, object]) -> None:
            line = {"session": session, "at": round(self._clock(), 3), "side": side, "event": event}
            self._file.write(orjson.dumps(line) + b"\n")
            self._file.flush()

        return note
