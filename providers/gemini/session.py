"""
One open session of Gemini Live: its connections, the clock and nothing else.

What the frames mean is decided in :mod:`providers.gemini.state`, and when a connection is left for another
in :mod:`providers.gemini.resumption`. All of it happens in the task that iterates the session; frames
are read and written raw, because the SDK's models cost ten times more than the audio is worth.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from websockets.exceptions import ConnectionClosed

from config.voices import GEMINI
from providers.errors import ProviderError, ProviderRejected, SessionLost
from providers.gemini import wire
from providers.gemini.backlog import Backlog
from providers.gemini.config import SEARCH_TOKENS, instructions, setup_warnings, tools_json
from providers.gemini.failures import REFUSALS, close_reason
from providers.gemini.history import turns_of
from providers.gemini.messages import ClientMessage, UpdateContext
from providers.gemini.models import History, Profile
from providers.gemini.resumption import Resumption
from providers.gemini.state import Conversation
from providers.liveness import Liveness
from providers.types import (
    CONNECTION_LOST,
    PCM16_16K,
    PCM16_24K,
    AudioDelta,
    AudioFormat,
    Capabilities,
    Part,
    ProviderEvent,
    ProviderWarning,
    SessionEnding,
    SessionSetup,
    TurnModel,
    Updatable,
    Usage,
)
from tools.types import CallUpdate, ToolResult

if TYPE_CHECKING:
    from config.providers import GeminiSettings
    from providers.websocket import Socket

Dial = Callable[[SessionSetup, str, AsyncExitStack, float], Awaitable["Socket"]]
"""Opens a connection: set-up, handle, what closes it, seconds."""


def capabilities(profile: Profile) -> Capabilities:
    """Return what a session with this model can do."""
    return Capabilities(
        inputs=(PCM16_16K,),
        outputs=(PCM16_24K,),
        turn_model=TurnModel.ASYNC_TOOLS if profile.async_tools else TurnModel.TURN_BASED,
        truncates=False,
        cancels=False,
        resumes=True,
        # What a running session cannot change, a resumed one can; only the model is fixed.
        updates=dict.fromkeys(Part, Updatable.LIVE),
        native_tools=SEARCH_TOKENS,
    )


class GeminiSession:
    """
    One live conversation; made by :meth:`GeminiProvider.connect`.

    Iterate it in one task. Everything else may be called from any task of the same loop.
    """

    def __init__(
        self,
        dial: Dial,
        settings: GeminiSettings,
        profile: Profile,
        setup: SessionSetup,
        socket: Socket,
        line: AsyncExitStack,
    ) -> None:
        self._dial = dial
        self._settings = settings
        self._profile = profile
        self._setup = setup
        self._socket: Socket | None = socket
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._conversation = Conversation(profile, f"g{secrets.token_hex(3)}")
        self._resumption = Resumption(settings.session_limit_s)
        self._liveness = patient_liveness()
        self._backlog = Backlog()
        self._ready: deque[ProviderEvent] = deque(setup_warnings(setup))
        self._outbox: deque[ClientMessage] = deque()
        self._broken: tuple[str, str] | None = None
        """Code and sentence of a connection that ended by itself."""
        self._attempt_at = 0.0
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._timer_due = False
        self._waiting: asyncio.Timeout | None = None

    async def begin(self) -> None:
        """Tell the server what was said before this session."""
        now = self._loop.time()
        self._resumption.begin(now)
        self._liveness.begin(now)
        if self._profile.history is not History.INSTRUCTIONS:
            self._conversation.begin(turns_of(self._setup.history))
        await self._settle()

    @property
    def capabilities(self) -> Capabilities:
        return capabilities(self._profile)

    @property
    def input(self) -> AudioFormat:
        return PCM16_16K

    @property
    def output(self) -> AudioFormat:
        return PCM16_24K

    @property
    def usage(self) -> Usage:
        """What the session has consumed over all its connections."""
        return self._conversation.usage

    # Events.

    def __aiter__(self) -> AsyncIterator[ProviderEvent]:
        return self

    async def __anext__(self) -> ProviderEvent:
        while True:
            if self._ready:
                return self._ready.popleft()
            self._check()
            if self._socket is None:
                await self._attempt()
                continue
            if (self._resumption.moving or self._conversation.stuck) and self._may_leave():
                await self._leave()
                continue
            raw = await self._receive(self._socket)
            now = self._loop.time()
            if raw is None:
                await self._tick(now)
                continue
            self._liveness.heard(now)
            audio = wire.audio_at_once(raw)
            if audio is None:
                await self._take(raw, now)
            elif (item_id := self._conversation.receive_audio(audio, now=now)) is not None:
                if not self._conversation.has_events:
                    return AudioDelta(item_id, audio)
                await self._settle()  # the turn begins with it: what happened before is told before
                self._ready.append(AudioDelta(item_id, audio))

    def _check(self) -> None:
        """Raise what ends the iteration."""
        if self._ended:
            raise StopAsyncIteration
        if self._conversation.lost is not None:
            code, message = self._conversation.lost
            raise SessionLost(message, code=code)

    async def _receive(self, socket: Socket) -> bytes | None:
        """Return the next frame, or ``None`` for a due timer or a broken connection."""
        if self._timer_due:
            return None
        try:
            async with asyncio.timeout(None) as self._waiting:
                return await socket.recv(decode=False)
        except TimeoutError:
            return None
        except ConnectionClosed as exc:
            self._broken = close_reason(exc, self._settings)
            return None
        finally:
            self._waiting = None

    async def _take(self, raw: bytes, now: float) -> None:
        """Take any frame that is not audio alone."""
        try:
            message = wire.decode(raw)
        except wire.WireError as exc:
            self._ready.append(ProviderWarning("invalid_event", str(exc)))
            return
        if (going := message.go_away) is not None:
            self._resumption.go_away(wire.duration(going.time_left), now)
        if (update := message.session_resumption_update) is not None:
            resumable = bool(update.resumable)
            if self._resumption.update(update.new_handle or "", resumable=resumable):
                self._conversation.saved()
        try:
            self._conversation.receive(message, now=now)
        except wire.WireError as exc:
            self._ready.append(ProviderWarning("invalid_event", str(exc)))
        await self._settle()

    async def _tick(self, now: float) -> None:
        """Do what is due."""
        self._timer_due = False
        if self._broken is None:
            self._conversation.handle_timeout(now=now)
            if self._liveness.handle_timeout(now):
                await self._ping()
            if self._liveness.dead:
                self._broken = ("1006", "the provider stopped answering")
        if self._broken is not None:
            await self._break(*self._broken, now)
        await self._settle()

    # Connections.

    def _may_leave(self) -> bool:
        if self._conversation.stuck and self._resumption.handle:
            return True
        return self._resumption.due(self._loop.time(), quiet=self._conversation.quiet)

    async def _break(self, code: str, message: str, now: float) -> None:
        """Decide what becomes of the session after its connection ended by itself."""
        self._broken = None
        if code in REFUSALS or not self._resumption.may_resume(now):
            self._conversation.lost = (code, message)
            return
        self._ready.append(ProviderWarning(CONNECTION_LOST, f"{message}; the session is resumed"))
        await self._leave()

    async def _leave(self) -> None:
        """Close the connection, before another is opened: the server refuses a second one."""
        urgent = self._conversation.urgent
        self._conversation.disconnected(self._loop.time())
        self._ready.extend(self._conversation.events())
        self._socket = None
        self._outbox.clear()
        line, self._line = self._line, AsyncExitStack()
        await _close(line)
        self._attempt_at = self._loop.time()
        self._resumption.start(self._attempt_at, urgent=urgent)

    async def _attempt(self) -> None:
        """Try once to go on over another connection."""
        if (wait := self._attempt_at - self._loop.time()) > 0:
            await asyncio.sleep(wait)
        now = self._loop.time()
        limit_s = self._resumption.patience(now, self._settings.connect_timeout_s)
        try:
            async with AsyncExitStack() as line:
                socket = await self._dial(self._setup, self._resumption.handle, line, limit_s)
                self._line = line.pop_all()
        except ProviderError as error:
            self._failed(error, self._loop.time())
            return
        now = self._loop.time()
        self._socket = socket
        self._resumption.opened(now)
        self._liveness = patient_liveness()
        self._liveness.begin(now)
        self._conversation.resumed(now)
        await self._settle()
        await self._catch_up(socket)

    def _failed(self, error: ProviderError, now: float) -> None:
        refused = isinstance(error, ProviderRejected)
        wait = self._resumption.failed(now, refused=refused)
        if wait is None:
            self._conversation.lost = (error.code, f"the session could not be resumed: {error}")
            return
        self._attempt_at = now + wait
        # Nobody waits for words now; but who knows another model may prepare it meanwhile.
        if (after := self._resumption.doubt(now)) is not None:
            self._ready.append(SessionEnding(after))

    async def _ping(self) -> None:
        if self._socket is not None:
            with suppress(ConnectionClosed, OSError):  # the reader hears of it
                pong = await self._socket.ping()
                cast("asyncio.Future[float]", pong).add_done_callback(self._ponged)

    def _ponged(self, pong: asyncio.Future[float]) -> None:
        if not pong.cancelled() and pong.exception() is None:
            self._liveness.answered(self._loop.time())
            self._arm()

    # What the call says.

    async def send_audio(self, audio: bytes) -> None:
        """Send caller audio in :attr:`input`; waits while the socket is full."""
        socket = self._socket
        if socket is None or not self._conversation.may_hear:
            self._backlog.add(audio)
            return
        if self._backlog:
            await self._catch_up(socket)
        if self._conversation.heard_caller(self._loop.time()):
            self._arm()
        with suppress(ConnectionClosed, OSError):  # the iteration hears of it
            await socket.send_text(wire.send_audio(audio))

    async def send_text(self, text: str, *, role: str = "user") -> None:
        """Put a text turn into the conversation; ``role`` is user, system or assistant."""
        self._conversation.add_text(text, role)
        await self._settle()

    async def send_tool_result(self, result: ToolResult) -> None:
        """Answer one tool call; unknown, answered and cancelled ones are ignored."""
        self._conversation.answer(result, now=self._loop.time())
        await self._settle()

    async def respond(self, *, instructions: str | None = None, tools: bool = True) -> None:
        """Ask the model to speak as soon as it may; requests before that become one."""
        self._conversation.respond(instructions=instructions, tools=tools, now=self._loop.time())
        await self._settle()

    async def interrupt(self, *, item_id: str, heard_ms: int) -> None:
        """
        Tell the model how much of ``item_id`` was heard, where it can be told.

        An empty ``item_id`` says that nothing was being played.
        """
        self._conversation.interrupt(item_id, heard_ms, now=self._loop.time())
        await self._settle()

    async def update(self, update: CallUpdate) -> None:
        """
        Change prompt, tools, voice or language; all or nothing.

        What the running connection cannot change, the next one does: it is opened as soon as nobody speaks.

        Raises:
            ProviderRejected: Nothing was changed.
        """
        if self._ended or self._conversation.lost is not None:
            raise ProviderRejected("the session is over", code="session_lost")
        if update.voice is not None and update.voice not in GEMINI:
            raise ProviderRejected(f"{update.voice} is no Gemini voice", code="voice_unknown")
        before, setup = self._setup, _updated(self._setup, update)
        said = setup.prompt != before.prompt or setup.tools != before.tools
        moves = setup.voice != before.voice or (said and not self._profile.context_update)
        if moves and not self._resumption.handle:
            raise ProviderRejected("the session cannot be changed yet", code="cannot_update")
        self._setup = setup
        if said and self._profile.context_update:
            self._outbox.append(self._context(before))
        if moves:
            self._resumption.want()
            self._wake()
        await self._settle()

    def _context(self, before: SessionSetup) -> UpdateContext:
        setup, profile = self._setup, self._profile
        return UpdateContext(
            instructions(setup, profile) if setup.prompt != before.prompt else None,
            tools_json(setup, profile) if setup.tools != before.tools else None,
        )

    # Sending and time.

    async def _settle(self) -> None:
        """Send, report and re-arm after any change of the conversation."""
        self._ready.extend(self._conversation.events())
        if (after := self._resumption.ending(self._loop.time())) is not None:
            self._ready.append(SessionEnding(after))
        self._arm()
        self._outbox.extend(self._conversation.to_send())
        # A task that is cancelled while the socket is full leaves the rest to the next one.
        while self._outbox and (socket := self._socket) is not None:
            with suppress(ConnectionClosed, OSError):  # the iteration hears of it
                await socket.send_text(wire.encode(self._outbox.popleft()))

    async def _catch_up(self, socket: Socket) -> None:
        """Send the caller's last words that could not be sent."""
        if audio := self._backlog.take():
            with suppress(ConnectionClosed, OSError):
                await socket.send_text(wire.send_audio(audio))

    def _arm(self) -> None:
        """Have one timer for the earliest deadline; an early call is harmless, so it is moved lazily."""
        if self._ended or self._socket is None:
            return
        times = (
            self._conversation.next_timeout(),
            self._resumption.next_timeout(),
            self._liveness.next_timeout(),
        )
        at = min((each for each in times if each is not None), default=None)
        if at is None or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._wake), at

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._waiting is not None and not self._timer_due:
            self._waiting.reschedule(self._loop.time())
        self._timer_due = True

    async def close(self) -> None:
        """Let the iteration end and close the connection."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        await _close(self._line)


def patient_liveness() -> Liveness:
    """Pongs were seen to come half a minute late, and a caller may say nothing for as long (fault 23)."""
    return Liveness(first=5.0, quiet=20.0, wait=45.0)


async def _close(line: AsyncExitStack) -> None:
    with suppress(ConnectionClosed, OSError):
        await line.aclose()


def _updated(setup: SessionSetup, update: CallUpdate) -> SessionSetup:
    return replace(
        setup,
        prompt=setup.prompt if update.prompt is None else update.prompt,
        language=update.language or setup.language,
        voice=update.voice or setup.voice,
        tools=setup.tools if update.tools is None else update.tools,
    )
