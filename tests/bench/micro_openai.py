"""
What one piece of audio costs the OpenAI provider, in µs of CPU.

    .venv/bin/python tests/bench/micro_openai.py [--count 20000]

Receiving and sending run over loopback against a server in a process of its own, so that only
our side is counted; ``parse`` and ``build`` are the same without a socket. The last column is the same
work through the SDK's own models, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import uvloop
from openai import AsyncOpenAI
from websockets.asyncio.server import ServerConnection, serve

from config.providers import OpenAISettings
from providers.openai import OpenAIProvider, wire
from providers.types import PCM16_16K, PCMU, AudioFormat, SessionSetup

DELTA_MS = 200
APPEND_MS = 20
DEFAULTS = {
    "input": {"format": {"type": "audio/pcm", "rate": 24000}},
    "output": {"format": {"type": "audio/pcm", "rate": 24000}},
}


def delta(fmt: AudioFormat, ms: int = DELTA_MS) -> str:
    """One delta, in the layout of the service."""
    return json.dumps(
        {
            "type": "response.output_audio.delta",
            "event_id": "event_C9G5RJeJ2gF77mV7f2B1j",
            "response_id": "resp_C9G5RJeJ2gF77mV7f2B1j",
            "item_id": "item_C9G5RJeJ2gF77mV7f2B1j",
            "output_index": 0,
            "content_index": 0,
            "delta": base64.b64encode(os.urandom(fmt.bytes_per_ms * ms)).decode(),
        },
        separators=(",", ":"),
    )


async def converse(connection: ServerConnection) -> None:
    """Configure the session, then send what a text asks for, or swallow audio."""
    await connection.send(json.dumps({"type": "session.created", "session": {"audio": DEFAULTS}}))
    frame = ""
    async for text in connection:
        if '"input_audio_buffer.append"' in text[:40]:
            continue
        event = json.loads(text)
        match event["type"]:
            case "session.update":
                session = event["session"]
                pcmu = session["audio"]["output"]["format"]["type"] == "audio/pcmu"
                frame = delta(PCMU if pcmu else AudioFormat("pcm16", 24000))
                await connection.send(json.dumps({"type": "session.updated", "session": session}))
            case "conversation.item.create":
                for _ in range(int(event["item"]["content"][0]["text"])):
                    await connection.send(frame)


def server(pipe: Connection) -> None:
    async def main() -> None:
        async with serve(converse, "127.0.0.1", 0, compression=None, max_size=None) as listening:
            pipe.send(next(iter(listening.sockets)).getsockname()[1])
            await listening.serve_forever()

    uvloop.run(main())


def cpu_us(count: int, work: Callable[[], object]) -> float:
    started = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - started) / count * 1e6


async def over_loopback(provider: OpenAIProvider, line: AudioFormat, count: int) -> tuple[float, float]:
    """Return CPU µs for a delta received and for a frame sent."""
    setup = SessionSetup("Bench.", "", (), line)
    async with provider.connect(setup) as session:
        await session.send_text(str(count))
        started = time.process_time()
        for _ in range(count):
            await anext(session)
        received = (time.process_time() - started) / count * 1e6
        frame = os.urandom(session.input.bytes_per_ms * APPEND_MS)
        started = time.process_time()
        for _ in range(count):
            await session.send_audio(frame)
        sent = (time.process_time() - started) / count * 1e6
    return received, sent


async def through_the_sdk(url: str, line: AudioFormat, count: int) -> tuple[float, float]:
    wire_format = {"type": "audio/pcmu"} if line == PCMU else {"type": "audio/pcm", "rate": 24000}
    client = AsyncOpenAI(api_key="bench", base_url=url)
    async with client.realtime.connect(model="m", websocket_connection_options={"proxy": None}) as connection:
        await connection.recv()
        audio = {"input": {"format": wire_format}, "output": {"format": wire_format}}
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
        frame = os.urandom((8 if line == PCMU else 48) * APPEND_MS)
        started = time.process_time()
        for _ in range(count):
            await connection.input_audio_buffer.append(audio=base64.b64encode(frame).decode())
        sent = (time.process_time() - started) / count * 1e6
    return received, sent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000)
    count = parser.parse_args().count
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=server, args=(theirs,), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{ours.recv()}/v1"
    provider = OpenAIProvider(OpenAISettings(api_key="bench", base_url=url))
    print(f"{'':28}{'parse':>8}{'receive':>9}{'build':>8}{'send':>8}{'SDK receive':>13}{'SDK send':>10}")
    for name, line, fmt in (("pcmu", PCMU, PCMU), ("pcm16 24k", PCM16_16K, AudioFormat("pcm16", 24000))):
        raw, frame = delta(fmt).encode(), os.urandom(fmt.bytes_per_ms * APPEND_MS)
        parse = cpu_us(count, lambda raw=raw: wire.audio_delta(raw))
        build = cpu_us(count, lambda frame=frame: wire.append_audio(frame))
        for loop, run in (("asyncio", asyncio.run), ("uvloop", uvloop.run)):
            received, sent = run(over_loopback(provider, line, count))
            slow = run(through_the_sdk(url, line, max(1, count // 10)))
            label = f"{name}, {DELTA_MS}/{APPEND_MS} ms, {loop}"
            print(
                f"{label:28}{parse:8.2f}{received:9.2f}{build:8.2f}{sent:8.2f}{slow[0]:13.1f}{slow[1]:10.1f}"
            )
    process.terminate()


if __name__ == "__main__":
    main()
