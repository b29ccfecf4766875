"""A media stream on loopback, its peer, and all that came out of it."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable

from aiortc.rtp import RtpPacket

from gateway.media.playout import Playout
from gateway.net.media_stream import MediaEvent, MediaStream
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool
from gateway.sdp import NegotiatedMedia
from providers.types import PCMU


class Peer(asyncio.DatagramProtocol):
    """A telephone: collects what it gets and sends what it is told."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self._wanted: list[tuple[Callable[[], bool], asyncio.Event]] = []
        self.sequence = 65_530
        self.timestamp = 0xFFFF_FF00

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.address = transport.get_extra_info("sockname")[:2]

    def datagram_received(self, data: bytes, addr) -> None:
        self.received.append(data)
        self.check()

    def check(self) -> None:
        for ready, event in self._wanted:
            if ready():
                event.set()

    async def until(self, ready: Callable[[], bool]) -> None:
        event = asyncio.Event()
        self._wanted.append((ready, event))
        self.check()
        async with asyncio.timeout(10):
            await event.wait()

    def packets(self) -> list[RtpPacket]:
        return [RtpPacket.parse(data) for data in self.received]

    def send(self, port: int, payload: bytes, *, payload_type: int = 0, skip: int = 0) -> None:
        self.sequence = (self.sequence + 1 + skip) & 0xFFFF
        self.timestamp = (self.timestamp + 160 * skip) & 0xFFFF_FFFF
        header = struct.pack("!BBHII", 0x80, payload_type, self.sequence, self.timestamp, 0xBEEF)
        self.timestamp = (self.timestamp + len(payload)) & 0xFFFF_FFFF
        self.transport.sendto(header + payload, ("127.0.0.1", port))


class Line:
    """A media stream, its playout, its peer, and all that came out."""

    def __init__(self, audio_format=PCMU) -> None:
        self.playout = Playout(audio_format)
        self.pacer = Pacer()
        self.pool = PortPool(30000 + os.getpid() % 1000, 32766, quarantine_s=0, host="127.0.0.1")
        self.audio: list[tuple[bytes, int]] = []
        self.events: list[MediaEvent] = []
        self.marks: list[int] = []
        self.stream: MediaStream | None = None
        self.others: list[Peer] = []

    async def open(self, **options) -> Line:
        loop = asyncio.get_running_loop()
        _, self.peer = await loop.create_datagram_endpoint(Peer, local_addr=("127.0.0.1", 0))
        _, self.rtcp_peer = await loop.create_datagram_endpoint(Peer, local_addr=("127.0.0.1", 0))
        self.lease = self.pool.lease(0.0)
        self.stream = await MediaStream.open(
            self.lease,
            host="192.0.2.10",
            playout=self.playout,
            pacer=self.pacer,
            on_audio=self.on_audio,
            on_event=self.on_event,
            on_marks=self.on_marks,
            **options,
        )
        self.media = NegotiatedMedia(
            codec="PCMU",
            payload_type=0,
            dtmf_payload_type=101,
            remote=self.peer.address,
            remote_rtcp=self.rtcp_peer.address,
            sends=True,
            receives=True,
            ptime_ms=20,
        )
        return self

    def on_audio(self, audio: bytes, at_ms: int) -> None:
        self.audio.append((audio, at_ms))
        self.peer.check()

    def on_event(self, event: MediaEvent) -> None:
        self.events.append(event)
        self.peer.check()

    def on_marks(self) -> None:
        self.marks += self.playout.take_reached()
        self.peer.check()

    async def another_peer(self) -> Peer:
        loop = asyncio.get_running_loop()
        _, peer = await loop.create_datagram_endpoint(Peer, local_addr=("127.0.0.1", 0))
        self.others.append(peer)
        return peer

    async def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
        self.lease.release(0.0)
        for peer in (self.peer, self.rtcp_peer, *self.others):
            peer.transport.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
