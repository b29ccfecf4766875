"""A call that hears what a session tells and speaks to the model, as fast as the loop can."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from providers.base import ProviderSession
from providers.errors import SessionLost
from providers.fakes.script import Script
from providers.fakes.script_parser import parse_script
from providers.fakes.speech import Tone, render, silence
from providers.types import (
    PCMU,
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    ProviderEvent,
    SessionSetup,
    TurnModel,
)
from tests.providers.contract.far import Far, Kind, Trouble
from tools.types import AgentToolDefinition, ToolCall, ToolResult, ToolStatus

PATIENCE = 20.0
"""Seconds; only a session that does not work waits so long."""
LOOKUP = AgentToolDefinition(
    "lookup_caller",
    "Looks up who calls.",
    {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
)
KNOWLEDGE = AgentToolDefinition(
    "query_knowledge",
    "Searches the handbook; “quoted”, ümlauts, 漢字.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "filter": {
                "type": "object",
                "properties": {"year": {"type": "integer", "minimum": 1900}, "kind": {"enum": ["a", "b"]}},
                "required": ["year"],
                "additionalProperties": False,
            },
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 4},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)
TALK = """
    speech: {speed: 50}
    hearing: {transcript_after_ms: 0}
    otherwise: silence
    steps:
      - {on: {text: "question"}, repeat: true, say: {tone: 700, ms: 300, text: "The answer"}}
      - {on: greeting, say: {tone: 440, ms: 600, text: "Hello, who is there"}}
      - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 500, text: "Good to hear you"}}
      - {on: caller_turn, heard: "And now", say: {tone: 600, ms: 400, text: "Goodbye"}}
"""
GREETING, ANSWER, GOODBYE, REPLY = Tone(440, 600), Tone(500, 500), Tone(600, 400), Tone(700, 300)
_Event = TypeVar("_Event")


def script(text: str) -> Script:
    return parse_script(textwrap.dedent(text), Path("contract.yaml"))


def setup(**more) -> SessionSetup:
    fields = {
        "prompt": "You answer the phone.",
        "addendum": "## Tools",
        "tools": (LOOKUP, KNOWLEDGE),
        "line": PCMU,
    }
    return SessionSetup(**{**fields, **more})


def ok(call: ToolCall, **data) -> ToolResult:
    return ToolResult(call.call_id, call.name, ToolStatus.OK, data=data)


class Call:
    """
    A session and everything that it told; :meth:`listen` takes its events.

    ``losses`` are the :exc:`SessionLost` that ended the iteration, ``over`` says that it ended.
    """

    def __init__(self, far: Far, session: ProviderSession) -> None:
        self.far = far
        self.session = session
        self.events: list[ProviderEvent] = []
        self.losses: list[SessionLost] = []
        self.over = False
        self._taken = 0
        self._changed = asyncio.Event()

    async def listen(self) -> None:
        try:
            async for event in self.session:
                self.events.append(event)
                self._changed.set()
        except SessionLost as loss:
            self.losses.append(loss)
        finally:
            self.over = True
            self._changed.set()

    # What was heard.

    async def hear(self, kind: type[_Event], *, times: int = 1) -> list[ProviderEvent]:
        """Wait for so many more events of ``kind``; returns all that came since the last wait."""
        start = self._taken

        def found() -> list[int]:
            return [at for at in range(start, len(self.events)) if isinstance(self.events[at], kind)]

        await self._until(lambda: len(found()) >= times or self.over)
        assert len(found()) >= times, f"no {kind.__name__} in {self.events[start:]}; {self.losses}"
        self._taken = found()[times - 1] + 1
        return self.events[start : self._taken]

    async def hear_speech(self, *sounds: Tone) -> None:
        """Wait until the model has said this, and nothing else, since the last wait."""
        start = self._taken
        await self.hear(AudioDone, times=len(sounds))
        wanted = b"".join(render(sound, self.session.output) for sound in sounds)
        heard = _sound(self.events[start : self._taken])
        if self.session.capabilities.turn_model is TurnModel.DUPLEX:  # its silence is sound, too
            assert wanted in heard
        else:
            assert heard == wanted

    async def hear_the_end(self) -> None:
        """Wait until the iteration is over."""
        await self._until(lambda: self.over)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def of(self, kind: type[_Event]) -> list[_Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def voice(self) -> bytes:
        return _sound(self.events)

    def said(self) -> list[str]:
        """The agent's words, an utterance each."""
        return [event.text for event in self.of(AgentTranscript) if event.final]

    def written(self) -> list[str]:
        """The caller's words, a turn each."""
        return [event.text for event in self.of(CallerTranscript) if event.final]

    # What is said.

    async def say(self, ms: int = 500, *, pause_ms: int = 700) -> bytes:
        """Speak, then be silent until the turn is over; returns the audio."""
        audio = render(Tone(300, ms), self.session.input) + silence(pause_ms, self.session.input)
        size = self.session.input.bytes_per_ms * 20
        for at in range(0, len(audio), size):
            await self.session.send_audio(audio[at : at + size])
        return audio

    def silence(self, ms: int = 20) -> bytes:
        return silence(ms, self.session.input)

    async def ask(self, text: str = "a question") -> None:
        """Put a text in and want an answer to it."""
        await self.session.send_text(text)
        await self.session.respond()


def _sound(events: list[ProviderEvent]) -> bytes:
    return b"".join(event.audio for event in events if isinstance(event, AudioDelta))


async def settled(condition: Callable[[], bool]) -> None:
    """Let both sides run until the far side has seen what it must see."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


class Dial:
    """Opens calls of one kind of provider."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.can = kind.capabilities

    @asynccontextmanager
    async def __call__(
        self, text: str = TALK, *troubles: Trouble, listen: bool = True, **more
    ) -> AsyncIterator[Call]:
        """Open a far side and a session on it; ``more`` are fields of the set-up."""
        async with self.far(text, *troubles) as far, self.on(far, listen=listen, **more) as call:
            yield call

    def far(self, text: str = TALK, *troubles: Trouble):
        return self.kind.open(script(text), troubles)

    @asynccontextmanager
    async def on(self, far: Far, *, listen: bool = True, **more) -> AsyncIterator[Call]:
        async with far.provider.connect(setup(**more)) as session:
            call = Call(far, session)
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(call.listen()) if listen else None
                yield call
                if listening is not None:
                    listening.cancel()
