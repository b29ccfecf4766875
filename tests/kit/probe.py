"""A bare UDP socket that sends exact bytes and keeps every datagram that arrives, with its time."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from tests.kit import sip_text
from tests.kit.ports import Ports
from tests.kit.sip_text import Message
from tests.kit.udp import drain, udp


@dataclass(frozen=True, slots=True)
class Datagram:
    """What arrived; ``at`` is the kernel's time of arrival, as of ``time.time()``."""

    at: float
    data: bytes

    @property
    def message(self) -> Message:
        return sip_text.read(self.data)


class Probe:
    """
    Sees retransmissions as they are: it has no transactions and answers nothing by itself.

    Args:
        target: Where :meth:`send` sends to.
        ports: Where its own ports come from; the second one stands in its SDP and swallows the audio.
    """

    def __init__(self, target: tuple[str, int], ports: Ports) -> None:
        self.target = target
        self.port = ports.take(4)
        self.socket = udp(self.port)
        self.media = udp(self.port + 2)
        self.received: list[Datagram] = []
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.socket, selectors.EVENT_READ)

    def __enter__(self) -> Probe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.selector.close()
        self.socket.close()
        self.media.close()

    def send(self, data: bytes) -> float:
        """Send one datagram and return when."""
        self.socket.sendto(data, self.target)
        return time.time()

    def collect(self, seconds: float) -> list[Datagram]:
        """Wait the whole time and return what arrived in it."""
        before = len(self.received)
        self.until(lambda: False, seconds)
        return self.received[before:]

    def until(self, done: Callable[[], object], timeout: float) -> bool:
        """Receive until ``done()`` is true; return whether it became so in time."""
        end = time.monotonic() + timeout
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            if self.selector.select(left):
                self.received += (Datagram(at, data) for at, data, _ in drain(self.socket))
        return True

    def messages(self, wanted: Callable[[Message], bool]) -> list[Datagram]:
        return [each for each in self.received if wanted(each.message)]

    def wait_for(self, wanted: Callable[[Message], bool], timeout: float = 5.0) -> Message:
        """Return the first message, of all that came, that is wanted; fail with what came instead."""
        came = self.until(lambda: self.messages(wanted), timeout)
        assert came, f"came: {[each.message.start for each in self.received]}"
        return self.messages(wanted)[0].message

    def request(
        self,
        method: str,
        called: str,
        *,
        call_id: str,
        branch: str,
        cseq: int = 1,
        to_tag: str = "",
        extra: tuple[tuple[str, str], ...] = (),
        target: str = "",
    ) -> bytes:
        """Return a request as a trunk would send it; an INVITE carries an offer for :attr:`media`."""
        host, port = self.target
        uri = f"sip:{called}@{host}:{port}"
        body = sip_text.offer("127.0.0.1", self.port + 2) if method == "INVITE" else ""
        headers = [
            ("Via", f"SIP/2.0/UDP 127.0.0.1:{self.port};branch={branch}"),
            ("Max-Forwards", "70"),
            ("From", f"<sip:+12025550199@127.0.0.1>;tag={call_id[:8]}"),
            ("To", f"<{uri}>" + (f";tag={to_tag}" if to_tag else "")),
            ("Call-ID", call_id),
            ("CSeq", f"{cseq} {method}"),
            ("Contact", f"<sip:probe@127.0.0.1:{self.port}>"),
            *extra,
        ]
        return sip_text.write(f"{method} {target or uri} SIP/2.0", headers, body)
