"""``sip.jsonl``: the SIP messages of one call, one a line, written as it goes by the recorder's thread."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import orjson
import structlog

from gateway.calls.events import SipMessage

log = structlog.get_logger(__name__)

FILE: Final = "sip.jsonl"


class SipLog:
    """
    One call's file, made with its first message.

    Args:
        folder: The call's folder, which is there.
        call_id: For the log, should the file not be writable.
    """

    def __init__(self, folder: Path, call_id: str) -> None:
        self._file = folder / FILE
        self._call_id = call_id
        self._lines: list[bytes] = []
        self._failed = False

    def add(self, message: SipMessage) -> None:
        """Take a message; :meth:`flush` writes it."""
        entry = {
            "at": round(message.at, 4),
            "sent": message.sent,
            "transport": message.transport,
            "local": message.local,
            "remote": message.remote,
            "message": message.text,
        }
        self._lines.append(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        """Append what was added; a file that cannot be written is told of once and given up."""
        lines, self._lines = self._lines, []
        if not lines or self._failed:
            return
        try:
            with self._file.open("ab") as file:
                file.write(b"".join(lines))
        except OSError as error:
            self._failed = True
            log.error("sip_trace.failed", call_id=self._call_id, error=str(error))  # noqa: TRY400 - one line
