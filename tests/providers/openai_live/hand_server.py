"""A GPT-Live server on loopback that says exactly what a test tells it to say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Self

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from config.providers import LiveSettings
from providers.openai_live import OpenAILiveProvider
from providers.types import PCMU, SessionSetup
from tools.types import AgentToolDefinition

KEY = "sk-test-0123456789"
LOOKUP = AgentToolDefinition("look_up", "Looks up.", {"type": "object", "properties": {}})


def setup(**more) -> SessionSetup:
    return SessionSetup(**{"prompt": "Answer.", "addendum": "", "tools": (LOOKUP,), "line": PCMU, **more})


def started(start: dict) -> list[dict]:
    """The service's answer to ``session.start``: the whole session."""
    session = {"id": "live_1", "status": "active", "expires_at": 0, **start["session"]}
    return [{"type": "session.started", "event_id": "event_1", "session": session}]


class HandServer:
    """
    Admits a client, answers its ``session.start``, and then does only what the test does.

    Args:
        on_start: Makes the answer.
    """

    def __init__(self, on_start: Callable[[dict], list[dict]] = started) -> None:
        self._on_start = on_start
        self.connection: ServerConnection | None = None
        self.audio: list[str] = []
        self._received: asyncio.Queue[dict] = asyncio.Queue(1000)

    async def __aenter__(self) -> Self:
        self._server = await serve(self._converse, "127.0.0.1", 0, close_timeout=0.2)
        return self

    async def __aexit__(self, *exc) -> None:
        self._server.close()
        await self._server.wait_closed()

    def provider(self, **more) -> OpenAILiveProvider:
        url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return OpenAILiveProvider(LiveSettings(**{"api_key": KEY, "base_url": url, **more}))

    async def send(self, *events: dict) -> None:
        for event in events:
            await self.connection.send(json.dumps(event))

    async def receive(self) -> dict:
        """Return the next event of the client that is no audio."""
        return await self._received.get()

    async def _converse(self, connection: ServerConnection) -> None:
        self.connection = connection
        try:
            async for text in connection:
                event = json.loads(text)
                match event["type"]:
                    case "session.start":
                        await self.send(*self._on_start(event))
                    case "session.input_audio.append":
                        self.audio.append(event["audio"])
                    case _:
                        self._received.put_nowait(event)
        except ConnectionClosed:
            pass
