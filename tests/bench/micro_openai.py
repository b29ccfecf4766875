"""What 20 ms of audio cost the OpenAI provider, on a G.711 line; see :mod:`tests.bench.hot_path`."""

from __future__ import annotations

import base64
import json
import multiprocessing
import time
from multiprocessing.connection import Connection

import uvloop
from openai import AsyncOpenAI
from websockets.asyncio.server import ServerConnection, serve

from config.providers import OpenAISettings
from providers.openai import OpenAIProvider
from providers.types import PCMU, SessionSetup
from tests.bench.hot_path import DELTA_MS, FRAME_MS, Cost, noise

FORMAT = {"format": {"type": "audio/pcmu"}}
DEFAULTS = {"format": {"type": "audio/pcm", "rate": 24000}}
SDK_SHARE = 10
"""The SDK's path is measured with so many times fewer pieces."""


def delta() -> str:
    """Return a piece of speech, in the layout of the service."""
    return json.dumps(
        {
            "type": "response.output_audio.delta",
            "event_id": "event_C9G5RJeJ2gF77mV7f2B1j",
            "response_id": "resp_C9G5RJeJ2gF77mV7f2B1j",
            "item_id": "item_C9G5RJeJ2gF77mV7f2B1j",
            "output_index": 0,
            "content_index": 0,
            "delta": base64.b64encode(noise(PCMU, DELTA_MS)).decode(),
        },
        separators=(",", ":"),
    )


async def converse(connection: ServerConnection) -> None:
    """Configure the session, then send as many pieces as a text asks for, or swallow audio."""
    await connection.send(
        json.dumps({"type": "session.created", "session": {"audio": {"input": DEFAULTS, "output": DEFAULTS}}})
    )
    frame = delta()
    async for text in connection:
        if '"input_audio_buffer.append"' in text[:40]:
            continue
        event = json.loads(text)
        match event["type"]:
            case "session.update":
                await connection.send(json.dumps({"type": "session.updated", "session": event["session"]}))
            case "conversation.item.create":
                for _ in range(int(event["item"]["content"][0]["text"])):
                    await connection.send(frame)


def server(pipe: Connection) -> None:
    async def main() -> None:
        async with serve(converse, "127.0.0.1", 0, compression=None, max_size=None) as listening:
            pipe.send(next(iter(listening.sockets)).getsockname()[1])
            await listening.serve_forever()

    uvloop.run(main())


async def through_the_provider(url: str, count: int) -> tuple[float, float]:
    """Return CPU µs for a piece received and for a frame sent."""
    provider = OpenAIProvider(OpenAISettings(api_key="bench", base_url=url))
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
    async with client.realtime.connect(model="m", websocket_connection_options={"proxy": None}) as connection:
        await connection.recv()
        audio = {"input": FORMAT, "output": FORMAT}
        await connection.session.update(session={"type": "realtime", "audio": audio})
        await connection.recv()
        content = {"type": "input_text", "text": str(count)}
        await connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [content]}
        )
        started = time.process_time()
        for _ in range(count):
            base64.b64decode((await connection.recv()).delta)
        received = (time.process_time() - started) / count * 1e6
        frame = noise(PCMU, FRAME_MS)
        started = time.process_time()
        for _ in range(count):
            await connection.input_audio_buffer.append(audio=base64.b64encode(frame).decode())
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
    return Cost("OpenAI Realtime", received * share, sent, slow_received * share, slow_sent)
