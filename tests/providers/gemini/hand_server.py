"""A Gemini Live server on loopback, with TLS, that says exactly what a test tells it to say."""

from __future__ import annotations

import asyncio
import http
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from config.providers import GeminiSettings
from providers.gemini import GeminiProvider
from providers.types import PCMU, SessionSetup
from tools.types import AgentToolDefinition

KEY = "AIza-test-0123456789"
LOOKUP = AgentToolDefinition("lookup_caller", "Looks up the caller.", {"type": "object", "properties": {}})


class Tls(NamedTuple):
    """What a server needs and what its client trusts."""

    context: ssl.SSLContext
    authority: Path


def setup(**more) -> SessionSetup:
    fields = {"prompt": "You answer the phone.", "addendum": "## Tools", "tools": (LOOKUP,), "line": PCMU}
    return SessionSetup(**{**fields, **more})


def accept(_index: int, _setup: dict) -> list[dict]:
    """The server's answer to any set-up."""
    return [{"setupComplete": {}}]


class HandServer:
    """
    Admits clients, answers their set-up, and then does only what the test does.

    Args:
        tls: Its certificate.
        status: Answer the upgrade with this instead.
        on_setup: Makes the frames that answer the set-up of the connection with that index; an
            integer closes it with that code, ``None`` never answers.
    """

    def __init__(
        self,
        tls: Tls,
        *,
        status: int = 101,
        on_setup: Callable[[int, dict], list[dict] | int | None] = accept,
    ) -> None:
        self.tls = tls
        self.requests: list[Request] = []
        self.setups: list[dict] = []
        self.audio: list[str] = []
        self.connection: ServerConnection | None = None
        self.on_setup = on_setup
        self.open = 0
        """Connections that are open now; ``most`` is how many were at once."""
        self.most = 0
        self.status = status
        self._received: asyncio.Queue[dict] = asyncio.Queue(1000)
        self._arrived: asyncio.Queue[ServerConnection] = asyncio.Queue(100)

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._converse,
            "127.0.0.1",
            0,
            ssl=self.tls.context,
            process_request=self._admit,
            max_size=None,
            close_timeout=0.2,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc) -> None:
        self._server.close()
        await self._server.wait_closed()

    def stop_listening(self) -> None:
        """Refuse every further connection, as a process that is gone."""
        self._server.server.close()

    def provider(self, *, timeout: float = 5.0, **more) -> GeminiProvider:
        fields = {
            "api_key": KEY,
            "base_url": f"https://127.0.0.1:{self.port}",
            "ca_file": self.tls.authority,
            "connect_timeout_s": timeout,
        }
        return GeminiProvider(GeminiSettings(**{**fields, **more}))

    async def send(self, *frames: dict) -> None:
        """Send frames as the service does: JSON in binary frames."""
        for frame in frames:
            await self.connection.send(json.dumps(frame, separators=(",", ":")).encode())

    async def receive(self) -> dict:
        """Return the next frame of the client that is no audio and no set-up."""
        return await self._received.get()

    async def arrival(self) -> ServerConnection:
        """Wait for the next connection that was set up."""
        return await self._arrived.get()

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        if self.status == 101:
            return None
        return connection.respond(http.HTTPStatus(self.status), f"{KEY} refused")

    async def _converse(self, connection: ServerConnection) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            made = json.loads(await connection.recv())["setup"]
            index = len(self.setups)
            self.setups.append(made)
            answer = self.on_setup(index, made)
            if isinstance(answer, int):
                await connection.close(answer, f"because of {KEY}")
                return
            self.connection = connection
            if answer is not None:
                await self.send(*answer)
                self._arrived.put_nowait(connection)
            async for text in connection:
                assert isinstance(text, str), "the API takes text frames"
                frame = json.loads(text)
                if "audio" in frame.get("realtimeInput", {}):
                    self.audio.append(frame["realtimeInput"]["audio"]["data"])
                else:
                    self._received.put_nowait(frame)
        except ConnectionClosed:
            pass
        finally:
            self.open -= 1
