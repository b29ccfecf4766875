"""
Opening sessions of GPT-Live through OpenAI's official SDK, which addresses and authenticates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

from openai import AsyncOpenAI
from websockets.exceptions import ConnectionClosed

from providers.errors import ProviderRejected, ProviderUnavailable
from providers.openai.failures import failures_named, without_key
from providers.openai_live import wire
from providers.openai_live.config import build_live_session_config, session_format
from providers.openai_live.messages import ErrorReported, SessionFacts, SessionStarted, StartSession
from providers.openai_live.session import CAPABILITIES, OpenAILiveSession
from providers.types import Capabilities, SessionSetup
from providers.websocket import CLOSE_TIMEOUT, Socket

if TYPE_CHECKING:
    from openai.resources.live.live import AsyncLiveConnection
    from openai.types.websocket_connection_options import WebSocketConnectionOptions

    from config.providers import LiveSettings

BASE_URL = "https://api.openai.com/v1"
CONNECTION = {
    "compression": None,
    "proxy": None,
    "open_timeout": None,  # one limit for all of the set-up, in ``connect``
    "close_timeout": CLOSE_TIMEOUT,
    "ping_interval": 10.0,
    "ping_timeout": 20.0,
    "max_size": 16 * 1024 * 1024,
    "max_queue": 256,
}
_OVERLOADED = frozenset({"server_error", "rate_limit_exceeded", "inference_rate_limit_exceeded"})


class OpenAILiveProvider:
    """
    GPT-Live, or a server that speaks its protocol.

    Args:
        settings: Key, models, address, limits.
        name: The key of the configuration's ``providers`` section.
    """

    def __init__(self, settings: LiveSettings, name: str = "openai-live") -> None:
        self._settings = settings
        self._name = name
        self._client = _client(settings.api_key.get_secret_value(), settings.base_url or BASE_URL)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @asynccontextmanager
    async def connect(self, setup: SessionSetup) -> AsyncIterator[OpenAILiveSession]:
        """
        Open a session; entering returns when the server has started it.

        Raises:
            ProviderUnavailable: Refused, overloaded, or not started within ``connect_timeout_s``.
            ProviderRejected: The key, a model or the configuration is refused.
        """
        async with AsyncExitStack() as stack:
            session = await self._open(setup, stack)
            yield session

    async def _open(self, setup: SessionSetup, stack: AsyncExitStack) -> OpenAILiveSession:
        sockets: list[Socket] = []  # more than one after a redirect; the last is the connection's
        options = {**CONNECTION, "create_connection": partial(Socket, opened=sockets.append)}
        with failures_named(self._settings):
            async with asyncio.timeout(self._settings.connect_timeout_s):
                connection = await self._client.live.connect(
                    # The SDK's type names fewer options than it hands to websockets.
                    websocket_connection_options=cast("WebSocketConnectionOptions", options),
                ).enter()
                stack.push_async_callback(_close, connection)
                facts = await self._start(connection, setup)
        session = OpenAILiveSession(sockets[-1], self._settings, setup, facts)
        stack.push_async_callback(session.close)
        return session

    async def _start(self, connection: AsyncLiveConnection, setup: SessionSetup) -> SessionFacts:
        """Send the configuration and return what the server says that it applied."""
        config = build_live_session_config(setup, self._settings)
        await connection.send_raw(wire.encode(StartSession("start", config)).decode())
        facts = await self._started(connection)
        if facts.format != session_format(setup.line):
            raise ProviderRejected("the provider did not confirm the audio format", code="format_unconfirmed")
        missing = {tool.name for tool in setup.tools} - (facts.tools or frozenset())
        if facts.tools is not None and missing:
            names = ", ".join(sorted(missing))
            raise ProviderRejected(f"the provider left out tools: {names}", code="tools_missing")
        return facts

    async def _started(self, connection: AsyncLiveConnection) -> SessionFacts:
        """Wait for ``session.started``; an error of the server ends it."""
        while True:
            try:
                message = wire.decode(await connection.recv_bytes())
            except wire.WireError as exc:
                raise ProviderUnavailable(f"the server does not speak the protocol: {exc}") from exc
            if isinstance(message, SessionStarted):
                return message.session
            if isinstance(message, ErrorReported):
                code = message.code or message.kind
                text = f"the provider refused the session: {without_key(message.message, self._settings)}"
                if _OVERLOADED & {message.code, message.kind}:
                    raise ProviderUnavailable(text, code=code)
                raise ProviderRejected(text, code=code)


@lru_cache(maxsize=32)
def _client(api_key: str, base_url: str) -> AsyncOpenAI:
    """Share one client for each key: building one takes tens of milliseconds of CPU."""
    return AsyncOpenAI(api_key=api_key, base_url=base_url)


async def _close(connection: AsyncLiveConnection) -> None:
    with suppress(ConnectionClosed, OSError):
        await connection.close()
