"""
A shipped server in a thread of the test, and a look-up service beside it.

``trunkline serve`` talks to them over sockets as it does in life; being here, they can be asked what they
were told. The server shares no code with ``providers/openai``.
"""

from __future__ import annotations

import asyncio
import json
import textwrap
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

import numpy as np

from providers.fakes.gemini_server import GeminiFakeServer
from providers.fakes.live_server import LiveFakeServer
from providers.fakes.openai_server import OpenAIFakeServer
from providers.fakes.openai_session import RealtimeSession
from providers.fakes.script_parser import parse_script
from tests.kit.office import NUMBER, SALES
from tests.kit.sound import FRAME, Pcm, decode

SERVERS = {"openai": OpenAIFakeServer, "openai-live": LiveFakeServer, "gemini": GeminiFakeServer}


class Model:
    """
    A provider's server that plays a script; leave the ``with`` block to stop it.

    Args:
        script: YAML as ``docs/fake-provider.md`` has it.
        folder: Where the script's own sound files stand.
        faults: What goes wrong on every connection.
        kind: Whose protocol it speaks: ``openai``, ``openai-live`` or ``gemini``.
    """

    def __init__(self, script: str, folder: Path, *, faults: str = "", kind: str = "openai") -> None:
        parsed = parse_script(textwrap.dedent(script), folder / "script.yaml")
        self.kind = kind
        self.server = SERVERS[kind](parsed, faults, validate=True)
        self._folder = folder
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="model", daemon=True)

    def __enter__(self) -> Model:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self.server:
            self._ready.set()
            await self._stop.wait()

    @property
    def sessions(self) -> list[RealtimeSession]:
        """Every session so far, the oldest first."""
        return list(self.server.sessions)

    @property
    def connections(self) -> int:
        """Sockets that are open now."""
        assert self.server._server is not None
        return len(self.server._server.connections)

    @property
    def settings(self) -> dict[str, object]:
        """The ``providers`` section that leads here."""
        entry = {"api_key": "${env:MODEL_KEY}", "base_url": self.server.url}
        if isinstance(self.server, GeminiFakeServer):
            trusted = self._folder / "model.pem"
            trusted.write_text(self.server.certificate_pem)
            entry["ca_file"] = str(trusted)
        return {self.kind: entry}


def received(session: RealtimeSession, kind: str) -> list[dict]:
    """Return the client's events of a kind, as they were on the wire."""
    return [each.event for each in list(session.received) if each.type == kind]


def outputs(session: RealtimeSession) -> list[tuple[str, dict]]:
    """Return the answers to tool calls in the order in which they came: call id and body."""
    items = [event["item"] for event in received(session, "conversation.item.create")]
    return [
        (item["call_id"], json.loads(item["output"]))
        for item in items
        if item["type"] == "function_call_output"
    ]


def heard_by(session: RealtimeSession, codec: str = "PCMU") -> Pcm:
    """Return the caller's audio as the model got it."""
    data = bytes(session.input_audio)
    return decode(data, codec) if data else np.zeros(FRAME, np.int16)


class Lookup:
    """A client database over HTTP: one record for everybody, after a wait."""

    def __init__(self, record: str = "", *, wait: float = 0.0) -> None:
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        """Path with query, and headers, of each request."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, dict(self.headers)))
                time.sleep(wait)
                body = record.encode()
                try:
                    self.send_response(200 if body else 404)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # the gateway hung up on us

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/clients?source=phone"
        self._thread = threading.Thread(target=self._server.serve_forever, name="lookup", daemon=True)

    def __enter__(self) -> Lookup:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def with_all_tools(model: Model, lookup: Lookup, folder: Path) -> dict[str, object]:
    """Return settings of a receptionist with all four tools, with handbook and recordings in ``folder``."""
    handbook = folder / "handbook"
    handbook.mkdir(parents=True, exist_ok=True)
    (handbook / "opening-hours.md").write_text("# Opening hours\n\nWe are open until six on weekdays.\n")
    (handbook / "parking.md").write_text("# Parking\n\nPark behind the house.\n")
    tools = {
        "end_call": {"enabled": True},
        "lookup_caller": {"enabled": True},
        "query_knowledge": {"enabled": True, "knowledge_bases": ["handbook"]},
        "transfer_call": {
            "enabled": True,
            "numbers": [{"number": SALES, "label": "Sales"}, {"number": "+12125555678", "label": "Support"}],
        },
    }
    return {
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": model.settings,
        "organizations": {"acme": {"client_lookup_url": lookup.url, "client_lookup_auth": "lookup-secret-1"}},
        "knowledge_bases": {"handbook": {"path": str(handbook)}},
        "agents": {
            "reception": {
                "providers": ["openai"],
                "prompt": "You answer the phone of a workshop.",
                "greeting": "Say hello.",
                "tools": tools,
            }
        },
        "numbers": {NUMBER: {"agent": "reception", "organization": "acme"}},
        "storage": {"recordings": str(folder / "recordings")},
    }


def reports(folder: Path, count: int = 1, *, timeout: float = 10.0) -> list[dict]:
    """Wait until so many calls have left their ``call.json`` and return them, the earliest call first."""
    end = time.monotonic() + timeout
    while len(paths := list(folder.glob("*/call.json"))) < count:
        assert time.monotonic() < end, f"{len(paths)} of {count} reports in {folder}"
        time.sleep(0.05)
    return sorted((json.loads(path.read_text()) for path in paths), key=lambda report: report["wall_time"])
