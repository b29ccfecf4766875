"""
A registrar of the tests on raw sockets: answers each REGISTER as the test says.

For what no real registrar does on request: 423, odd grants, silence, a connection that is cut. It works only
while one of its methods runs, in the thread of the test.
"""

from __future__ import annotations

import selectors
import socket
import time
from types import TracebackType

from tests.kit import sip_text
from tests.kit.ports import Ports
from tests.kit.sip_text import Message
from tests.kit.udp import Address, drain, udp

Source = Address | socket.socket
"""Where a request came from, and its answer goes: an address, or the connection."""


class Registrar:
    """
    Listens on one port of 127.0.0.1, by UDP or TCP; leave the ``with`` block to close it.

    Args:
        ports: Where its port comes from.
        tcp: Whether it is asked by TCP; bodies are passed over.
    """

    def __init__(self, ports: Ports, *, tcp: bool = False) -> None:
        port = ports.take(2)
        self.selector = selectors.DefaultSelector()
        if tcp:
            self.socket = socket.create_server(("127.0.0.1", port))
            self.socket.setblocking(False)
            self.selector.register(self.socket, selectors.EVENT_READ, self._accept)
        else:
            self.socket = udp(port)
            self.selector.register(self.socket, selectors.EVENT_READ, self._read_datagrams)
        self.sip: Address = self.socket.getsockname()
        self.connections: dict[socket.socket, bytes] = {}
        self.seen: set[tuple[str, str]] = set()
        self.responses: list[str] = []
        self.waiting: list[tuple[Message, Source]] = []

    def __enter__(self) -> Registrar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self.selector.close()
        self.socket.close()

    def next(self, timeout: float = 10.0, *, method: str = "REGISTER") -> tuple[Message, Source]:
        """Return the next request of a method, retransmissions of one that was returned left out."""
        end = time.monotonic() + timeout
        while True:
            for place, (message, source) in enumerate(self.waiting):
                if message.method == method:
                    del self.waiting[place]
                    return message, source
            if time.monotonic() > end:
                raise AssertionError(f"no {method} in {timeout} s")
            for key, _ in self.selector.select(0.05):
                key.data()

    def next_response(self, timeout: float = 10.0) -> str:
        """Return the start line of the next response that came by a connection."""
        end = time.monotonic() + timeout
        while not self.responses:
            if time.monotonic() > end:
                raise AssertionError(f"no response in {timeout} s")
            for key, _ in self.selector.select(0.05):
                key.data()
        return self.responses.pop(0)

    def answer(
        self, request: tuple[Message, Source], status: int, reason: str, *extra: tuple[str, str]
    ) -> None:
        message, source = request
        data = sip_text.respond(message, status, reason, tag="registrar", extra=extra)
        if isinstance(source, socket.socket):
            source.sendall(data)
        else:
            self.socket.sendto(data, source)

    def grant(self, request: tuple[Message, Source], expires: int) -> None:
        """Answer 200 with somebody else's contact and the client's own, as a registrar lists them."""
        own = request[0].uri("contact")
        contacts = f"<sip:another@198.51.100.9>;expires=3000, <{own}>;expires={expires}"
        self.answer(request, 200, "OK", ("Contact", contacts), ("Expires", "3600"))

    def cut(self) -> None:
        """Close all connections."""
        for connection in self.connections:
            self.selector.unregister(connection)
            connection.close()
        self.connections.clear()

    def _accept(self) -> None:
        connection, _ = self.socket.accept()
        self.connections[connection] = b""
        self.selector.register(connection, selectors.EVENT_READ, lambda: self._read_stream(connection))

    def _read_stream(self, connection: socket.socket) -> None:
        data = connection.recv(65_536)
        if not data:
            self.selector.unregister(connection)
            del self.connections[connection]
            connection.close()
            return
        *whole, rest = (self.connections[connection] + data).split(b"\r\n\r\n")
        self.connections[connection] = rest
        for head in whole:
            if head.strip():
                self._take(head.lstrip() + b"\r\n\r\n", connection)

    def _read_datagrams(self) -> None:
        for _, data, source in drain(self.socket):
            self._take(data, source)

    def _take(self, data: bytes, source: Source) -> None:
        try:
            message = sip_text.read(data)
        except ValueError:
            return  # a body, or what is no SIP
        if message.status:
            self.responses.append(message.start)
        name = (message["call-id"], message["cseq"])
        if message.method and name not in self.seen:
            self.seen.add(name)
            self.waiting.append((message, source))
