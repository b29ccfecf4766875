"""The scripted model in this process: its far side is its own core, so nothing can happen on a wire."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from providers.fakes.script import Connect, Script
from providers.fakes.voice import FakeVoiceProvider
from providers.fakes.voice_core import VoiceCore
from providers.types import HistoryItem, Said, ToolUsed
from tests.providers.contract.far import Kind, Trouble
from tools.types import AgentToolDefinition, JsonObject

_CONNECT = {Trouble.BAD_KEY: Connect.REJECT_KEY, Trouble.OVERLOADED: Connect.REFUSE}
_LOSE_AFTER = 0.2


class FarVoice:
    def __init__(self, provider: FakeVoiceProvider) -> None:
        self.provider = provider

    @property
    def _core(self) -> VoiceCore:
        return self.provider.sessions[-1].core

    def instructions(self) -> str:
        return self._core.setup.instructions

    def tools(self) -> list[AgentToolDefinition]:
        return list(self._core.setup.tools)

    def voice(self) -> str | None:
        return self._core.setup.voice

    def heard(self) -> bytes:
        return bytes(self._core.heard)

    def texts(self) -> list[str]:
        return [text for _, text in self._core.texts]

    def history(self) -> list[tuple[str, str]]:
        return [told(past) for past in self._core.setup.history]

    def answers(self) -> list[tuple[str, JsonObject]]:
        return [(result.call_id, json.loads(result.to_json())) for result in self._core.results]

    def unanswered(self) -> int:
        return len(self._core.unanswered)

    def cuts(self) -> list[int]:
        return [cut.heard_ms for cut in self._core.interruptions]

    def complaints(self) -> list[str]:
        return []

    def sessions(self) -> int:
        return len(self.provider.sessions)

    def connections(self) -> int:
        return sum(not session.closed for session in self.provider.sessions)

    def recover(self) -> None:
        self.provider.script = replace(self.provider.script, connect=Connect.ACCEPT)


def told(past: HistoryItem) -> tuple[str, str]:
    match past:
        case Said(party, text):
            return party, text
        case ToolUsed(call, output):
            return "tool", f"{call.name} {call.arguments} {output}"


@asynccontextmanager
async def _open(script: Script, troubles: tuple[Trouble, ...]) -> AsyncIterator[FarVoice]:
    for trouble in troubles:
        if trouble in _CONNECT:
            script = replace(script, connect=_CONNECT[trouble])
        else:
            script = replace(script, lose_after=_LOSE_AFTER)
    yield FarVoice(FakeVoiceProvider(script))


VOICE = Kind(
    name="fake",
    capabilities=FakeVoiceProvider().capabilities,
    troubles=frozenset({*_CONNECT, Trouble.CLOSED, Trouble.CUT}),
    voices=("warm", "cool"),
    open=_open,
)
