"""
A registrar of the tests on a raw UDP socket: answers each REGISTER as the test says, and calls the contact.

For what no real registrar does on request: 423, odd grants, silence. It works only while one of its methods
runs, in the thread of the test.
"""

from __future__ import annotations

import selectors
import time
from types import TracebackType

from tests.kit import sip_text
from tests.kit.ports import Ports
from tests.kit.sip_text import Message
from tests.kit.udp import Address, drain, udp


class Registrar:
    """Listens on one port of 127.0.0.1; leave the ``with`` block to close it."""

    def __init__(self, ports: Ports) -> None:
        self.socket = udp(ports.take(2))
        self.sip: Address = self.socket.getsockname()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.socket, selectors.EVENT_READ)
        self.received: list[tuple[float, Message]] = []
        self.waiting: list[tuple[Message, Address]] = []

    def __enter__(self) -> Registrar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.selector.close()
        self.socket.close()

    def next(self, timeout: float = 10.0, *, method: str = "REGISTER") -> tuple[Message, Address]:
        """Return the next request of a method, retransmissions of one that was returned left out."""
        end = time.monotonic() + timeout
        while True:
            for place, (message, source) in enumerate(self.waiting):
                if message.method == method:
                    del self.waiting[place]
                    return message, source
            if time.monotonic() > end:
                raise AssertionError(f"no {method} in {timeout} s")
            self.selector.select(0.05)
            self._read()

    def answer(
        self, request: tuple[Message, Address], status: int, reason: str, *extra: tuple[str, str]
    ) -> None:
        message, source = request
        self.socket.sendto(sip_text.respond(message, status, reason, tag="registrar", extra=extra), source)

    def grant(self, request: tuple[Message, Address], expires: int) -> None:
        """Answer 200 with somebody else's contact and the client's own, as a registrar lists them."""
        own = request[0].uri("contact")
        contacts = f"<sip:another@198.51.100.9>;expires=3000, <{own}>;expires={expires}"
        self.answer(request, 200, "OK", ("Contact", contacts), ("Expires", "3600"))

    def _read(self) -> None:
        for at, data, source in drain(self.socket):
            try:
                message = sip_text.read(data)
            except ValueError:
                continue
            seen = {(each["call-id"], each["cseq"]) for _, each in self.received}
            if message.method and (message["call-id"], message["cseq"]) not in seen:
                self.received.append((at, message))
                self.waiting.append((message, source))
