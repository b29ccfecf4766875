"""
A browser as a telephone: SIP over a WebSocket, audio by aiortc with ICE, DTLS and SRTP, nothing of it ours.

Everything stays on loopback: the only network that a test may count on.
"""

from __future__ import annotations

import asyncio
import fractions
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aioice.ice
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.kit import sip_text, sound
from tests.kit.sip_text import Message
from tests.kit.sound import FRAME, RATE, Pcm

HOST = "df7jal23ls0d.invalid"


class Voice(MediaStreamTrack):
    """Says a recording in real time, then is silent."""

    kind = "audio"

    def __init__(self, words: Pcm) -> None:
        super().__init__()
        self.words, self.at, self.began = words, 0, 0.0

    async def recv(self) -> AudioFrame:
        loop = asyncio.get_running_loop()
        self.began = self.began or loop.time()
        await asyncio.sleep(max(0.0, self.began + self.at / RATE - loop.time()))
        piece = self.words[self.at : self.at + FRAME]
        piece = np.pad(piece, (0, FRAME - len(piece))).astype(np.int16)
        frame = AudioFrame.from_ndarray(piece.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, self.at, fractions.Fraction(1, RATE)
        self.at += FRAME
        return frame


class Browser:
    """
    One page with one call.

    Args:
        words: What it says once its audio flows.
        lies: Whether its offer has another fingerprint than its certificate.
    """

    def __init__(self, words: Pcm, *, lies: bool = False) -> None:
        self.lies = lies
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.connection.addTrack(Voice(words))
        self.pieces: list[Pcm] = []
        self.came: list[Message] = []

    @property
    def heard(self) -> Pcm:
        return np.concatenate(self.pieces) if self.pieces else sound.silence(0)

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        sdp = self.connection.localDescription.sdp
        return re.sub(r"(a=fingerprint:\S+ )\S+", _turned, sdp) if self.lies else sdp

    async def take(self, answer: str) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def listen(self, seconds: float = float("inf")) -> None:
        """Keep what is heard until there is so much of it, or until it is cancelled."""
        (track,) = (receiver.track for receiver in self.connection.getReceivers())
        while sum(map(len, self.pieces)) < seconds * RATE:
            frame = await track.recv()
            assert (frame.sample_rate, frame.layout.nb_channels) == (RATE, 1)
            self.pieces.append(frame.to_ndarray()[0])

    async def call(self, port: int, ca: Path, number: str) -> None:
        """Call over ``wss`` and return when the other side has hung up."""
        context = ssl.create_default_context(cafile=ca)
        async with connect(
            f"wss://127.0.0.1:{port}/", subprotocols=[Subprotocol("sip")], ssl=context, proxy=None
        ) as socket:
            await socket.send(request("INVITE", number, 1, body=await self.offer()))
            await self._converse(socket, number)

    async def _converse(self, socket: ClientConnection, number: str) -> None:
        async with asyncio.TaskGroup() as group:
            listening: asyncio.Task[None] | None = None
            while True:
                message = sip_text.read(await socket.recv(decode=False))
                self.came.append(message)
                if message.status == 200 and message.answers == "INVITE" and listening is None:
                    await self.take(message.body)
                    await socket.send(request("ACK", number, 1, to=message["to"]))
                    listening = group.create_task(self.listen())
                if message.method == "BYE":
                    await socket.send(sip_text.respond(message, 200, "OK"))
                    if listening is not None:
                        listening.cancel()
                    return


def _turned(line: re.Match[str]) -> str:
    """Write a fingerprint back to front."""
    return line[1] + ":".join(reversed(line[0].split()[1].split(":")))


def request(method: str, number: str, cseq: int, *, to: str = "", body: str = "") -> bytes:
    headers = [
        ("Via", f"SIP/2.0/WSS {HOST};branch={sip_text.branch()}"),
        ("Max-Forwards", "70"),
        ("From", "<sip:web@gw.example>;tag=w"),
        ("To", to or f"<sip:{number}@gw.example>"),
        ("Call-ID", "browser-1"),
        ("CSeq", f"{cseq} {method}"),
        ("Contact", f"<sip:web@{HOST};transport=ws>"),
    ]
    return sip_text.write(f"{method} sip:{number}@gw.example;transport=ws SIP/2.0", headers, body)


@contextmanager
def only_loopback() -> Iterator[None]:
    """Let ICE use 127.0.0.1, which it leaves out by itself."""
    usual = aioice.ice.get_host_addresses
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]
    try:
        yield
    finally:
        aioice.ice.get_host_addresses = usual
