"""Gemini Live and the server that ships with it, which checks each message in both directions."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from config.providers import GeminiSettings
from providers.fakes.faults import Faults
from providers.fakes.gemini_server import GeminiFakeServer
from providers.fakes.gemini_session import LiveSession
from providers.fakes.script import Script
from providers.gemini import GeminiProvider
from providers.gemini.models import MODEL, profile_of
from providers.gemini.session import capabilities
from tests.kit.ports import Ports
from tests.providers.contract.far import KEY, Kind, Trouble
from tools.types import AgentToolDefinition, JsonObject

# A session that loses its connection goes on over another one, unless the server gives it no handle.
WAITING_MODEL = "gemini-3.1-flash-live-preview"
"""Waits for the answers to its calls, and takes them back when the caller speaks."""
FAULTS = {
    Trouble.HANG: "stall@0",
    Trouble.NO_MODEL: "status:404",
    Trouble.TOO_MANY: "status:429",
    Trouble.OVERLOADED: "status:503",
    Trouble.BAD_CONFIG: "close:1007@0",
    Trouble.CLOSED_EARLY: "close:1011@0",
    Trouble.CLOSED: "no_handles,close:1011@0.2",
    Trouble.CUT: "no_handles,close:1006@0.2",
    Trouble.EXPIRES: "no_handles",
    Trouble.UNKNOWN_EVENT: "unknown_event@0.02",
    Trouble.GARBAGE: "garbage@0.02",
    Trouble.HUGE_AUDIO: "huge_delta#1",
    Trouble.STRAY_AUDIO: "late_deltas:3#1",  # after the end of a turn it is another turn: there are no ids
    Trouble.SILENT_ANSWER: "no_audio#1",
    Trouble.FAILED_ANSWER: "rejected#1",
    Trouble.SLOW_READER: "slow_reader:0.02",
}
_EXPIRES_S = 200.0


class FarGemini:
    def __init__(self, server: GeminiFakeServer, provider: GeminiProvider) -> None:
        self.provider = provider
        self._server = server

    @property
    def _session(self) -> LiveSession:
        return self._server.sessions[-1]

    def _received(self, kind: str) -> list[dict]:
        return [each.message[kind] for each in self._session.received if kind in each.message]

    def instructions(self) -> str:
        assert self._session.setup is not None
        return self._session.setup.instructions

    def tools(self) -> list[AgentToolDefinition]:
        assert self._session.setup is not None
        tools = self._session.setup.raw.get("tools", ())
        for update in self._received("contextUpdate"):
            tools = update["tools"].get("tools", ()) if "tools" in update else tools
        return [
            AgentToolDefinition(made["name"], made["description"], made["parametersJsonSchema"])
            for tool in tools
            for made in tool.get("functionDeclarations", ())
        ]

    def voice(self) -> str | None:
        assert self._session.setup is not None
        return self._session.setup.voice

    def heard(self) -> bytes:
        return bytes(self._session.input_audio)

    def _turns(self) -> tuple[list[dict], list[dict]]:
        """Return the turns of the history, and those that were put in later."""
        contents = [content.get("turns", []) for content in self._received("clientContent")]
        past = contents.pop(0) if contents and len(contents[0]) > 2 else []
        return past, [turn for turns in contents for turn in turns]

    def texts(self) -> list[str]:
        _, later = self._turns()
        words = [_words(turn) for turn in later if turn["role"] == "user"]
        return [text for text in words if not text.startswith("[")]  # what no caller said stands in brackets

    def history(self) -> list[tuple[str, str]]:
        past, _ = self._turns()
        return [_told(turn) for turn in past]

    def answers(self) -> list[tuple[str, JsonObject]]:
        return [
            (answer["id"], answer["response"])
            for response in self._received("toolResponse")
            for answer in response["functionResponses"]
        ]

    def unanswered(self) -> int:
        return len(self._session.conversation.unanswered)

    def cuts(self) -> list[int]:
        return []

    def complaints(self) -> list[str]:
        closing = self._session.closing
        refused = [closing.reason] if closing is not None and closing.code in (1007, 1008) else []
        conversation = self._session.conversation
        return [*refused, *conversation.strays, *conversation.answered_twice]

    def sessions(self) -> int:
        return len(self._server.sessions)

    def connections(self) -> int:
        return self._server.connections

    def recover(self) -> None:
        self._server.faults = Faults()


def _words(turn: dict) -> str:
    return "".join(part["text"] for part in turn["parts"])


def _told(turn: dict) -> tuple[str, str]:
    words = _words(turn)
    if turn["role"] == "model":
        return "agent", words
    if words.startswith("[You called"):
        return "tool", words
    return ("system", words[1:-1]) if words.startswith("[") else ("caller", words)


@asynccontextmanager
async def _open(script: Script, troubles: tuple[Trouble, ...]) -> AsyncIterator[FarGemini]:
    faults = ",".join(FAULTS[trouble] for trouble in troubles if trouble in FAULTS)
    seconds = _EXPIRES_S if Trouble.EXPIRES in troubles else 600.0
    server = GeminiFakeServer(
        script,
        faults,
        validate=True,
        connection_seconds=seconds,
        warning_seconds=seconds if Trouble.EXPIRES in troubles else 60.0,
        api_key="another" if Trouble.BAD_KEY in troubles else None,
    )
    with Ports() as ports, tempfile.TemporaryDirectory() as folder:
        nobody = f"https://127.0.0.1:{ports.take()}"
        async with server:
            authority = Path(folder) / "authority.pem"
            authority.write_text(server.certificate_pem)
            settings = GeminiSettings(
                api_key=KEY,
                base_url=nobody if Trouble.NOBODY in troubles else server.url,
                ca_file=authority,
                model=WAITING_MODEL if Trouble.CANCELLED_CALL in troubles else MODEL,
                connect_timeout_s=0.3 if Trouble.HANG in troubles else 30.0,
            )
            yield FarGemini(server, GeminiProvider(settings))


GEMINI = Kind(
    name="gemini",
    capabilities=capabilities(profile_of(MODEL, vertex=False)),
    troubles=frozenset({*FAULTS, Trouble.BAD_KEY, Trouble.NOBODY, Trouble.CANCELLED_CALL}),
    voices=("Kore", "Puck"),
    open=_open,
)
