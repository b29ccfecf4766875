"""The limit: a lean SIP/RTP bridge with a pacer and nothing else, to compare the gateway's cost with.

up    RTP packet -> base64 -> provider, at once (no task, no queue)
down  delta -> base64 decode -> a buffer for each call -> RTP packets 20 ms apart

One timer paces all calls: they hang in twenty slots of 1 ms. No jitter buffer, no RTCP, no tools, no
recording; SIP is just enough for the load.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import socket
from binascii import a2b_base64, b2a_base64
from struct import Struct
from time import monotonic

import orjson
import uvloop
from picows import WSListener, WSMsgType, ws_connect

TEXT = WSMsgType.TEXT
HOST = "127.0.0.1"
PCMU = {"type": "audio/pcmu"}
SESSION = orjson.dumps(
    {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["audio"], "audio": {
        "input": {"format": PCMU, "turn_detection": {"type": "server_vad"}},
        "output": {"format": PCMU, "voice": "alloy"}}}}
)  # fmt: skip
APPEND = b'{"type":"input_audio_buffer.append","audio":"'
HEADER = Struct("!BBHII").pack


class Call(WSListener):
    """One call: the RTP leg and the provider connection."""

    def __init__(self, gateway: Gateway, remote: tuple[str, int]) -> None:
        self._gateway = gateway
        self._provider = None
        self._buffer = bytearray()
        self._playing = False
        self._sequence, self._timestamp, self._ssrc = 1, 0, id(self) & 0xFFFFFFFF
        self._started = monotonic()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind((HOST, 0))
        self._socket.connect(remote)
        self.port = self._socket.getsockname()[1]
        self.born = 0
        gateway.loop.add_reader(self._socket, self._readable)

    def _readable(self) -> None:
        try:
            packet = self._socket.recv(2048)
        except (BlockingIOError, ConnectionRefusedError):
            return
        if self._provider is not None and packet[1] & 0x7F == 0:
            self._provider.send(TEXT, APPEND + b2a_base64(packet[12:], newline=False) + b'"}')

    def on_ws_connected(self, transport) -> None:
        self._provider = transport
        transport.send(TEXT, SESSION)

    def on_ws_frame(self, transport, frame) -> None:
        if frame.msg_type == TEXT:
            message = frame.get_payload_as_bytes()
            if message.find(b'"response.output_audio.delta"', 0, 80) >= 0:
                at = message.index(b'"delta":"') + 9
                self._play(a2b_base64(message[at : message.index(b'"', at)]))
            elif message.find(b'"input_audio_buffer.speech_started"', 0, 80) >= 0:
                self._buffer.clear()  # barge-in
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()

    def _play(self, audio: bytes) -> None:
        self._buffer += audio
        if not self._playing and self._buffer:
            self._playing = True
            elapsed = int((monotonic() - self._started) * 8000) - self._timestamp
            if elapsed > 0:  # the timestamp follows the wall clock over the silence
                self._timestamp += elapsed // 160 * 160
            self.emit(0x80)
            self._gateway.pace(self)

    def emit(self, marker: int) -> bool:
        """Send the next 20 ms; ``False`` when there is nothing more to say."""
        payload = bytes(self._buffer[:160])
        if not payload:
            self._playing = False
            return False
        del self._buffer[:160]
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._timestamp = (self._timestamp + 160) & 0xFFFFFFFF
        header = HEADER(0x80, marker, self._sequence, self._timestamp, self._ssrc)
        self._socket.send(header + payload.ljust(160, b"\xff"))
        return True

    def close(self) -> None:
        self._gateway.loop.remove_reader(self._socket)
        self._socket.close()
        self._buffer.clear()
        if self._provider is not None:
            self._provider.disconnect()


class Gateway(asyncio.DatagramProtocol):
    """A small SIP server and the pacer."""

    def __init__(self, given: argparse.Namespace, group: asyncio.TaskGroup) -> None:
        self._given = given
        self._group = group
        self.loop = asyncio.get_running_loop()
        self._calls: dict[str, Call] = {}
        self._answers: dict[str, bytes] = {}
        self._wheel: list[list[Call]] = [[] for _ in range(20)]
        self._tick = int(monotonic() * 1000)
        self.loop.call_later(0.001, self._turn)

    def pace(self, call: Call) -> None:
        """Serve a call every 20 ms from now on; its first packet has just left."""
        call.born = int(monotonic() * 1000)
        self._wheel[call.born % 20].append(call)

    def _turn(self) -> None:
        now = int(monotonic() * 1000)
        while self._tick < now:
            self._tick += 1
            slot = self._wheel[self._tick % 20]
            for call in [call for call in slot if self._tick > call.born and not call.emit(0)]:
                slot.remove(call)
        self.loop.call_later(0.001, self._turn)

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        head, _, body = data.decode().partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields.setdefault(name.strip().lower(), value.strip())
        identity = fields.get("call-id", "")
        match first.split(" ", 1)[0]:
            case "INVITE" if identity in self._answers:  # a retransmission
                self._transport.sendto(self._answers[identity], address)
            case "INVITE" if identity not in self._calls:
                port = int(re.search(r"^m=audio (\d+)", body, re.M)[1])
                call = self._calls[identity] = Call(self, (HOST, port))
                self._group.create_task(self._answer(call, identity, fields, address))
            case "BYE":
                self._answers.pop(identity, None)
                if call := self._calls.pop(identity, None):
                    call.close()
                self._reply(fields, address)

    async def _answer(
        self, call: Call, identity: str, fields: dict[str, str], address: tuple[str, int]
    ) -> None:
        await ws_connect(lambda: call, self._given.provider)
        sdp = (
            f"v=0\r\no=- 1 1 IN IP4 {HOST}\r\ns=-\r\nc=IN IP4 {HOST}\r\nt=0 0\r\n"
            f"m=audio {call.port} RTP/AVP 0 101\r\na=rtpmap:0 PCMU/8000\r\n"
            "a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\n"
        )
        self._answers[identity] = self._reply(fields, address, sdp, f";tag=g{call.port}")

    def _reply(self, fields: dict[str, str], address: tuple[str, int], sdp: str = "", tag: str = "") -> bytes:
        lines = [
            "SIP/2.0 200 OK",
            *(f"{name}: {fields[name.lower()]}" for name in ("Via", "From")),
            f"To: {fields['to']}{tag}",
            *(f"{name}: {fields[name.lower()]}" for name in ("Call-ID", "CSeq")),
            f"Contact: <sip:gw@{HOST}:{self._given.port}>",
            *(["Content-Type: application/sdp"] if sdp else []),
        ]
        data = ("\r\n".join(lines) + f"\r\nContent-Length: {len(sdp)}\r\n\r\n{sdp}").encode()
        self._transport.sendto(data, address)
        return data


async def main(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        await loop.create_datagram_endpoint(lambda: Gateway(given, group), local_addr=(HOST, given.port))
        ready = await asyncio.start_server(lambda _, writer: writer.close(), HOST, given.port)  # "I am up"
        gc.collect()
        gc.freeze()
        await ready.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--provider", required=True)
    uvloop.run(main(parser.parse_args()))
