"""A Realtime server on loopback that says exactly what a test tells it to say."""

from __future__ import annotations

import asyncio
import http
import json
from collections.abc import Callable
from typing import Self

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from config.providers import OpenAISettings
from providers.openai import OpenAIProvider
from providers.types import PCMU, AudioFormat, SessionSetup
from tools.types import AgentToolDefinition

LOOKUP = AgentToolDefinition("lookup_caller", "Looks up the caller.", {"type": "object", "properties": {}})
DEFAULTS = {
    "type": "realtime",
    "object": "realtime.session",
    "id": "sess_1",
    "tools": [],
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": 24000}},
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "alloy"},
    },
}


def setup(line: AudioFormat = PCMU, **more) -> SessionSetup:
    fields = {"prompt": "You answer the phone.", "addendum": "## Tools", "tools": (LOOKUP,), "line": line}
    return SessionSetup(**{**fields, **more})


def applied(update: dict, **more) -> list[dict]:
    """The server's answer to ``session.update``: the whole session with the change in it."""
    return [{"type": "session.updated", "session": {**DEFAULTS, **update["session"], **more}}]


class HandServer:
    """
    Admits one client after the other, does the set-up, and then only what the test does.

    Args:
        status: Answer the upgrade with this instead.
        on_update: Makes the answer to each ``session.update``.
        greeting: What is sent at once; by default ``session.created``.
    """

    def __init__(
        self,
        *,
        status: int = 101,
        on_update: Callable[[dict], list[dict]] = applied,
        greeting: list[dict] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.updates: list[dict] = []
        self.audio: list[str] = []
        self.texts: list[str] = []
        self.connection: ServerConnection | None = None
        self._status = status
        self._on_update = on_update
        self._greeting = [{"type": "session.created", "session": DEFAULTS}] if greeting is None else greeting
        self._received: asyncio.Queue[dict] = asyncio.Queue(1000)
        self.left = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._converse, "127.0.0.1", 0, process_request=self._admit, max_size=None, close_timeout=0.2
        )
        return self

    async def __aexit__(self, *exc) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        return self._server.sockets[0].getsockname()[1]

    def provider(self, *, key: str = "sk-test-0123456789", timeout: float = 5.0, **more) -> OpenAIProvider:
        return OpenAIProvider(
            OpenAISettings(
                api_key=key, base_url=f"http://127.0.0.1:{self.port}/v1", connect_timeout_s=timeout, **more
            )
        )

    async def send(self, *events: dict) -> None:
        for event in events:
            await self.connection.send(json.dumps(event, separators=(",", ":")))

    async def receive(self) -> dict:
        """Return the next event of the client that is no audio and no session.update."""
        return await self._received.get()

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        if self._status == 101:
            return None
        return connection.respond(http.HTTPStatus(self._status), "sk-test-0123456789 refused")

    async def _converse(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.left.clear()
        try:
            await self.send(*self._greeting)
            async for text in connection:
                assert isinstance(text, str), "the API takes no binary frames"
                event = json.loads(text)
                match event["type"]:
                    case "session.update":
                        self.updates.append(event)
                        await self.send(*self._on_update(event))
                    case "input_audio_buffer.append":
                        self.audio.append(event["audio"])
                    case _:
                        self._received.put_nowait(event)
        except ConnectionClosed:
            pass
        finally:
            self.left.set()
