"""
Opening connections of Gemini Live through its official SDK, which addresses, authenticates and sets up.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from google import genai
from google.genai import types
from google.oauth2 import service_account

from providers.errors import ProviderUnavailable
from providers.gemini.config import build_gemini_session_config
from providers.gemini.failures import failures_named
from providers.gemini.models import profile_of
from providers.gemini.session import GeminiSession, capabilities
from providers.types import Capabilities, SessionSetup
from providers.websocket import CLOSE_TIMEOUT, Socket

if TYPE_CHECKING:
    from config.providers import GeminiSettings

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_opened: ContextVar[list[Socket]] = ContextVar("gemini_sockets")
"""The sockets of the connection that this task is opening; one client makes them for all calls."""
CONNECTION = {
    "compression": None,
    "proxy": None,
    "open_timeout": None,  # one limit for all of the set-up, in ``dial``
    "close_timeout": CLOSE_TIMEOUT,
    # Its pongs were seen to come 8 to 30 s late (fault 23): the session has a more patient way to ask.
    "ping_interval": None,
    "max_size": 64 * 1024 * 1024,
    "max_queue": 256,
}


class GeminiProvider:
    """
    Gemini Live, or a server that speaks its protocol.

    Args:
        settings: Key or project, model, address, limits.
        name: The key of the configuration's ``providers`` section.
    """

    def __init__(self, settings: GeminiSettings, name: str = "gemini") -> None:
        self._settings = settings
        self._name = name
        self._profile = profile_of(settings.model, vertex=settings.vertex is not None)
        self._client = _client(settings)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return capabilities(self._profile)

    @asynccontextmanager
    async def connect(self, setup: SessionSetup) -> AsyncIterator[GeminiSession]:
        """
        Open a session; entering returns when the server confirmed its configuration.

        Raises:
            ProviderUnavailable: Refused, overloaded, or not configured within ``connect_timeout_s``.
            ProviderRejected: The key, the model or the configuration is refused.
        """
        async with AsyncExitStack() as line:
            socket = await self.dial(setup, "", line, self._settings.connect_timeout_s)
            session = GeminiSession(self.dial, self._settings, self._profile, setup, socket, line.pop_all())
        try:
            await session.begin()
            yield session
        finally:
            await session.close()

    async def dial(self, setup: SessionSetup, handle: str, line: AsyncExitStack, limit_s: float) -> Socket:
        """
        Open one connection and wait until it is configured; ``line`` closes it.

        Args:
            setup: What the call wants.
            handle: The session to go on with; empty for a new one.
            line: Takes what has to be closed.
            limit_s: How long it may take.
        """
        config = build_gemini_session_config(
            setup,
            profile=self._profile,
            turn_detection=self._settings.turn_detection,
            transcribes=self._settings.transcription,
            handle=handle,
        )
        sockets: list[Socket] = []  # more than one after a redirect; the last is the connection's
        token = _opened.set(sockets)
        try:
            with failures_named(self._settings, limit_s):
                async with asyncio.timeout(limit_s):
                    connection = self._client.aio.live.connect(model=self._settings.model, config=config)
                    session = await line.enter_async_context(connection)
        finally:
            _opened.reset(token)
        if session.setup_complete is None:
            raise ProviderUnavailable("the server's first answer was no setupComplete", code="no_setup")
        return sockets[-1]


def _client(settings: GeminiSettings) -> genai.Client:
    """Make the SDK's client: one for each provider, since it takes tens of milliseconds of CPU."""
    options = types.HttpOptions(
        base_url=settings.base_url,
        # Where Live is; the SDK's own default is the version of its other methods.
        api_version="v1beta1" if settings.vertex is not None else "v1beta",
        async_client_args={
            **CONNECTION,
            "ssl": ssl.create_default_context(cafile=settings.ca_file),
            "create_connection": partial(Socket, opened=_note),
        },
    )
    if settings.api_key is not None:
        return genai.Client(vertexai=False, api_key=settings.api_key.get_secret_value(), http_options=options)
    vertex = settings.vertex
    assert vertex is not None  # the settings have one of the two
    credentials = None
    if vertex.credentials is not None:
        load = service_account.Credentials.from_service_account_file
        credentials = load(vertex.credentials, scopes=[_SCOPE])  # type: ignore[no-untyped-call]
    return genai.Client(
        vertexai=True,
        project=vertex.project,
        location=vertex.location,
        credentials=credentials,
        http_options=options,
    )


def _note(socket: Socket) -> None:
    _opened.get().append(socket)
