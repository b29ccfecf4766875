"""
A wire-accurate GPT-Live server for loopback, on ``websockets``.

Use it in a test::

    async with LiveFakeServer(script, faults="keeps_talking#1") as server:
        client = AsyncOpenAI(api_key="any", base_url=server.url)
        async with client.live.connect() as connection: ...
        assert server.sessions[-1].received

or as a process: ``trunkline fake-live --port 9101 --script demo.yaml``. A connection may bring its own
faults: in the header ``X-Fake-Fault``, or behind a tilde in the model's name (``gpt-live-1.1~failed#1``).
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from providers.fakes.faults import FaultError, Faults, Service, parse_faults
from providers.fakes.live_check import check_server_event, prepare
from providers.fakes.live_session import FRAME_MS, LiveSession, Options
from providers.fakes.openai_wire import http_error
from providers.fakes.pump import Pump, hold_pongs, now
from providers.fakes.script import DEFAULT_SCRIPT, Connect, Script, load_script

_PATHS = ("/v1/live/sessions", "/live/sessions")


class LiveFakeServer:
    """
    Serves the Live API on a local port.

    Args:
        script: What the model says: a script or a file of one.
        faults: What goes wrong, for every connection.
        port: 0 takes a free one; see :attr:`url`.
        api_key: The only key that is accepted; any key is, without it.
        validate: Check every event that is sent with the SDK's types, and fail loudly.
        session_seconds: How long a session may last.
        frame_ms: How much audio is in one piece of the model's voice.
        remember: How many sessions are kept for tests to look at.
    """

    def __init__(
        self,
        script: Script | Path | None = None,
        faults: Faults | str = "",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str | None = None,
        validate: bool = False,
        session_seconds: float = 3600.0,
        frame_ms: int = FRAME_MS,
        remember: int = 256,
    ) -> None:
        self.script = script if isinstance(script, Script) else load_script(script or DEFAULT_SCRIPT)
        self.faults = faults if isinstance(faults, Faults) else parse_faults(faults, Service.LIVE)
        self.sessions: deque[LiveSession] = deque(maxlen=remember)
        self.refused: deque[int] = deque(maxlen=remember)
        """HTTP statuses of refused handshakes."""
        self._host = host
        self._port = port
        self._api_key = api_key
        self._check = check_server_event if validate else None
        if validate:
            prepare()
        self._session_seconds = session_seconds
        self._frame_ms = frame_ms
        self._seeds = itertools.count(1)
        self._stopping = asyncio.Event()
        self._server: Server | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def connections(self) -> int:
        """Sockets that are open now."""
        return len(self._server.connections) if self._server is not None else 0

    @property
    def url(self) -> str:
        """The ``base_url`` for ``AsyncOpenAI``."""
        return f"http://{self._host}:{self._port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._converse,
            self._host,
            self._port,
            process_request=self._admit,
            compression=None,
            max_size=None,
            open_timeout=None,
            ping_interval=None,
            close_timeout=1,
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Look at the handshake; a response refuses it."""
        try:
            faults = self._faults_of(request)
        except FaultError as error:
            return self._refuse(connection, 400, str(error))
        late = faults.get("late_handshake")
        await self._wait(late.number if late else self.script.connect_after)
        if self.script.connect is Connect.HANG:
            await self._wait(None)
        status, message = self._status(request, faults)
        return self._refuse(connection, status, message) if status else None

    async def _wait(self, seconds: float | None) -> None:
        """Wait so long, or until the server stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _status(self, request: Request, faults: Faults) -> tuple[int, str]:
        """Return the status that refuses the handshake, and what it says; 0 admits it."""
        fault = faults.get("status")
        if fault:
            return int(fault.number), ""
        if self.script.connect is Connect.REFUSE:
            return 503, ""
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        wrong = self._api_key is not None and not hmac.compare_digest(key.encode(), self._api_key.encode())
        if scheme != "Bearer" or not key or wrong or self.script.connect is Connect.REJECT_KEY:
            return 401, ""
        address = urlsplit(request.path)
        if address.path not in _PATHS:
            return 404, ""
        if address.query:
            return 400, "This endpoint takes no query parameters: put the model into session.start."
        return 0, ""

    def _refuse(self, connection: ServerConnection, status: int, message: str = "") -> Response:
        self.refused.append(status)
        _, body = http_error(status)
        if message:
            body["error"]["message"] = message
        response = connection.respond(status, json.dumps(body))
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = "application/json"
        if status in (429, 503):
            response.headers["Retry-After"] = "1"
        return response

    def _faults_of(self, request: Request) -> Faults:
        return self.faults + parse_faults(request.headers.get("X-Fake-Fault", ""), Service.LIVE)

    async def _converse(self, connection: ServerConnection) -> None:
        request = connection.request
        assert request is not None
        faults = self._faults_of(request)
        options = Options(
            script=self.script,
            faults=faults,
            seed=next(self._seeds),
            session_seconds=self._session_seconds,
            frame_ms=self._frame_ms,
            check=self._check,
        )
        session = LiveSession(options, now=now(), wall_time=time.time())
        self.sessions.append(session)
        if faults.get("no_pong"):
            hold_pongs(connection, None)
        slow = faults.get("slow_reader")
        await Pump(connection, session, text=True, read_delay=slow.number if slow else 0.0).run()
