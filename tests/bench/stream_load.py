"""N concurrent Twilio Media Streams callers against a WebSocket server on loopback.

Each speaks the protocol as the carrier does (connected, start, media every 20 ms at real pace, a mark echoed
when its audio would have been played, clear empties the play-out). Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
from collections import deque

import uvloop
from picows import WSListener, WSMsgType, ws_connect

from tests.bench.load import drive, now, options
from tests.bench.signals import frames
from tests.bench.usage import rss_mb

TEXT = WSMsgType.TEXT
FRAMES = [base64.b64encode(frame) for frame in frames()]


class Caller(WSListener):
    """One media stream. Receiving only stores; all analysis comes later."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.sent: list[float] = []
        self.closed_at: float | None = None
        self.ended_at = float("inf")
        self._stream = f"MZ{index:032x}"
        self._tail = b'"},"streamSid":"' + self._stream.encode() + b'"}'
        self._media: list[tuple[float, bytes]] = []
        self._clears: list[float] = []
        self._marks: deque[tuple[float, str]] = deque()  # when the audio before it was played, name
        self._played_until = 0.0

    def on_ws_connected(self, transport) -> None:
        self.ws = transport

    def on_ws_disconnected(self, _transport) -> None:
        self.closed_at = now()

    def begin(self) -> None:
        media = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
        start = {
            "accountSid": "AC" + "0" * 32, "streamSid": self._stream, "callSid": f"CA{self.index:032x}",
            "tracks": ["inbound"], "customParameters": {}, "mediaFormat": media,
        }  # fmt: skip
        self._say({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        self._say({"event": "start", "sequenceNumber": "1", "streamSid": self._stream, "start": start})

    def send_frame(self, index: int) -> None:
        number = len(self.sent) + 1
        head = (
            b'{"event":"media","sequenceNumber":"%d","media":{"track":"inbound","chunk":"%d",'
            b'"timestamp":"%d","payload":"' % (number + 1, number, number * 20)
        )
        at = now()
        self.sent.append(at)
        self.ws.send(TEXT, head + FRAMES[index] + self._tail)
        while self._marks and self._marks[0][0] <= at:
            self._send_mark(self._marks.popleft()[1])

    def on_ws_frame(self, transport, frame) -> None:
        if frame.msg_type == TEXT:
            at, message = now(), frame.get_payload_as_bytes()
            key = message.find(b'"payload"')
            if key > 0:
                start = message.index(b'"', key + 9) + 1
                payload = message[start : message.index(b'"', start)]
                self._media.append((at, payload))
                self._played_until = max(self._played_until, at) + len(payload) * 0.75 / 8000
            else:
                self._control(json.loads(message), at)
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()

    def hang_up(self) -> None:
        if self.closed_at is None:
            number = str(len(self.sent) + 3)
            self._say({"event": "stop", "sequenceNumber": number, "streamSid": self._stream, "stop": {}})
            self.ws.disconnect()

    def pieces(self) -> list[tuple[float, bytes]]:
        return [(at, base64.b64decode(payload)) for at, payload in self._media]

    def stops(self, since: float, until: float) -> float | None:
        """Return when the server made the carrier stop: the first clear."""
        return next((at for at in self._clears if since <= at < until), None)

    def _say(self, message: dict[str, object]) -> None:
        self.ws.send(TEXT, json.dumps(message).encode())

    def _control(self, message: dict, at: float) -> None:
        match message.get("event"):
            case "mark":
                self._marks.append((max(self._played_until, at), message["mark"]["name"]))
            case "clear":
                self._clears.append(at)
                self._played_until = at
                while self._marks:
                    self._send_mark(self._marks.popleft()[1])

    def _send_mark(self, name: str) -> None:
        number = str(len(self.sent) + 2)
        self._say(
            {"event": "mark", "sequenceNumber": number, "streamSid": self._stream, "mark": {"name": name}}
        )


async def run(given: argparse.Namespace) -> dict[str, object]:
    idle_rss = rss_mb(given.server_pid)
    callers: list[Caller] = []
    started = now()
    for index in range(given.n):
        caller = Caller(index)
        async with asyncio.timeout(30):
            await ws_connect(lambda caller=caller: caller, f"ws://127.0.0.1:{given.port}/media-stream")
        caller.begin()
        callers.append(caller)
        await asyncio.sleep(max(0.0, started + (index + 1) / given.ramp - now()))
    result = await drive(callers, given, idle_rss)
    for caller in callers:
        caller.hang_up()
    await asyncio.sleep(0.2)
    return result


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--port", type=int, required=True, help="the server's /media-stream, on loopback")
    print(json.dumps(uvloop.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
