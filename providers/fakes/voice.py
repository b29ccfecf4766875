"""
FakeVoiceProvider: a scripted speech model in this process, behind the provider seam.

It needs no key and no network: the embedded default, demos and tests run on it. Its timing is real
(speech comes in bursts faster than real time), its decisions are those of the script.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from providers.errors import ProviderRejected, ProviderUnavailable, SessionLost
from providers.fakes.script import DEFAULT_SCRIPT, Connect, Script, load_script
from providers.fakes.voice_core import VoiceCore
from providers.types import (
    AudioFormat,
    Capabilities,
    Part,
    ProviderEvent,
    SessionSetup,
    TurnModel,
    Updatable,
    Usage,
)
from tools.types import CallUpdate, ToolResult

MAX_SESSIONS = 16
"""Sessions that a provider remembers for tests."""


class FakeVoiceSession:
    """
    One conversation; see :class:`providers.base.ProviderSession`.

    ``core`` is what a test looks at: interruptions, texts, results, calls without an answer.
    """

    def __init__(self, core: VoiceCore, capabilities: Capabilities, line: AudioFormat) -> None:
        self.core = core
        self.closed = False
        self._capabilities = capabilities
        self._input = capabilities.input_for(line)
        self._output = capabilities.output_for(line)
        self._changed = asyncio.Event()
        # What one settling of the core gave; the core itself limits how much that can be.
        self._ready: deque[ProviderEvent] = deque()

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def input(self) -> AudioFormat:
        return self._input

    @property
    def output(self) -> AudioFormat:
        return self._output

    @property
    def usage(self) -> Usage:
        return self.core.usage

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ProviderEvent:
        while not self._ready:
            self._changed.clear()
            self.core.handle_timeout(_now())
            self._ready += self.core.events()
            if self._ready:
                break
            if self.closed:
                raise StopAsyncIteration
            if self.core.lost:
                raise SessionLost(f"The session is gone: {self.core.lost}.", code="1011")
            await self._pause()
        return self._ready.popleft()

    async def _pause(self) -> None:
        """Wait until something changes or becomes due."""
        due = self.core.next_timeout()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - _now())):
                await self._changed.wait()
        except TimeoutError:
            pass

    @property
    def _over(self) -> bool:
        """Whether nobody hears us any more."""
        return self.closed or bool(self.core.lost)

    async def send_audio(self, audio: bytes) -> None:
        if self._over:
            return
        self.core.hear(audio, _now())
        # Nothing to tell the reader of silence: it would be woken fifty times a second.
        if self.core.has_events:
            self._changed.set()

    async def send_text(self, text: str, *, role: str = "user") -> None:
        if not self._over:
            self.core.take_text(text, role)

    async def send_tool_result(self, result: ToolResult) -> None:
        if not self._over:
            self.core.take_result(result)

    async def respond(self, *, instructions: str | None = None, tools: bool = True) -> None:
        if not self._over:
            self.core.respond(instructions, _now(), tools=tools)
            self._changed.set()

    async def interrupt(self, *, item_id: str, heard_ms: int) -> None:
        if not self._over:
            self.core.interrupt(item_id, heard_ms, _now())
            self._changed.set()

    async def update(self, update: CallUpdate) -> None:
        if self._over:
            raise ProviderRejected("The session is over.", code="session_lost")
        self.core.update(update)

    def close(self) -> None:
        """End the iteration."""
        self.closed = True
        self._changed.set()


class FakeVoiceProvider:
    """
    A model that plays a script; see :class:`providers.base.Provider`.

    Args:
        script: A script or a file of one (``None``: a receptionist). Raises ``ScriptError``.
        name: The key of the configuration's ``providers`` section.
    """

    def __init__(self, script: Script | Path | None = None, name: str = "fake") -> None:
        self.script = script if isinstance(script, Script) else load_script(script or DEFAULT_SCRIPT)
        self.sessions: deque[FakeVoiceSession] = deque(maxlen=MAX_SESSIONS)
        self._name = name
        self._capabilities = Capabilities(
            inputs=self.script.formats,
            outputs=self.script.formats,
            turn_model=TurnModel.TURN_BASED,
            truncates=True,
            cancels=True,
            resumes=False,
            updates=dict.fromkeys(Part, Updatable.LIVE),
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @asynccontextmanager
    async def connect(self, setup: SessionSetup) -> AsyncIterator[FakeVoiceSession]:
        """Open a session, or fail as the script's ``connect`` says."""
        await asyncio.sleep(self.script.connect_after)
        match self.script.connect:
            case Connect.REFUSE:
                raise ProviderUnavailable("The fake provider refuses connections.", code="503")
            case Connect.REJECT_KEY:
                raise ProviderRejected("The fake provider refuses the key.", code="invalid_api_key")
            case Connect.HANG:
                await asyncio.Event().wait()
            case Connect.ACCEPT:
                pass
        formats = self._capabilities.input_for(setup.line), self._capabilities.output_for(setup.line)
        core = VoiceCore(self.script, setup, *formats, now=_now())
        session = FakeVoiceSession(core, self._capabilities, setup.line)
        self.sessions.append(session)
        try:
            yield session
        finally:
            session.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
