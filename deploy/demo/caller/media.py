"""
The caller's RTP: sends a microphone, captures an ear (RFC 3550).

Outgoing frames stand on an absolute 20 ms grid from :meth:`Media.start` on. Incoming packets
get the kernel's arrival time, so what is measured is the gateway's pacing and not ours.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from deploy.demo.caller import g711

FRAME = 160
FRAME_S = 0.020
RATE = 8000
AUDIBLE_RMS = 250.0
SO_TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)
TIMESPEC = struct.Struct("ll")
HEADER = struct.Struct("!BBHII")


@dataclass(frozen=True, slots=True)
class Packet:
    """One received RTP packet; ``at`` is seconds since the epoch."""

    at: float
    marker: bool
    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes


def parse_rtp(data: bytes, at: float) -> Packet | None:
    """Read one datagram; ``None`` when it is no RTP packet of version 2."""
    if len(data) < HEADER.size or data[0] >> 6 != 2:
        return None
    first, second, sequence, timestamp, ssrc = HEADER.unpack_from(data)
    start = HEADER.size + 4 * (first & 15)
    if first & 0x10 and len(data) >= start + 4:
        start += 4 + 4 * int.from_bytes(data[start + 2 : start + 4], "big")
    end = len(data) - (data[-1] if first & 0x20 else 0)
    return Packet(at, bool(second & 0x80), second & 0x7F, sequence, timestamp, ssrc, data[start:end])


class Media:
    """
    One RTP stream each way.

    Args:
        host: The local address to bind; the port is chosen by the system.
    """

    def __init__(self, host: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind((host, 0))
        self.port: int = self._socket.getsockname()[1]
        self.packets: list[Packet] = []
        self.sent: list[bytes] = []
        """Every payload that went out, from :attr:`started_at` on, one for each 20 ms."""
        self.started_at = 0.0
        self.audible_at: list[float] = []
        """When each packet came that holds sound."""
        self.turn_began_at = 0.0
        """When the agent's present (or last) turn began: the first audible packet after a second of quiet
        or after :meth:`new_turn`."""
        self._speech: deque[bytes] = deque()
        self._remote: tuple[str, int] | None = None
        self._new_turn = True

    def say(self, pcm: g711.Pcm) -> None:
        """Queue speech behind what is queued; silence is sent when nothing is."""
        padded = np.pad(pcm, (0, -len(pcm) % FRAME))
        codes = g711.encode(padded)
        self._speech.extend(codes[at : at + FRAME] for at in range(0, len(codes), FRAME))

    @property
    def speaking(self) -> bool:
        return bool(self._speech)

    def new_turn(self) -> None:
        """Let the next audible packet begin a new turn of the agent."""
        self._new_turn = True

    def quiet_for(self) -> float:
        """How long the agent has been silent in this turn; 0 while it has not spoken in it."""
        return 0.0 if self._new_turn else time.time() - self.audible_at[-1]

    def heard_for(self) -> float:
        """How long the agent has been speaking in this turn."""
        return 0.0 if self._new_turn else self.audible_at[-1] - self.turn_began_at

    def listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket, self._readable)

    def start(self, host: str, port: int) -> None:
        """Say where :meth:`run` sends to, and begin the time line."""
        self._remote = (host, port)
        self.started_at = time.time()

    async def run(self) -> None:
        """Send one frame each 20 ms until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        silence = bytes([g711.SILENCE]) * FRAME
        while True:
            self._send(self._speech.popleft() if self._speech else silence)
            due += FRAME_S
            await asyncio.sleep(max(0.0, due - loop.time()))

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _send(self, payload: bytes) -> None:
        number = len(self.sent)
        self.sent.append(payload)
        if self._remote is None:
            return
        header = HEADER.pack(0x80, 0x80 * (number == 0), number & 0xFFFF, number * FRAME, 0x0DE30CA1)
        try:
            self._socket.sendto(header + payload, self._remote)
        except OSError:
            pass  # the gateway's port is closed: the call has ended, the BYE is on its way

    def _readable(self) -> None:
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(2048, 64)
            except (BlockingIOError, ConnectionRefusedError):
                return
            at = time.time()
            for level, kind, value in ancillary:
                if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) >= TIMESPEC.size:
                    seconds, nanoseconds = TIMESPEC.unpack_from(value)
                    at = seconds + nanoseconds / 1e9
            packet = parse_rtp(data, at)
            if packet is not None:
                self._hear(packet)

    def _hear(self, packet: Packet) -> None:
        self.packets.append(packet)
        if packet.payload_type != 0 or not packet.payload:
            return
        pcm = g711.decode(packet.payload).astype(np.float32)
        if float(pcm @ pcm) < len(pcm) * AUDIBLE_RMS**2:
            return
        if self._new_turn or packet.at - self.audible_at[-1] > 1.0:
            self._new_turn = False
            self.turn_began_at = packet.at
        self.audible_at.append(packet.at)
