"""What 20 ms of audio cost the GPT-Live provider, on a G.711 line; see :mod:`tests.bench.hot_path`."""

from __future__ import annotations

import base64
import json
import multiprocessing
import time
from multiprocessing.connection import Connection

import uvloop
from openai import AsyncOpenAI
from websockets.asyncio.server import ServerConnection, serve

from config.providers import LiveSettings
from providers.openai_live import OpenAILiveProvider
from providers.types import PCMU, SessionSetup
from tests.bench.hot_path import DELTA_MS, FRAME_MS, Cost, noise

SESSION = {"model": "gpt-live-1.1", "audio": {"format": {"type": "audio/pcmu", "rate": 8000}}}
SDK_SHARE = 10
"""The SDK's path is measured with so many times fewer pieces."""


def delta() -> str:
    """Return a piece of speech, in the layout of the service."""
    audio = base64.b64encode(noise(PCMU, DELTA_MS)).decode()
    return json.dumps({"type": "session.output_audio.delta", "delta": audio}, separators=(",", ":"))


async def converse(connection: ServerConnection) -> None:
    """Start the session, then send as many pieces as a text asks for, or swallow audio."""
    frame = delta()
    async for text in connection:
        if '"session.input_audio.append"' in text[:40]:
            continue
        event = json.loads(text)
        match event["type"]:
            case "session.start":
                session = {"id": "live_1", "expires_at": 0, "status": "active", **event["session"]}
                await connection.send(json.dumps({"type": "session.started", "session": session}))
            case "session.thinking.append":
                for _ in range(int(event["content"])):
                    await connection.send(frame)
            case "session.close":
                return


def server(pipe: Connection) -> None:
    async def main() -> None:
        async with serve(converse, "127.0.0.1", 0, compression=None, max_size=None) as listening:
            pipe.send(next(iter(listening.sockets)).getsockname()[1])
            await listening.serve_forever()

    uvloop.run(main())


async def through_the_provider(url: str, count: int) -> tuple[float, float]:
    """Return CPU µs for a piece received and for a frame sent, each with its level measured."""
    provider = OpenAILiveProvider(LiveSettings(api_key="bench", base_url=url, buffer_ms=0))
    async with provider.connect(SessionSetup("Bench.", "", (), PCMU)) as session:
        await session.send_text(str(count))
        started = time.process_time()
        for _ in range(count):
            await anext(session)
        received = (time.process_time() - started) / count * 1e6
        frame = noise(session.input, FRAME_MS)
        started = time.process_time()
        for _ in range(count):
            await session.send_audio(frame)
        sent = (time.process_time() - started) / count * 1e6
    return received, sent


async def through_the_sdk(url: str, count: int) -> tuple[float, float]:
    client = AsyncOpenAI(api_key="bench", base_url=url)
    async with client.live.connect(websocket_connection_options={"proxy": None}) as connection:
        await connection.session.start(session=SESSION)
        await connection.recv()
        await connection.session.thinking.append(content=str(count), delegation_id=None)
        started = time.process_time()
        for _ in range(count):
            base64.b64decode((await connection.recv()).delta)
        received = (time.process_time() - started) / count * 1e6
        frame = noise(PCMU, FRAME_MS)
        started = time.process_time()
        for _ in range(count):
            await connection.session.input_audio.append(audio=base64.b64encode(frame).decode())
        sent = (time.process_time() - started) / count * 1e6
    return received, sent


def measure(count: int) -> Cost:
    """Measure both paths against one server."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=server, args=(theirs,), daemon=True)
    process.start()
    try:
        url = f"http://127.0.0.1:{ours.recv()}/v1"
        received, sent = uvloop.run(through_the_provider(url, count))
        slow_received, slow_sent = uvloop.run(through_the_sdk(url, max(1, count // SDK_SHARE)))
    finally:
        process.terminate()
    share = FRAME_MS / DELTA_MS
    return Cost("GPT-Live", received * share, sent, slow_received * share, slow_sent, down_asked=1.5)
