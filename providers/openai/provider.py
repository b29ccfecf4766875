"""
Opening sessions of OpenAI Realtime through its official SDK, which addresses and authenticates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar, cast

from openai import AsyncAzureOpenAI, AsyncOpenAI
from websockets.exceptions import ConnectionClosed

from providers.errors import ProviderRejected, ProviderUnavailable
from providers.openai import wire
from providers.openai.config import build_openai_session_config
from providers.openai.failures import failures_named, without_key
from providers.openai.messages import (
    ErrorReported,
    ServerMessage,
    SessionCreated,
    SessionFacts,
    SessionUpdated,
    UpdateSession,
)
from providers.openai.models import retirements
from providers.openai.session import CAPABILITIES, OpenAISession
from providers.types import Capabilities, ProviderWarning, SessionSetup
from providers.websocket import CLOSE_TIMEOUT, Socket

if TYPE_CHECKING:
    from openai.resources.realtime.realtime import AsyncRealtimeConnection
    from openai.types.websocket_connection_options import WebSocketConnectionOptions

    from config.providers import AzureSettings, OpenAISettings

BASE_URL = "https://api.openai.com/v1"
CONNECTION = {
    "compression": None,
    "proxy": None,
    "open_timeout": None,  # one limit for all of the set-up, in ``connect``
    "close_timeout": CLOSE_TIMEOUT,
    "ping_interval": 10.0,
    "ping_timeout": 20.0,  # a network that silently went away is noticed within 30 s
    "max_size": 16 * 1024 * 1024,
    # Frames that wait for a slow consumer before the socket is no longer read. As long as it is
    # read, pings are answered and our own sends do not depend on the consumer at all.
    "max_queue": 256,
}
_OVERLOADED = frozenset({"server_error", "rate_limit_exceeded", "inference_rate_limit_exceeded"})
_T = TypeVar("_T", bound=ServerMessage)


class OpenAIProvider:
    """
    OpenAI Realtime, or a server that speaks its protocol.

    Args:
        settings: Key, model, address, limits.
        name: The key of the configuration's ``providers`` section.
    """

    def __init__(self, settings: OpenAISettings, name: str = "openai") -> None:
        self._settings = settings
        self._name = name
        self._client = _client(
            settings.api_key.get_secret_value(), settings.base_url or BASE_URL, settings.azure
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def advice(self) -> list[ProviderWarning]:
        """Say which of its models are shut down, and when; an Azure resource has a list of its own."""
        settings = self._settings
        if settings.azure is not None:
            return []
        models = {settings.model, settings.transcription_model or settings.model}
        return await retirements(settings.api_key.get_secret_value(), settings.base_url or BASE_URL, models)

    @asynccontextmanager
    async def connect(self, setup: SessionSetup) -> AsyncIterator[OpenAISession]:
        """
        Open a session; entering returns when the server confirmed its configuration.

        Raises:
            ProviderUnavailable: Refused, overloaded, or not configured within ``connect_timeout_s``.
            ProviderRejected: The key, the model or the configuration is refused.
        """
        async with AsyncExitStack() as stack:
            session = await self._open(setup, stack)
            yield session

    async def _open(self, setup: SessionSetup, stack: AsyncExitStack) -> OpenAISession:
        sockets: list[Socket] = []  # more than one after a redirect; the last is the connection's
        options = {**CONNECTION, "create_connection": partial(Socket, opened=sockets.append)}
        with failures_named(self._settings):
            async with asyncio.timeout(self._settings.connect_timeout_s):
                connection = await self._client.realtime.connect(
                    model=_model(self._settings),
                    # The SDK's type names fewer options than it hands to websockets.
                    websocket_connection_options=cast("WebSocketConnectionOptions", options),
                ).enter()
                stack.push_async_callback(_close, connection)
                facts = await self._configure(connection, setup)
                session = OpenAISession(sockets[-1], self._settings, setup, facts)
                stack.callback(session.end)
                await session.begin()
        return session

    async def _configure(self, connection: AsyncRealtimeConnection, setup: SessionSetup) -> SessionFacts:
        """Send the configuration and return what the server says that it applied."""
        created = await _expect(connection, SessionCreated, self._settings)
        config = build_openai_session_config(setup, self._settings)
        await connection.send_raw(wire.encode(UpdateSession("update-0", config)).decode())
        updated = (await _expect(connection, SessionUpdated, self._settings)).session
        if updated.input is None or updated.output is None:
            raise ProviderRejected(
                "the provider did not confirm the audio formats", code="format_unconfirmed"
            )
        missing = {tool.name for tool in setup.tools} - (updated.tools or frozenset())
        if updated.tools is not None and missing:
            names = ", ".join(sorted(missing))
            raise ProviderRejected(f"the provider left out tools: {names}", code="tools_missing")
        return replace(updated, expires_at=updated.expires_at or created.session.expires_at)


@lru_cache(maxsize=32)
def _client(api_key: str, base_url: str, azure: AzureSettings | None = None) -> AsyncOpenAI:
    """
    Share one client for each key: building one takes tens of milliseconds of CPU.

    An Azure resource takes its key in ``api-key``. Its GA address ``/openai/v1`` is the one that everybody's
    client has; a dated version is a query parameter of another address, which the SDK's Azure client knows.
    """
    if azure is None:
        return AsyncOpenAI(api_key=api_key, base_url=base_url)
    resource = f"{base_url.rstrip('/')}/openai"
    if azure.api_version is None:
        return AsyncOpenAI(api_key=api_key, base_url=f"{resource}/v1", default_headers={"api-key": api_key})
    return AsyncAzureOpenAI(
        api_key=api_key,
        base_url=resource,
        api_version=azure.api_version,
        websocket_base_url=f"ws{resource.removeprefix('http')}",
    )


def _model(settings: OpenAISettings) -> str:
    """Return what the address calls the model."""
    deployment = settings.azure.deployment if settings.azure is not None else None
    return deployment or settings.model


async def _close(connection: AsyncRealtimeConnection) -> None:
    with suppress(ConnectionClosed, OSError):
        await connection.close()


async def _expect(connection: AsyncRealtimeConnection, kind: type[_T], settings: OpenAISettings) -> _T:
    """Wait for a message of the set-up; an error of the server ends it."""
    while True:
        try:
            message = wire.decode(await connection.recv_bytes())
        except wire.WireError as exc:
            raise ProviderUnavailable(f"the server does not speak the protocol: {exc}") from exc
        if isinstance(message, kind):
            return message
        if isinstance(message, ErrorReported):
            code = message.code or message.kind
            text = f"the provider refused the session: {without_key(message.message, settings)}"
            if _OVERLOADED & {message.code, message.kind}:
                raise ProviderUnavailable(text, code=code)
            raise ProviderRejected(text, code=code)
