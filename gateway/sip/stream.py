"""
SIP over a byte stream (RFC 3261, section 18.3; keep-alives of RFC 5626, section 3.5.1).

Feed what arrives, take the messages, send what :meth:`StreamFramer.to_send` returns. The
result never depends on where the stream was cut into reads.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.sip.errors import SipError
from gateway.sip.parser import DEFAULT_LIMITS, Limits

_LENGTH: Final = re.compile(rb"\n(?:content-length|l)[ \t]*:[ \t]*([^\r\n]*?)[ \t]*(?=\r?\n)", re.IGNORECASE)
_FOLD: Final = re.compile(rb"\r?\n[ \t]+")
_HEAD_END: Final = b"\r\n\r\n"


class FramingError(SipError):
    """
    The stream cannot be followed any further: answer :attr:`head`, then close the connection.

    :attr:`head` is the offending message as far as it came; the parser will refuse it for the same reason.
    """

    def __init__(self, why: str, head: bytes) -> None:
        super().__init__(why)
        self.head = head


class StreamFramer:
    """Cuts one connection's bytes into messages."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._scanned = 0
        self._wanted = 0
        self._pongs = 0
        self._messages: list[bytes] = []
        self._failed = False

    @property
    def partial(self) -> bool:
        """Whether the beginning of a message waits for its rest."""
        return bool(self._buffer.lstrip(b"\r\n"))

    def receive(self, data: bytes) -> None:
        """
        Take bytes as they came from the socket.

        Raises:
            FramingError: the end of the message cannot be known, or it is too long. Messages that
                were complete before can still be taken; later bytes are ignored.
        """
        if self._failed:
            return
        self._buffer += data
        while self._advance():
            pass

    def messages(self) -> list[bytes]:
        """Take the complete messages."""
        ready, self._messages = self._messages, []
        return ready

    def to_send(self) -> bytes:
        """Take the answers to keep-alives: one CRLF for each double CRLF between messages."""
        pongs, self._pongs = self._pongs, 0
        return b"\r\n" * pongs

    def _advance(self) -> bool:
        """Do one step; return whether there may be another."""
        if self._wanted:
            return self._take_message()
        if self._buffer and self._buffer[0] in b"\r\n":
            return self._skip_line_break()
        return bool(self._buffer) and self._read_head()

    def _skip_line_break(self) -> bool:
        if self._buffer.startswith(_HEAD_END):
            self._pongs += 1
            del self._buffer[:4]
            return True
        if _HEAD_END.startswith(self._buffer):
            return False  # perhaps a ping in pieces
        del self._buffer[:1]
        return True

    def _read_head(self) -> bool:
        end = self._buffer.find(_HEAD_END, max(0, self._scanned - 3))
        if end < 0:
            self._scanned = len(self._buffer)
            if self._scanned > self._limits.max_head:
                raise self._fail("the headers are too long", self._scanned)
            return False
        size = end + len(_HEAD_END)
        if end > self._limits.max_head:
            raise self._fail("the headers are too long", size)
        lengths = _LENGTH.findall(_FOLD.sub(b" ", self._buffer[: end + 2]))
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 10:
            raise self._fail("Content-Length is missing, malformed or stands more than once", size)
        length = int(lengths[0])
        if length > self._limits.max_body:
            raise self._fail("the body is too long", size)
        self._wanted = size + length
        return True

    def _take_message(self) -> bool:
        if len(self._buffer) < self._wanted:
            return False
        self._messages.append(bytes(self._buffer[: self._wanted]))
        del self._buffer[: self._wanted]
        self._scanned = self._wanted = 0
        return True

    def _fail(self, why: str, size: int) -> FramingError:
        self._failed = True
        head = bytes(self._buffer[:size])
        self._buffer.clear()
        return FramingError(why, head)
