"""OpenAI Realtime and the server that ships with it, which checks each event in both directions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from config.providers import OpenAISettings
from providers.fakes.faults import Faults
from providers.fakes.openai_server import OpenAIFakeServer
from providers.fakes.openai_session import RealtimeSession
from providers.fakes.script import Script
from providers.openai import OpenAIProvider
from providers.openai.session import CAPABILITIES
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
    Trouble.CLOSED: "close:1011@0.2",
    Trouble.CUT: "close:1006@0.2",
    Trouble.UNKNOWN_EVENT: "unknown_event@0.02",
    Trouble.GARBAGE: "garbage@0.02",
    Trouble.HUGE_AUDIO: "huge_delta#1",
    Trouble.STRAY_AUDIO: "stray_deltas:3#1",
    Trouble.CUT_CALL: "cut_arguments#1",
    Trouble.SILENT_ANSWER: "no_audio#1",
    Trouble.FAILED_ANSWER: "failed#1",
    Trouble.SLOW_READER: "slow_reader:0.02",
    Trouble.NO_TRANSCRIPT: "transcript:failed",
}
_PARTIES = {"user": "caller", "assistant": "agent", "system": "system"}
_EXPIRES_S = 200.0


class FarOpenAI:
    def __init__(self, server: OpenAIFakeServer, provider: OpenAIProvider) -> None:
        self.provider = provider
        self._server = server

    @property
    def _session(self) -> RealtimeSession:
        return self._server.sessions[-1]

    def _received(self, kind: str) -> list[dict]:
        return [each.event for each in self._session.received if each.type == kind]

    def _items(self, kind: str) -> list[tuple[bool, dict]]:
        """Items that we made; the first of each pair says whether it belongs to the history."""
        items = [event["item"] for event in self._received("conversation.item.create")]
        calls = {item["call_id"] for item in items if item["type"] == "function_call"}
        past = max((at for at, item in enumerate(items) if _is_past(item, calls)), default=-1)
        return [(at <= past, item) for at, item in enumerate(items) if kind in ("", item["type"])]

    def instructions(self) -> str:
        return self._session.config.instructions

    def tools(self) -> list[AgentToolDefinition]:
        return [
            AgentToolDefinition(tool["name"], tool["description"], tool["parameters"])
            for tool in self._session.config.session["tools"]
        ]

    def voice(self) -> str | None:
        return self._session.config.session["audio"]["output"]["voice"]

    def heard(self) -> bytes:
        return bytes(self._session.input_audio)

    def texts(self) -> list[str]:
        return [item["content"][0]["text"] for past, item in self._items("message") if not past]

    def history(self) -> list[tuple[str, str]]:
        told, calls = [], {}
        for past, item in self._items(""):
            match item["type"]:
                case "message" if past:
                    told.append((_PARTIES[item["role"]], item["content"][0]["text"]))
                case "function_call":
                    calls[item["call_id"]] = f"{item['name']} {item['arguments']}"
                case "function_call_output" if past:
                    told.append(("tool", f"{calls[item['call_id']]} {item['output']}"))
        return told

    def answers(self) -> list[tuple[str, JsonObject]]:
        return [
            (item["call_id"], json.loads(item["output"]))
            for past, item in self._items("function_call_output")
            if not past
        ]

    def unanswered(self) -> int:
        return len(self._session.conversation.unanswered)

    def cuts(self) -> list[int]:
        return [event["audio_end_ms"] for event in self._received("conversation.item.truncate")]

    def complaints(self) -> list[str]:
        errors = [each.event["error"] for each in self._session.sent if each.type == "error"]
        # Those that we ask for ourselves, to learn whether anybody is there, are none.
        return [each["code"] for each in errors if not str(each["event_id"]).startswith("alive")]

    def sessions(self) -> int:
        return len(self._server.sessions)

    def connections(self) -> int:
        return self._server.connections

    def recover(self) -> None:
        self._server.faults = Faults()


def _is_past(item: dict, calls: set[str]) -> bool:
    """The agent's words and the calls that we made ourselves can only come from a history."""
    return item.get("role") == "assistant" or item.get("call_id") in calls


@asynccontextmanager
async def _open(script: Script, troubles: tuple[Trouble, ...]) -> AsyncIterator[FarOpenAI]:
    faults = ",".join(FAULTS[trouble] for trouble in troubles if trouble in FAULTS)
    seconds = _EXPIRES_S if Trouble.EXPIRES in troubles else 3600.0
    patience = 0.3 if Trouble.HANG in troubles else 30.0
    server = OpenAIFakeServer(script, faults, validate=True, session_seconds=seconds)
    with Ports() as ports:
        nobody = f"http://127.0.0.1:{ports.take()}/v1"
        async with server:
            url = nobody if Trouble.NOBODY in troubles else server.url
            settings = OpenAISettings(api_key=KEY, base_url=url, connect_timeout_s=patience)
            yield FarOpenAI(server, OpenAIProvider(settings))


OPENAI = Kind(
    name="openai",
    capabilities=CAPABILITIES,
    troubles=frozenset({*FAULTS, Trouble.EXPIRES, Trouble.NOBODY}),
    voices=("marin", "cedar"),
    open=_open,
)
