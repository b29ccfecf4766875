"""SIP over WebSocket (RFC 7118), the server's side without a socket: bytes in, SIP messages out."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Origin, Subprotocol

_SUBPROTOCOL = Subprotocol("sip")
_PING = b"\r\n\r\n"
_PONG = b"\r\n"
_SILENT = logging.getLogger("gateway.net.sip_websocket")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_SILENT.setLevel(logging.CRITICAL)


class WebSocketFramer:
    """
    One connection's WebSocket.

    Text and binary messages are the same to it, and each holds one SIP message. Where the handshake or a
    frame breaks a rule, :attr:`failure` says why; what :meth:`to_send` has is sent, then the connection
    closes.

    Args:
        origins: Web sites whose pages may connect; ``*`` lets all in. Who is no browser names none.
        max_size: Octets of a message.
    """

    def __init__(self, origins: Sequence[str], *, max_size: int) -> None:
        listed = None if "*" in origins else [None, *(Origin(each) for each in origins)]
        self._protocol = ServerProtocol(
            origins=listed, subprotocols=[_SUBPROTOCOL], max_size=max_size, logger=_SILENT
        )
        self._messages: list[bytes] = []
        self._parts: list[bytes] | None = None
        self._pinged = 0
        self.failure = ""

    @property
    def open(self) -> bool:
        """Whether the handshake is done and nobody has closed."""
        return self._protocol.state is State.OPEN

    @property
    def finished(self) -> bool:
        """Whether nothing more can come of it."""
        return bool(self.failure) or self._protocol.close_expected()

    @property
    def partial(self) -> bool:
        """Whether a handshake or a message is incomplete."""
        return self._protocol.state is State.CONNECTING or self._parts is not None

    def receive(self, data: bytes) -> None:
        """Take bytes as they came from the socket."""
        if self.failure:
            return
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            match event:
                case Request():
                    self._shake_hands(event)
                case Frame():
                    self._take(event)
        if self._protocol.parser_exc is not None and not self.failure:
            self.failure = str(self._protocol.parser_exc)
        elif self._protocol.handshake_exc is not None and not self.failure:
            self.failure = str(self._protocol.handshake_exc)

    def messages(self) -> list[bytes]:
        """Take the complete messages."""
        ready, self._messages = self._messages, []
        return ready

    def to_send(self) -> bytes:
        """Take what is ready for the socket."""
        return b"".join(self._protocol.data_to_send())

    def send(self, message: bytes) -> bool:
        """Send one SIP message, as text where it is such; ``False`` when it is not open."""
        if not self.open:
            return False
        try:
            message.decode()
        except UnicodeDecodeError:
            self._protocol.send_binary(message)
        else:
            self._protocol.send_text(message)
        return True

    def ping(self) -> None:
        """Ask for a sign of life."""
        if self.open:
            self._pinged += 1
            self._protocol.send_ping(str(self._pinged).encode())

    def close(self) -> None:
        """Say good-bye: we go away."""
        if self.open:
            self._protocol.send_close(1001)

    def _shake_hands(self, request: Request) -> None:
        if self._protocol.eof_sent:  # what came behind the request has ended it already
            self.failure = "the handshake is followed by something else"
            return
        response = self._protocol.accept(request)
        self._protocol.send_response(response)
        if response.status_code != 101:
            self.failure = f"handshake refused with {response.status_code}: {self._protocol.handshake_exc}"

    def _take(self, frame: Frame) -> None:
        if frame.opcode in {Opcode.TEXT, Opcode.BINARY}:
            self._parts = [bytes(frame.data)]
        elif frame.opcode is Opcode.CONT and self._parts is not None:
            self._parts.append(bytes(frame.data))
        else:
            if frame.opcode is Opcode.CLOSE:
                self._parts = None
            return  # pings are answered by the protocol
        if not frame.fin:
            return
        message, self._parts = b"".join(self._parts), None
        if message == _PING:
            self.send(_PONG)  # RFC 5626, section 3.5.1, which some clients keep here
        elif message.strip(b"\r\n"):
            self._messages.append(message)
