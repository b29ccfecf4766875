"""
One open session of OpenAI Realtime: the socket, the clock and nothing else.

What the events mean is decided in :mod:`providers.openai.state`. Frames are read and written
raw, because the SDK's models cost ten times more than the audio is worth. Its reconnection is
not used: it opens an empty session and first sends the audio of the past into it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from websockets.exceptions import ConnectionClosed

from providers.errors import ProviderRejected, SessionLost
from providers.openai import wire
from providers.openai.config import Session, build_openai_session_update, setup_warnings, voice
from providers.openai.failures import close_reason, without_key
from providers.openai.messages import (
    ClientMessage,
    ErrorReported,
    SessionFacts,
    SessionUpdated,
    UpdateSession,
)
from providers.openai.state import FINAL, Conversation
from providers.types import (
    PCM16_24K,
    PCMA,
    PCMU,
    AudioDelta,
    AudioFormat,
    Capabilities,
    Part,
    ProviderEvent,
    ProviderWarning,
    SessionSetup,
    TurnModel,
    Updatable,
    Usage,
)
from tools.types import CallUpdate

if TYPE_CHECKING:
    from config.providers import OpenAISettings
    from providers.websocket import Socket
    from tools.types import ToolResult

CAPABILITIES = Capabilities(
    inputs=(PCM16_24K, PCMU, PCMA),
    outputs=(PCM16_24K, PCMU, PCMA),
    turn_model=TurnModel.TURN_BASED,
    truncates=True,
    cancels=True,
    resumes=False,
    updates={
        Part.PROMPT: Updatable.LIVE,
        Part.LANGUAGE: Updatable.LIVE,
        Part.VOICE: Updatable.NEXT_SESSION,  # fixed from the first audio on
        Part.TOOLS: Updatable.LIVE,
    },
)


class OpenAISession:
    """
    One live conversation; made by :meth:`OpenAIProvider.connect`.

    Iterate it in one task. Everything else may be called from any task of the same loop.
    """

    def __init__(
        self,
        socket: Socket,
        settings: OpenAISettings,
        setup: SessionSetup,
        facts: SessionFacts,
    ) -> None:
        assert facts.input is not None  # _configure refuses a session without formats
        assert facts.output is not None
        self._input, self._output = facts.input, facts.output
        self._socket = socket
        self._settings = settings
        self._setup = setup
        self._loop = asyncio.get_running_loop()
        transcribes = settings.transcription_model is not None
        self._conversation = Conversation(facts.output.bytes_per_ms, transcribes=transcribes)
        self._ready: deque[ProviderEvent] = deque(setup_warnings(setup))
        self._outbox: deque[ClientMessage] = deque()
        self._updating = asyncio.Lock()
        self._update_id = 0
        self._update: asyncio.Future[ErrorReported | None] | None = None
        self._late_updates = 0
        self._noise = False
        """Whether the provider's audio has another format than was agreed."""
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._timer_due = False
        self._waiting: asyncio.Timeout | None = None
        self._conversation.liveness.begin(self._loop.time())
        # A date in the past says that one of the clocks is wrong, not that the session is over.
        if facts.expires_at is not None and (after := facts.expires_at - time.time()) > 0:
            self._conversation.expire_after(after, now=self._loop.time())
        self._arm()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def input(self) -> AudioFormat:
        return self._input

    @property
    def output(self) -> AudioFormat:
        return self._output

    @property
    def usage(self) -> Usage:
        return self._conversation.meter.total(self._settings.transcription_model)

    # Events.

    def __aiter__(self) -> AsyncIterator[ProviderEvent]:
        return self

    async def __anext__(self) -> ProviderEvent:
        while True:
            if self._ready:
                return self._ready.popleft()
            self._check()
            raw = await self._receive()
            now = self._loop.time()
            if raw is None:
                self._timer_due = False
                self._conversation.handle_timeout(now=now)
                await self._settle()
                continue
            audio = wire.audio_delta(raw)
            if audio is None:
                await self._take(raw, now)
            elif not self._noise and self._conversation.receive_audio(audio, now=now):
                return AudioDelta(audio.item_id, audio.audio)

    async def _receive(self) -> bytes | None:
        """Return the next frame, or ``None`` for a due timer or a lost session; cancelling loses nothing."""
        if self._timer_due:
            return None
        try:
            async with asyncio.timeout(None) as self._waiting:
                return await self._socket.recv(decode=False)
        except TimeoutError:
            return None
        except ConnectionClosed as exc:
            self._conversation.lost = self._conversation.lost or close_reason(exc, self._settings)
            return None
        finally:
            self._waiting = None

    async def _take(self, raw: bytes, now: float) -> None:
        """Deal with any frame that is no audio."""
        try:
            message = wire.decode(raw)
        except wire.WireError as exc:
            self._ready.append(ProviderWarning("invalid_event", str(exc)))
            return
        match message:
            case None:
                self._conversation.gate.progress(now)
                self._conversation.liveness.heard(now)
                return
            case SessionUpdated():
                self._settle_update(None)
                await self._check_formats(message.session)
            case ErrorReported() if message.event_id.startswith("update-") or (
                not message.event_id and message.param.startswith("session.")
            ):
                self._settle_update(message)
            case ErrorReported():
                self._conversation.receive(self._cleaned(message), now=now)
            case _:
                self._conversation.receive(message, now=now)
        await self._settle()

    async def _check_formats(self, facts: SessionFacts) -> None:
        """Let no audio through in a format that the line does not have: correct it once, then give up."""
        applied = facts.input or self._input, facts.output or self._output
        if applied == (self._input, self._output):
            self._noise = False
        elif self._noise:
            self._conversation.lost = ("format_mismatch", "the provider does not keep to the audio formats")
        else:
            self._noise = True
            self._late_updates += 1  # the answer to this is nobody's
            self._update_id += 1
            self._ready.append(ProviderWarning("format_changed", "the provider changed the audio formats"))
            session = self._part(self._setup, CallUpdate(0))
            await self._send(wire.encode(UpdateSession(f"update-{self._update_id}", session)))

    def _check(self) -> None:
        """Raise what ends the iteration."""
        if self._ended:
            raise StopAsyncIteration
        if self._conversation.lost is not None:
            code, message = self._conversation.lost
            self._settle_update(ErrorReported("", "session_lost", message, ""))
            raise SessionLost(message, code=code, final=code in FINAL)

    # What the call says.

    async def begin(self) -> None:
        """Put the history in, before anything else is said."""
        self._conversation.replay(self._setup.history)
        await self._settle()

    async def send_audio(self, audio: bytes) -> None:
        """Send caller audio in :attr:`input`; waits while the socket is full."""
        with suppress(ConnectionClosed, OSError):  # the iteration reports it
            await self._socket.send_text(wire.append_audio(audio))

    async def send_text(self, text: str, *, role: str = "user") -> None:
        """Put a text turn into the conversation; ``role`` is user, system or assistant."""
        self._conversation.add_text(text, role)
        await self._settle()

    async def send_tool_result(self, result: ToolResult) -> None:
        """Answer one tool call; unknown and already answered ones are ignored."""
        self._conversation.answer(result)
        await self._settle()

    async def respond(self, *, instructions: str | None = None, tools: bool = True) -> None:
        """Ask the model to speak as soon as it may; requests before that become one."""
        self._conversation.respond(instructions=instructions, tools=tools, now=self._loop.time())
        await self._settle()

    async def interrupt(self, *, item_id: str, heard_ms: int) -> None:
        """
        Stop the model and tell it how much of ``item_id`` was heard.

        An empty ``item_id`` says that nothing was being played.
        """
        self._conversation.interrupt(item_id, heard_ms, now=self._loop.time())
        await self._settle()

    async def update(self, update: CallUpdate) -> None:
        """
        Change prompt, language or tools, and the voice before the first audio; all or nothing.

        The tools' addendum stays in the prompt. Another task must be iterating the session,
        since the server's answer arrives there.

        Raises:
            ProviderRejected: Nothing was changed.
        """
        async with self._updating:
            setup = self._updated(update)
            if setup == self._setup:  # nothing that this session has
                return
            error = await self._ask(self._part(setup, update))
            if error is not None:
                code = error.code or error.kind
                raise ProviderRejected(f"the update was refused: {error.message}", code=code)
            self._setup = setup

    def _part(self, setup: SessionSetup, update: CallUpdate) -> Session:
        return build_openai_session_update(setup, update, self._settings, spoke=self._conversation.spoke)

    def _updated(self, update: CallUpdate) -> SessionSetup:
        if update.voice is not None:
            if self._conversation.spoke:
                raise ProviderRejected("the voice is fixed once it was heard", code="cannot_update_voice")
            if voice(update.voice) is None:
                raise ProviderRejected(f"{update.voice} is no OpenAI voice", code="voice_unknown")
        setup = self._setup
        return replace(
            setup,
            prompt=setup.prompt if update.prompt is None else update.prompt,
            language=update.language or setup.language,
            voice=update.voice or setup.voice,
            tools=setup.tools if update.tools is None else update.tools,
        )

    async def _ask(self, session: Session) -> ErrorReported | None:
        """Send a session and return the server's error, or ``None`` when it is applied."""
        if self._conversation.lost is not None or self._ended:
            return ErrorReported("", "session_lost", "the session is over", "")
        self._update_id += 1
        self._update = self._loop.create_future()
        try:
            await self._send(wire.encode(UpdateSession(f"update-{self._update_id}", session)))
            async with asyncio.timeout(self._settings.connect_timeout_s):
                return await self._update
        except TimeoutError:
            self._late_updates += 1  # its answer may still come and is not the next one's
            return ErrorReported("", "timeout", "the provider did not confirm it", "")
        finally:
            self._update = None

    def _settle_update(self, error: ErrorReported | None) -> None:
        if self._late_updates and (error is None or error.code != "session_lost"):
            self._late_updates -= 1
        elif self._update is not None and not self._update.done():
            self._update.set_result(error and self._cleaned(error))

    # Sending and time.

    async def _settle(self) -> None:
        """Send, report and re-arm after any change of the conversation."""
        self._ready.extend(self._conversation.events())
        self._arm()
        # A task that is cancelled while the socket is full leaves the rest to the next one.
        self._outbox.extend(self._conversation.to_send())
        while self._outbox:
            await self._send(wire.encode(self._outbox.popleft()))

    async def _send(self, text: bytes) -> None:
        with suppress(ConnectionClosed, OSError):  # the iteration reports it
            await self._socket.send_text(text)

    def _arm(self) -> None:
        """Have one timer for the earliest deadline; an early call is harmless, so it is moved lazily."""
        at = self._conversation.next_timeout()
        if at is None or self._ended or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._wake), at

    def _wake(self) -> None:
        self._timer = None
        if self._waiting is not None and not self._timer_due:
            self._waiting.reschedule(self._loop.time())
        self._timer_due = True

    def _cleaned(self, error: ErrorReported) -> ErrorReported:
        return replace(error, message=without_key(error.message, self._settings))

    def end(self) -> None:
        """Let the iteration end; the socket is closed by ``connect``."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
