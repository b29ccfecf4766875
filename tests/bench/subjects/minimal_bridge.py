"""What people start from: FastAPI, uvicorn, websockets and json between a media stream and the model.

Two loops for each call; JSON is parsed and built for every frame; base64 is decoded and encoded again; a
mark after every delta; when the caller speaks, the item is truncated and the carrier told to clear. Written
from the behaviour that such samples have in common.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json

import uvicorn
import websockets
from fastapi import FastAPI, WebSocket
from fastapi.websockets import WebSocketDisconnect

PCMU = {"type": "audio/pcmu"}
SESSION = {
    "type": "realtime", "model": "gpt-realtime", "output_modalities": ["audio"],
    "audio": {
        "input": {"format": PCMU, "turn_detection": {"type": "server_vad"}},
        "output": {"format": PCMU, "voice": "alloy"},
    },
    "instructions": "You are a helpful assistant.",
}  # fmt: skip


class Bridge:
    """One call."""

    def __init__(self, carrier: WebSocket, provider: websockets.ClientConnection) -> None:
        self._carrier = carrier
        self._provider = provider
        self._stream = None
        self._latest_ms = 0
        self._item = None
        self._marks: list[str] = []
        self._response_began_ms: int | None = None

    async def run(self) -> None:
        await self._provider.send(json.dumps({"type": "session.update", "session": SESSION}))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._from_caller())
            group.create_task(self._to_caller())

    async def _from_caller(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            async for text in self._carrier.iter_text():
                data = json.loads(text)
                match data["event"]:
                    case "media":
                        self._latest_ms = int(data["media"]["timestamp"])
                        append = {"type": "input_audio_buffer.append", "audio": data["media"]["payload"]}
                        await self._provider.send(json.dumps(append))
                    case "start":
                        self._stream = data["start"]["streamSid"]
                    case "mark" if self._marks:
                        self._marks.pop(0)
        await self._provider.close()

    async def _to_caller(self) -> None:
        with contextlib.suppress(websockets.ConnectionClosed, WebSocketDisconnect, RuntimeError):
            async for text in self._provider:
                event = json.loads(text)
                match event["type"]:
                    case "response.output_audio.delta":
                        await self._play(event)
                    case "input_audio_buffer.speech_started" if self._item and self._marks:
                        await self._interrupt()

    async def _play(self, event: dict) -> None:
        payload = base64.b64encode(base64.b64decode(event["delta"])).decode()
        await self._carrier.send_json(
            {"event": "media", "streamSid": self._stream, "media": {"payload": payload}}
        )
        if self._response_began_ms is None:
            self._response_began_ms = self._latest_ms
        self._item = event["item_id"]
        await self._carrier.send_json({"event": "mark", "streamSid": self._stream, "mark": {"name": "part"}})
        self._marks.append("part")

    async def _interrupt(self) -> None:
        heard_ms = self._latest_ms - (self._response_began_ms or 0)
        truncate = {"type": "conversation.item.truncate", "item_id": self._item, "content_index": 0}
        await self._provider.send(json.dumps({**truncate, "audio_end_ms": heard_ms}))
        await self._carrier.send_json({"event": "clear", "streamSid": self._stream})
        self._marks.clear()
        self._item = self._response_began_ms = None


def application(provider_url: str) -> FastAPI:
    app = FastAPI()

    @app.websocket("/media-stream")
    async def media_stream(carrier: WebSocket) -> None:
        await carrier.accept()
        headers = {"Authorization": "Bearer none"}
        url = f"{provider_url}?model=gpt-realtime"
        async with websockets.connect(url, additional_headers=headers) as provider:
            await Bridge(carrier, provider).run()

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--provider", required=True)
    given = parser.parse_args()
    uvicorn.run(
        application(given.provider), host="127.0.0.1", port=given.port, loop="uvloop", log_level="warning"
    )
