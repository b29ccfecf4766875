"""
One open session of GPT-Live: the socket, the clock and nothing else.

What the events mean is decided in :mod:`providers.openai_live.state`. Frames are read and written raw,
because the SDK's models cost ten times more than the audio is worth. There is no task for the model's
clock: one timer wakes the reader when nothing came from the caller.
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
from providers.openai.failures import close_reason, without_key
from providers.openai_live import wire
from providers.openai_live.config import build_backend_update, setup_warnings
from providers.openai_live.ear import Ear
from providers.openai_live.level import power_meter, sound_detector
from providers.openai_live.messages import (
    Acknowledged,
    AudioReceived,
    ClientMessage,
    CloseSession,
    ErrorReported,
    SendSilence,
    SessionClosed,
    SessionFacts,
    UpdateSession,
)
from providers.openai_live.state import Conversation
from providers.openai_live.voice import Voice
from providers.types import (
    PCM16_16K,
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
    from config.providers import LiveSettings
    from providers.websocket import Socket
    from tools.types import ToolResult

CAPABILITIES = Capabilities(
    inputs=(PCM16_24K, PCM16_16K, PCMU, PCMA),
    outputs=(PCM16_24K, PCM16_16K, PCMU, PCMA),
    turn_model=TurnModel.DUPLEX,
    truncates=False,
    cancels=False,
    resumes=False,
    updates={
        Part.PROMPT: Updatable.LIVE,  # appended: what was said before cannot be taken back
        Part.LANGUAGE: Updatable.LIVE,
        Part.VOICE: Updatable.NEXT_SESSION,
        Part.TOOLS: Updatable.LIVE,
    },
)
_SILENCE = {"pcmu": b"\xff", "pcma": b"\xd5", "pcm16": b"\x00"}
CLOSE_WAIT_S = 0.5
"""How long the end waits for the final usage."""


class OpenAILiveSession:
    """
    One live conversation; made by :meth:`OpenAILiveProvider.connect`.

    Iterate it in one task. Everything else may be called from any task of the same loop.
    """

    def __init__(
        self, socket: Socket, settings: LiveSettings, setup: SessionSetup, facts: SessionFacts
    ) -> None:
        assert facts.format is not None  # connect refuses a session without it
        self._format = facts.format
        self._socket = socket
        self._settings = settings
        self._setup = setup
        self._loop = asyncio.get_running_loop()
        self._power = power_meter(facts.format)
        self._is_sound = sound_detector(facts.format)
        self._conversation = Conversation(
            Voice(
                facts.format.bytes_per_ms,
                pause_ms=settings.pause_ms,
                yield_ms=settings.yield_ms,
                buffer_ms=settings.buffer_ms,
            ),
            Ear(
                threshold=settings.turn_detection.threshold,
                silence_ms=settings.turn_detection.silence_ms,
            ),
            backend_model=settings.backend_model,
        )
        self._ready: deque[ProviderEvent] = deque(setup_warnings(setup))
        self._outbox: deque[ClientMessage] = deque()
        self._updating = asyncio.Lock()
        self._update_id = 0
        self._asked: dict[str, asyncio.Future[ErrorReported | None]] = {}
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._timer_due = False
        self._waiting: asyncio.Timeout | None = None
        # A date in the past says that one of the clocks is wrong, not that the session is over.
        if facts.expires_at is not None and (after := facts.expires_at - time.time()) > 0:
            self._conversation.expire_after(after, now=self._loop.time())
        self._arm()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def input(self) -> AudioFormat:
        return self._format

    @property
    def output(self) -> AudioFormat:
        return self._format

    @property
    def usage(self) -> Usage:
        """What the session has consumed, as far as the service has said."""
        return self._conversation.usage

    # Events.

    def __aiter__(self) -> AsyncIterator[ProviderEvent]:
        self._conversation.begin(now=self._loop.time())
        self._arm()
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
            elif (played := self._play(audio.audio, now)) is not None:
                return played

    def _play(self, audio: bytes, now: float) -> AudioDelta | None:
        """Take a piece of the model's voice; returns what is next where that is a piece of it."""
        played = self._conversation.receive_audio(audio, loud=self._is_sound(audio), now=now)
        if not self._conversation.has_events:
            return played
        self._ready.extend(self._conversation.events())
        if played is not None:
            self._ready.append(played)
        return None

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
            self._conversation.lose(*close_reason(exc, self._settings))
            return None
        finally:
            self._waiting = None

    async def _take(self, raw: bytes, now: float) -> None:
        """Take a frame that is no audio in its usual layout."""
        try:
            message = wire.decode(raw)
        except wire.WireError as exc:
            self._ready.append(ProviderWarning("invalid_event", str(exc)))
            return
        match message:
            case None:
                return
            case AudioReceived(audio):
                if (played := self._play(audio, now)) is not None:
                    self._ready.append(played)
                return
            case Acknowledged(event_id):
                self._settle_ask(event_id, None)
            case ErrorReported() if message.event_id in self._asked:
                self._settle_ask(message.event_id, self._cleaned(message))
            case ErrorReported():
                self._conversation.receive(self._cleaned(message), now=now)
            case _:
                self._conversation.receive(message, now=now)
        await self._settle()

    def _check(self) -> None:
        """Raise what ends the iteration."""
        if self._ended:
            raise StopAsyncIteration
        if self._conversation.lost is not None:
            code, message = self._conversation.lost
            for event_id in list(self._asked):
                self._settle_ask(event_id, ErrorReported("", "session_lost", message, event_id))
            raise SessionLost(message, code=code)

    # What the call says.

    async def send_audio(self, audio: bytes) -> None:
        """Send caller audio in :attr:`input`; waits while the socket is full."""
        conversation = self._conversation
        ms = len(audio) // self._format.bytes_per_ms
        conversation.caller_audio(self._power(audio), ms, now=self._loop.time())
        if conversation.has_events:
            self._wake()
        with suppress(ConnectionClosed, OSError):  # the iteration reports it
            await self._socket.send_text(wire.append_audio(audio))

    async def send_text(self, text: str, *, role: str = "user") -> None:
        """Put a text into the conversation: a system's as instructions, any other to be known."""
        self._conversation.add_text(text, role)
        await self._settle()

    async def send_tool_result(self, result: ToolResult) -> None:
        """Answer one tool call; unknown and already answered ones are ignored."""
        self._conversation.answer(result)
        await self._settle()

    async def respond(self, *, instructions: str | None = None, tools: bool = True) -> None:
        """Ask the model to speak; it chooses the moment itself."""
        self._conversation.respond(instructions=instructions, tools=tools, now=self._loop.time())
        await self._settle()

    async def interrupt(self, *, item_id: str, heard_ms: int) -> None:
        """Let nothing more of the running utterance be heard, and tell the model what was heard."""
        self._conversation.interrupt(item_id, heard_ms, now=self._loop.time())
        await self._settle()

    async def update(self, update: CallUpdate) -> None:
        """
        Change prompt, language or tools; all or nothing.

        A new prompt and a language are added to the instructions, since those cannot be taken back. Another
        task must be iterating the session, since the server's answers arrive there.

        Raises:
            ProviderRejected: Not everything was changed.
        """
        async with self._updating:
            if update.voice is not None and update.voice != self._setup.voice:
                raise ProviderRejected("the voice is fixed in a session", code="cannot_update_voice")
            setup = replace(
                self._setup,
                prompt=self._setup.prompt if update.prompt is None else update.prompt,
                language=update.language or self._setup.language,
                tools=self._setup.tools if update.tools is None else update.tools,
            )
            if setup == self._setup:
                return
            error = await self._apply(setup, update)
            if error is not None:
                code = error.code or error.kind
                raise ProviderRejected(f"the update was refused: {error.message}", code=code)
            self._setup = setup

    async def _apply(self, setup: SessionSetup, update: CallUpdate) -> ErrorReported | None:
        """Send what an update changes, and return the server's first objection."""
        backend = build_backend_update(update, setup)
        if backend is not None:
            self._update_id += 1
            event_id = f"update-{self._update_id}"
            self._outbox.append(UpdateSession(event_id, backend))
            if (error := await self._ask(event_id)) is not None:
                return error
        texts = []
        if update.prompt is not None:
            texts.append(f"From now on these instructions replace the earlier ones.\n\n{setup.instructions}")
        if update.language is not None:
            texts.append(f"From now on speak the language with the code {update.language}.")
        for text in texts:
            if (error := await self._ask(self._conversation.instruct(text))) is not None:
                return error
        return None

    async def _ask(self, event_id: str) -> ErrorReported | None:
        """Send what waits and return the server's error about an event, or ``None`` when it obeyed."""
        if self._conversation.lost is not None or self._ended:
            return ErrorReported("", "session_lost", "the session is over", event_id)
        answer: asyncio.Future[ErrorReported | None] = self._loop.create_future()
        self._asked[event_id] = answer
        try:
            await self._settle()
            async with asyncio.timeout(self._settings.connect_timeout_s):
                return await answer
        except TimeoutError:
            return ErrorReported("", "timeout", "the provider did not confirm it", event_id)
        finally:
            del self._asked[event_id]

    def _settle_ask(self, event_id: str, error: ErrorReported | None) -> None:
        answer = self._asked.get(event_id)
        if answer is not None and not answer.done():
            answer.set_result(error)

    # Sending and time.

    async def _settle(self) -> None:
        """Send, report and re-arm after any change of the conversation."""
        self._ready.extend(self._conversation.events())
        self._arm()
        # A task that is cancelled while the socket is full leaves the rest to the next one.
        self._outbox.extend(self._conversation.to_send())
        while self._outbox:
            await self._send(self._outbox.popleft())

    async def _send(self, message: ClientMessage) -> None:
        if isinstance(message, SendSilence):
            size = message.ms * self._format.bytes_per_ms
            payload = wire.append_audio(_SILENCE[self._format.encoding] * size)
        else:
            payload = wire.encode(message)
        with suppress(ConnectionClosed, OSError):  # the iteration reports it
            await self._socket.send_text(payload)

    def _arm(self) -> None:
        """Have one timer for the earliest deadline; an early call is harmless, so it is moved lazily."""
        at = self._conversation.next_timeout()
        if at is None or self._ended or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._on_timer), at

    def _on_timer(self) -> None:
        """Wake the reader, if the deadline has not moved on meanwhile."""
        self._timer = None
        at = self._conversation.next_timeout()
        if at is not None and at > self._loop.time():
            self._arm()
        else:
            self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._timer_due:
            self._waiting.reschedule(self._loop.time())
        self._timer_due = True

    def _cleaned(self, error: ErrorReported) -> ErrorReported:
        return replace(error, message=without_key(error.message, self._settings))

    # The end.

    async def close(self) -> None:
        """End the session in order, so that the final usage is known; does not wait for long."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._conversation.lost is not None:
            return
        with suppress(ConnectionClosed, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_WAIT_S):
                await self._socket.send_text(wire.encode(CloseSession("close")))
                self._wake()
                while self._waiting is not None:  # noqa: ASYNC110 - a reader who waits ends in the next turn
                    await asyncio.sleep(0)
                while not await self._is_closed():
                    pass

    async def _is_closed(self) -> bool:
        """Read one frame; only the last one is of interest."""
        raw = await self._socket.recv(decode=False)
        if wire.audio_delta(raw) is not None:
            return False
        with suppress(wire.WireError):
            message = wire.decode(raw)
            if message is not None:
                self._conversation.receive(message, now=self._loop.time())
            return isinstance(message, SessionClosed)
        return False
