"""
A TLS front before aimock, for Gemini: its SDK speaks TLS alone, and aimock knows only camelCase at the top.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from providers.fakes.certificate import Certificate

CAMEL = {
    "realtime_input": "realtimeInput",
    "client_content": "clientContent",
    "tool_response": "toolResponse",
}


@asynccontextmanager
async def tls_front(upstream: int, certificate: Certificate) -> AsyncIterator[str]:
    """Serve on a free port what an unprotected server on ``upstream`` serves; gives the address."""

    async def carry(client: ServerConnection) -> None:
        assert client.request is not None
        url = f"ws://127.0.0.1:{upstream}{client.request.path}"
        async with connect(url, compression=None, max_size=None, proxy=None) as server:
            async with asyncio.TaskGroup() as group:
                inward = group.create_task(_inward(client, server))
                try:
                    async for message in server:
                        await client.send(message)
                except ConnectionClosed:
                    pass
                inward.cancel()
            await client.close(server.close_code or 1000)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.private_key)
    async with serve(carry, "127.0.0.1", 0, ssl=context, compression=None, max_size=None) as front:
        yield f"https://127.0.0.1:{next(iter(front.sockets)).getsockname()[1]}"


async def _inward(client: ServerConnection, server: ClientConnection) -> None:
    try:
        async for message in client:
            told = {CAMEL.get(key, key): value for key, value in orjson.loads(message).items()}
            await server.send(orjson.dumps(told).decode())
    except ConnectionClosed:
        pass
    await server.close()
