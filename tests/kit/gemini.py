"""
The shipped Gemini Live server for tests: in the test's own loop, and as a session without a socket.

The server shares no code with ``providers/gemini``; with ``validate`` it checks what it sends by the types
of the SDK.
"""

from __future__ import annotations

import base64
import json
import ssl
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from google import genai
from google.genai import types

from providers.fakes.certificate import Certificate
from providers.fakes.faults import Service, parse_faults
from providers.fakes.gemini_check import check_server_message
from providers.fakes.gemini_conversation import Resumptions
from providers.fakes.gemini_server import GeminiFakeServer
from providers.fakes.gemini_session import LiveSession, Options
from providers.fakes.script import Script
from providers.fakes.script_parser import parse_script
from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K
from tests.kit.certificates import Authority
from tests.kit.ports import Ports

MODEL = "gemini-3.8-live"
MIME = "audio/pcm;rate=16000"
PHONE = {
    "model": f"models/{MODEL}",
    "generationConfig": {"responseModalities": ["AUDIO"]},
    "systemInstruction": {"parts": [{"text": "You answer the phone."}]},
    "inputAudioTranscription": {},
    "outputAudioTranscription": {},
    "sessionResumption": {},
    "contextWindowCompression": {"slidingWindow": {}},
    "realtimeInputConfig": {"automaticActivityDetection": {"silenceDurationMs": 500}},
}
"""The set-up of a call."""

TALK = """
speech: {speed: 10}
hearing: {transcript_after_ms: 100}
steps:
  - {on: greeting, say: {tone: 440, ms: 1000, text: "Hello, who is there"}}
  - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 2000, text: "Good to hear you again"}}
  - {on: barge_in, say: {tone: 550, ms: 500, text: "Yes please"}}
  - {on: caller_turn, say: {tone: 600, ms: 1000, text: "And now goodbye"}}
"""
TOOLS = """
speech: {speed: 10}
steps:
  - on: greeting
    say: {tone: 440, ms: 400, text: "Let me look"}
    call: [{tool: lookup}, {tool: search, arguments: {query: hours}}]
  - {on: {tool_result: [lookup, search]}, say: {tone: 500, ms: 300, text: "Until six"}}
  - {on: barge_in, say: {tone: 700, ms: 300, text: "What else"}}
  - {on: caller_turn, say: {tone: 600, ms: 300, text: "Yes"}}
"""


def script_of(text: str, folder: Path | None = None) -> Script:
    """Read a script; its own sound files stand in ``folder``."""
    return parse_script(textwrap.dedent(text), (folder or Path()) / "test.yaml")


@asynccontextmanager
async def gemini_server(
    script: str, faults: str = "", *, folder: Path, **options: object
) -> AsyncIterator[GeminiFakeServer]:
    """
    Serve a script on a port of :mod:`tests.kit.ports`, with a certificate of :mod:`tests.kit.certificates`.

    Args:
        script: YAML as ``docs/fake-provider.md`` has it.
        faults: What goes wrong on every connection.
        folder: Where certificates are put, and the script's own sound files stand.
        options: Of :class:`GeminiFakeServer`; messages are validated unless ``validate`` says otherwise.
    """
    pair = Authority(folder).sign("127.0.0.1", "localhost")
    settings = {"validate": True, "certificate": Certificate(pair.certificate, pair.private_key)} | options
    with Ports() as ports:
        server = GeminiFakeServer(script_of(script, folder), faults, port=ports.take(), **settings)
        async with server:
            yield server


def authority_of(folder: Path) -> Path:
    """Return the PEM file that a client of :func:`gemini_server` has to trust."""
    return folder / "ca.pem"


def sdk_client(
    server: GeminiFakeServer,
    folder: Path,
    *,
    api_key: str = "any",
    socket: dict[str, object] | None = None,
    **http: object,
) -> genai.Client:
    """
    Return the SDK's client for this server alone.

    Args:
        server: Whose certificate is signed by the authority in ``folder``.
        folder: Where :func:`gemini_server` put it.
        api_key: What the client shows.
        socket: Arguments of ``websockets.connect``.
        http: Fields of ``HttpOptions``.
    """
    arguments = {
        "ssl": ssl.create_default_context(cafile=str(authority_of(folder))),
        "compression": None,
        "max_size": None,
        "ping_interval": None,
        "proxy": None,
        **(socket or {}),
    }
    options = {"base_url": server.url, "api_version": "v1beta", "async_client_args": arguments} | http
    return genai.Client(api_key=api_key, http_options=types.HttpOptions(**options))


def resumptions() -> Resumptions:
    """Return a store whose handles are the same in every run."""
    numbers = count(1)
    return Resumptions(lambda: f"h-{next(numbers):04}")


class GeminiLine:
    """One client of a session, in a time of its own; every message is checked with the SDK's types."""

    def __init__(
        self,
        script: str,
        faults: str = "",
        *,
        setup: dict | None = None,
        store: Resumptions | None = None,
        now: float = 100.0,
        **options: object,
    ) -> None:
        self.now = now
        self.messages: list[dict] = []
        self.times: list[float] = []
        self.frames: list[bytes] = []
        self.store = store or resumptions()
        self.options = Options(
            script=script_of(script),
            resumptions=self.store,
            faults=parse_faults(faults, Service.GEMINI),
            check=check_server_message,
            **options,
        )
        self.session = LiveSession(self.options, now=self.now)
        if setup is not None:
            self.send(setup=setup)

    def collect(self) -> None:
        for frame in self.session.to_send():
            self.frames.append(frame)
            try:
                self.messages.append(json.loads(frame))
            except json.JSONDecodeError:
                self.messages.append({"(garbage)": True})
            self.times.append(self.now)

    def send(self, **message: object) -> None:
        self.session.receive(json.dumps(message), self.now)
        self.settle()

    def settle(self) -> None:
        """Do what the pump does after a frame."""
        self.session.handle_timeout(self.now)
        self.collect()

    def run(self, seconds: float) -> None:
        """Let time pass, stopping wherever the session wants to be called."""
        until = self.now + seconds
        while (due := self.session.next_timeout()) is not None and due <= until and not self.session.closing:
            self.now = max(self.now, due)
            self.settle()
        self.now = until
        self.settle()

    def audio(self, audio: bytes, *, mime: str = MIME, encode: Callable = base64.b64encode) -> None:
        """Send audio in pieces of 20 ms, in real time."""
        for at in range(0, len(audio), 640):
            data = encode(audio[at : at + 640]).decode()
            self.send(realtime_input={"audio": {"data": data, "mime_type": mime}})
            self.run(0.02)

    def speak(self, ms: int = 800) -> None:
        """Speak for so long; the turn is not over yet."""
        self.audio(render(Tone(300, ms), PCM16_16K))

    def turn(self, ms: int = 800, *, pause_ms: int = 520) -> None:
        """Speak, then be silent until the turn is over."""
        self.speak(ms)
        self.audio(silence(pause_ms, PCM16_16K))

    def say(self, text: str) -> None:
        self.send(realtime_input={"text": text})

    def answer(self, *calls: dict, scheduling: str | None = None, **response: object) -> None:
        """Answer these calls, all alike."""
        answers = [
            {"id": call["id"], "name": call["name"], "response": response or {"output": "ok"}}
            for call in calls
        ]
        for answer in answers if scheduling else ():
            answer["scheduling"] = scheduling
        self.send(tool_response={"functionResponses": answers})

    @property
    def kinds(self) -> list[str]:
        """What came, each message by its key, or by the first field of ``serverContent``."""
        return [_kind(message) for message in self.messages]

    def all(self, key: str) -> list:
        """Return the values of a key of messages or of their ``serverContent``."""
        merged = [{**message, **message.get("serverContent", {})} for message in self.messages]
        return [fields[key] for fields in merged if key in fields]

    def parts(self) -> list[dict]:
        return [part for turn in self.all("modelTurn") for part in turn["parts"]]

    def voice(self) -> bytes:
        data = [part["inlineData"]["data"] for part in self.parts() if "inlineData" in part]
        return b"".join(base64.b64decode(each) for each in data)

    def words(self, which: str = "outputTranscription") -> str:
        return "".join(each.get("text", "") for each in self.all(which))

    def calls(self) -> list[dict]:
        return [call for each in self.all("toolCall") for call in each["functionCalls"]]

    def handle(self) -> str:
        """Return the last handle."""
        return [each["newHandle"] for each in self.all("sessionResumptionUpdate") if each["resumable"]][-1]

    def forget(self) -> None:
        """Look only at what comes from here on."""
        self.messages.clear()
        self.times.clear()


def _kind(message: dict) -> str:
    content = message.get("serverContent")
    return next(iter(content if content else message))


def functions(behavior: str | None, *names: str) -> list[dict]:
    """Declare functions without parameters; the model decides on the behaviour where none is given."""
    declared = [
        {"name": name, "description": name, "parametersJsonSchema": {"type": "object"}} for name in names
    ]
    for each in declared if behavior else ():
        each["behavior"] = behavior
    return [{"functionDeclarations": declared}]


def dial(
    script: str = TALK,
    faults: str = "",
    *,
    behavior: str | None = None,
    setup: dict | None = None,
    **more: object,
) -> GeminiLine:
    """Return a line that is set up for the telephone with two tools."""
    tools = functions(behavior, "lookup", "search")
    return GeminiLine(script, faults, setup=PHONE | {"tools": tools} | (setup or {}), **more)
