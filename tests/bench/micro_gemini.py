"""
What audio costs the Gemini provider and Google's SDK; :mod:`tests.bench.hot_path` runs it.

Over TLS, which the SDK insists on, against a server in a process of its own.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import ssl
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop
from google import genai
from google.genai import types
from websockets.asyncio.server import ServerConnection, serve

from config.providers import GeminiSettings
from providers.gemini import GeminiProvider
from providers.types import PCM16_16K, PCM16_24K, PCMU, SessionSetup
from tests.bench.hot_path import DELTA_MS, FRAME_MS, Cost, noise
from tests.kit.certificates import Authority, Pair

SDK_SHARE = 10
"""The SDK's path is measured with so many times fewer pieces."""


def piece() -> bytes:
    """One piece of the model's speech, in the layout of the service."""
    data = base64.b64encode(noise(PCM16_24K, DELTA_MS)).decode()
    blob = {"mimeType": "audio/pcm;rate=24000", "data": data}
    content = {"modelTurn": {"role": "model", "parts": [{"inlineData": blob}]}}
    return json.dumps({"serverContent": content}, separators=(",", ":")).encode()


async def converse(connection: ServerConnection) -> None:
    """Confirm the set-up, then send as many pieces as a text asks for, or swallow audio."""
    await connection.recv()
    await connection.send(b'{"setupComplete":{}}')
    frame = piece()
    async for text in connection:
        message = json.loads(text)
        content = message.get("clientContent") or message.get("client_content")
        if content is not None:
            for _ in range(int(content["turns"][0]["parts"][0]["text"])):
                await connection.send(frame)


def server(pipe: Connection, pair: Pair) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.private_key)

    async def main() -> None:
        async with serve(converse, "127.0.0.1", 0, ssl=context, compression=None, max_size=None) as listening:
            pipe.send(next(iter(listening.sockets)).getsockname()[1])
            await listening.serve_forever()

    uvloop.run(main())


async def through_the_provider(url: str, authority: Path, count: int) -> tuple[float, float]:
    """Return CPU µs for a piece received and for a frame sent."""
    provider = GeminiProvider(GeminiSettings(api_key="bench", base_url=url, ca_file=authority))
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


async def through_the_sdk(url: str, authority: Path, count: int) -> tuple[float, float]:
    arguments = {
        "ssl": ssl.create_default_context(cafile=authority),
        "compression": None,
        "max_size": None,
        "proxy": None,
    }
    options = types.HttpOptions(base_url=url, api_version="v1beta", async_client_args=arguments)
    live = genai.Client(api_key="bench", http_options=options).aio.live
    config = types.LiveConnectConfig(response_modalities=[types.Modality.AUDIO])
    async with live.connect(model="gemini-3.8-live", config=config) as session:
        turn = types.Content(role="user", parts=[types.Part(text=str(count))])
        await session.send_client_content(turns=turn, turn_complete=False)
        started = time.process_time()
        left = count
        async for message in session.receive():
            assert message.data  # decoded by the SDK
            left -= 1
            if not left:
                break
        received = (time.process_time() - started) / count * 1e6
        blob = types.Blob(data=noise(PCM16_16K, FRAME_MS), mime_type="audio/pcm;rate=16000")
        started = time.process_time()
        for _ in range(count):
            await session.send_realtime_input(audio=blob)
        sent = (time.process_time() - started) / count * 1e6
    return received, sent


def measure(count: int) -> Cost:
    """Measure both paths against one server."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        ours, theirs = multiprocessing.Pipe()
        arguments = (theirs, authority.sign("127.0.0.1"))
        process = multiprocessing.Process(target=server, args=arguments, daemon=True)
        process.start()
        try:
            url = f"https://127.0.0.1:{ours.recv()}"
            received, sent = uvloop.run(through_the_provider(url, authority.file, count))
            slow = uvloop.run(through_the_sdk(url, authority.file, max(1, count // SDK_SHARE)))
        finally:
            process.terminate()
    share = FRAME_MS / DELTA_MS
    return Cost("Gemini Live", received * share, sent, slow[0] * share, slow[1])
