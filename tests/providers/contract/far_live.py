"""GPT-Live and the server that ships with it, which checks each event in both directions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from config.providers import LiveSettings
from providers.fakes.faults import Faults
from providers.fakes.live_server import LiveFakeServer
from providers.fakes.live_session import LiveSession
from providers.fakes.script import Script
from providers.openai_live import OpenAILiveProvider
from providers.openai_live.session import CAPABILITIES
from tests.kit.ports import Ports
from tests.providers.contract.far import KEY, Kind, Trouble
from tools.types import AgentToolDefinition, JsonObject

FAULTS = {
    Trouble.HANG: "stall@0",
    Trouble.BAD_KEY: "status:401",
    Trouble.NO_MODEL: "status:404",
    Trouble.TOO_MANY: "status:429",
    Trouble.OVERLOADED: "status:503",
    Trouble.BAD_CONFIG: "refuse_update",
    Trouble.CLOSED_EARLY: "close:1011@0",
    Trouble.CLOSED: "close:1011@0.3",
    Trouble.CUT: "close:1006@0.3",
    Trouble.UNKNOWN_EVENT: "unknown_event@0.02",
    Trouble.GARBAGE: "garbage@0.02",
    Trouble.CUT_CALL: "cut_arguments#1",
    Trouble.SLOW_READER: "slow_reader:0.02",
}
_PARTIES = {"user": "caller", "assistant": "agent", "developer": "system"}
_EXPIRES_S = 200.0
_FRAME = 160
_PROMPT = "From now on"


class FarLive:
    def __init__(self, server: LiveFakeServer, provider: OpenAILiveProvider) -> None:
        self.provider = provider
        self._server = server

    @property
    def _session(self) -> LiveSession:
        return self._server.sessions[-1]

    def _received(self, kind: str) -> list[dict]:
        return [each.event for each in self._session.received if each.type == kind]

    def instructions(self) -> str:
        """Those of the backend, which can be replaced; the voice is told to go by the same."""
        return self._session.config.session["delegation"]["responses"]["instructions"]

    def tools(self) -> list[AgentToolDefinition]:
        return [
            AgentToolDefinition(tool["name"], tool["description"], tool["parameters"])
            for tool in self._session.config.session["delegation"]["responses"]["tools"]
        ]

    def voice(self) -> str | None:
        return self._session.config.session["audio"]["output"]["voice"]

    def heard(self) -> bytes:
        """Without the silence that keeps the model's clock going: it never comes in frames of 20 ms."""
        heard, at = b"", 0
        for _, size in self._session.appends:
            piece = bytes(self._session.input_audio[at : at + size])
            at += size
            if size == _FRAME or len(set(piece)) > 1 or piece[:1] not in (b"\xff", b"\xd5"):
                heard += piece
        return heard

    def texts(self) -> list[str]:
        kinds = ("session.thinking.append", "session.instructions.append")
        texts = [each.event["content"] for each in self._session.received if each.type in kinds]
        return [text for text in texts if not text.startswith(_PROMPT)]

    def history(self) -> list[tuple[str, str]]:
        told = []
        for item in self._session.config.session["input"]:
            party, text = _PARTIES[item["role"]], item["content"][0]["text"]
            told.append(("tool" if text.startswith("The tool ") else party, text))
        return told

    def answers(self) -> list[tuple[str, JsonObject]]:
        items = [event["item"] for event in self._received("response.item.create")]
        return [(item["call_id"], json.loads(item["output"])) for item in items]

    def unanswered(self) -> int:
        return len(self._session.backend.ledger.open)

    def cuts(self) -> list[int]:
        return []

    def complaints(self) -> list[str]:
        return [each.event["error"]["code"] for each in self._session.sent if each.type == "error"]

    def sessions(self) -> int:
        return len(self._server.sessions)

    def connections(self) -> int:
        return self._server.connections

    def recover(self) -> None:
        self._server.faults = Faults()


@asynccontextmanager
async def _open(script: Script, troubles: tuple[Trouble, ...]) -> AsyncIterator[FarLive]:
    faults = ",".join(FAULTS[trouble] for trouble in troubles if trouble in FAULTS)
    seconds = _EXPIRES_S if Trouble.EXPIRES in troubles else 3600.0
    patience = 0.3 if Trouble.HANG in troubles else 30.0
    server = LiveFakeServer(script, faults, validate=True, session_seconds=seconds)
    with Ports() as ports:
        nobody = f"http://127.0.0.1:{ports.take()}/v1"
        async with server:
            url = nobody if Trouble.NOBODY in troubles else server.url
            settings = LiveSettings(api_key=KEY, base_url=url, connect_timeout_s=patience, pause_ms=300)
            yield FarLive(server, OpenAILiveProvider(settings))


LIVE = Kind(
    name="openai-live",
    capabilities=CAPABILITIES,
    troubles=frozenset({*FAULTS, Trouble.EXPIRES, Trouble.NOBODY}),
    voices=("marin", "willow"),
    open=_open,
)
