"""
A wire-accurate Gemini Live server for loopback, on ``websockets``, with TLS: the SDK insists on it.

Use it in a test::

    async with GeminiFakeServer(script, faults="rejected#1") as server:
        options = {"ssl": ssl.create_default_context(cadata=server.certificate_pem), "proxy": None}
        client = genai.Client(
            api_key="any",
            http_options=types.HttpOptions(
                base_url=server.url, api_version="v1beta", async_client_args=options
            ),
        )
        async with client.aio.live.connect(model="gemini-3.8-live", config=config) as session:
            ...
        assert server.sessions[-1].received

or as a process: ``trunkline fake-gemini --port 9200 --script demo.yaml``. A connection may bring its own
faults: in the query (``?fault=close:1011@2``), in the header ``X-Fake-Fault``, or behind a tilde in the name
of the model in its set-up (``gemini-3.8-live~rejected#1``; not the faults of the handshake).
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
import re
import secrets
import ssl
import tempfile
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from providers.fakes.certificate import Certificate, own_certificate
from providers.fakes.faults import FaultError, Faults, Service, parse_faults
from providers.fakes.gemini_check import check_server_message
from providers.fakes.gemini_conversation import Resumptions
from providers.fakes.gemini_models import Backend
from providers.fakes.gemini_session import LiveSession, Options
from providers.fakes.gemini_shapes import Refused
from providers.fakes.journal import Journal
from providers.fakes.pump import Pump, hold_pongs, now
from providers.fakes.script import DEFAULT_SCRIPT, Connect, Script, load_script

_STUDIO = re.compile(
    r"/+ws/google\.ai\.generativelanguage\.(?P<version>v1beta|v1alpha)\.GenerativeService\."
    r"BidiGenerateContent(?P<constrained>Constrained)?"
)
_VERTEX = re.compile(r"/+ws/google\.cloud\.aiplatform\.(?:v1beta1|v1)\.LlmBidiService/BidiGenerateContent")
_KEEP_SECONDS = {Backend.STUDIO: 2 * 3600.0, Backend.VERTEX: 24 * 3600.0}
UNREGISTERED = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key."
)
BAD_KEY = "API key not valid. Please pass a valid API key."


class GeminiFakeServer:
    """
    Serves the Live API on a local port.

    Args:
        script: What the model says: a script or a file of one.
        faults: What goes wrong, for every connection or the first of them.
        afflicted: How many connections have these faults; all have them without. Those that a connection
            brings itself always count.
        port: 0 takes a free one; see :attr:`url`.
        certificate: For TLS; one of its own is made without, see :attr:`certificate_pem`.
        api_key: The only key or token that is accepted; any is, without it.
        journal: Writes down what every session says and is told, without audio.
        validate: Check every message that is sent with the SDK's types, and fail loudly.
        connection_seconds: How long a connection may last (ten minutes at the service).
        warning_seconds: ``goAway`` comes so long before that.
        audio_seconds: How long a conversation may last that does not compress its context.
        remember: How many sessions are kept for tests to look at.
    """

    def __init__(
        self,
        script: Script | Path | None = None,
        faults: Faults | str = "",
        *,
        afflicted: int | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: Certificate | None = None,
        api_key: str | None = None,
        journal: Journal | None = None,
        validate: bool = False,
        connection_seconds: float = 600.0,
        warning_seconds: float = 60.0,
        audio_seconds: float = 900.0,
        remember: int = 256,
    ) -> None:
        self.script = script if isinstance(script, Script) else load_script(script or DEFAULT_SCRIPT)
        self.faults = faults if isinstance(faults, Faults) else parse_faults(faults, Service.GEMINI)
        self._afflicted = afflicted
        self._faults_of: WeakKeyDictionary[ServerConnection, Faults] = WeakKeyDictionary()
        self.sessions: deque[LiveSession] = deque(maxlen=remember)
        self.refused: deque[int] = deque(maxlen=remember)
        """HTTP statuses of refused handshakes."""
        self.certificate_pem = ""
        """What a client has to trust; known once the server runs."""
        self._host = host
        self._port = port
        self._certificate = certificate
        self._api_key = api_key
        self._journal = journal
        self._check = check_server_message if validate else None
        self._seconds = (connection_seconds, warning_seconds, audio_seconds)
        self._numbers = itertools.count(1)
        self._resumptions = {
            backend: Resumptions(lambda: secrets.token_urlsafe(24), keep_seconds=seconds)
            for backend, seconds in _KEEP_SECONDS.items()
        }
        self._stopping = asyncio.Event()
        self._server: Server | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """The ``base_url`` for ``genai.Client``."""
        return f"https://{self._host}:{self._port}"

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return 0 if self._server is None else len(self._server.connections)

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._converse,
            self._host,
            self._port,
            ssl=self._tls(),
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

    def _tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="fake-gemini-") as folder:
            pair = self._certificate or own_certificate(Path(folder), host=self._host)
            context.load_cert_chain(pair.certificate, pair.private_key)
            self.certificate_pem = pair.certificate.read_text(encoding="ascii")
        return context

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Look at the handshake; a response refuses it."""
        try:
            faults = self._take_faults() + parse_faults(_given_faults(request), Service.GEMINI)
        except FaultError as error:
            return self._refuse(connection, 400, str(error))
        self._faults_of[connection] = faults
        late = faults.get("late_handshake")
        await self._wait(late.number if late else self.script.connect_after)
        if self.script.connect is Connect.HANG:
            await self._wait(None)
        status = self._status(request, faults)
        return self._refuse(connection, status) if status else None

    async def _wait(self, seconds: float | None) -> None:
        """Wait so long, or until the server stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _status(self, request: Request, faults: Faults) -> int | None:
        fault = faults.get("status")
        if fault:
            return int(fault.number)
        if self.script.connect is Connect.REFUSE:
            return 503
        path, _ = _target(request)
        studio = _STUDIO.fullmatch(path)
        if studio:
            # Tokens are for the constrained method of v1alpha alone.
            wrong = bool(studio["constrained"]) and studio["version"] != "v1alpha"
            return 404 if wrong else None
        if not _VERTEX.fullmatch(path):
            return 404
        # Google Cloud looks at the token before it upgrades; AI Studio accepts, then closes.
        return 401 if self._refusal(request) else None

    def _refuse(self, connection: ServerConnection, status: int, message: str = "") -> Response:
        self.refused.append(status)
        body = {"error": {"code": status, "message": message or "The request is refused.", "status": ""}}
        response = connection.respond(status, json.dumps(body))
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = "application/json"
        return response

    def _refusal(self, request: Request) -> Refused | None:
        """Return why nobody without a good key gets a session."""
        key = _credential(request)
        if not key:
            return Refused(1008, UNREGISTERED)
        wrong = self._api_key is not None and not hmac.compare_digest(key.encode(), self._api_key.encode())
        return Refused(1007, BAD_KEY) if wrong or self.script.connect is Connect.REJECT_KEY else None

    def _take_faults(self) -> Faults:
        """Return the server's faults for one more connection."""
        if self._afflicted == 0:
            return Faults()
        if self._afflicted is not None:
            self._afflicted -= 1
        return self.faults

    async def _converse(self, connection: ServerConnection) -> None:
        request = connection.request
        assert request is not None
        faults = self._faults_of.pop(connection)
        backend = Backend.VERTEX if _VERTEX.fullmatch(_target(request)[0]) else Backend.STUDIO
        connection_seconds, warning_seconds, audio_seconds = self._seconds
        number = next(self._numbers)
        options = Options(
            script=self.script,
            resumptions=self._resumptions[backend],
            faults=faults,
            backend=backend,
            refusal=self._refusal(request),
            session_id=f"session-{number}",
            connection_seconds=connection_seconds,
            warning_seconds=warning_seconds,
            audio_seconds=audio_seconds,
            check=self._check,
            note=None if self._journal is None else self._journal.of(number),
        )
        session = LiveSession(options, now=now())
        self.sessions.append(session)
        late = faults.get("late_pong")
        if late or faults.get("no_pong"):
            hold_pongs(connection, late.number if late else None)
        slow = faults.get("slow_reader")
        try:
            await Pump(connection, session, text=False, read_delay=slow.number if slow else 0.0).run()
        finally:
            session.disconnected()


def _target(request: Request) -> tuple[str, dict[str, list[str]]]:
    """Return the path and the query. Clients whose address ends in a slash begin the path with two."""
    path, _, query = request.path.partition("?")
    return path, parse_qs(query)


def _given_faults(request: Request) -> str:
    """Return the faults that a connection brings itself."""
    _, query = _target(request)
    return ",".join([*query.get("fault", []), request.headers.get("X-Fake-Fault", "")])


def _credential(request: Request) -> str:
    """Return the key or token, from wherever the service takes it."""
    path, query = _target(request)
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    studio = _STUDIO.fullmatch(path)
    if studio and studio["constrained"]:
        given = token if scheme == "Token" else query.get("access_token", [""])[0]
        return given if given.startswith("auth_tokens/") else ""
    bearer = token if scheme == "Bearer" else ""
    return request.headers.get("x-goog-api-key", "") or bearer or query.get("key", [""])[0]
