"""UDP sockets that tell when the kernel received each datagram."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

Address = tuple[str, int]
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the socket module does not name it


def udp(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Return a bound socket that does not block."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind((host, port))
    found.setblocking(False)
    found.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return found


def drain(source: socket.socket) -> Iterator[tuple[float, bytes, Address]]:
    """
    Yield the datagrams that are there: time of arrival (as of ``time.time()``), bytes, sender.

    An ICMP refusal of something that we sent is passed over.
    """
    while True:
        try:
            data, extra, _, address = source.recvmsg(65535, socket.CMSG_SPACE(16))
        except BlockingIOError:
            return
        except ConnectionRefusedError:
            continue
        seconds, nanos = struct.unpack("qq", extra[0][2])
        yield seconds + nanos / 1e9, data, address
