"""A line and a model that do exactly what a test says; they satisfy the seams without inheriting."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.calls.bus import EventBus
from gateway.calls.events import AgentAudioFrame, CallerAudioFrame
from gateway.legs.base import (
    Answered,
    CallerAudio,
    CallInfo,
    CannotDial,
    Cleared,
    HangupCause,
    HungUp,
    LegGone,
    TransferProgress,
)
from gateway.legs.feed import Feed
from gateway.media.playout import Playout
from providers.errors import SessionLost
from providers.types import PCMA, PCMU, Capabilities, TurnModel, Usage


class HandLeg:
    """A line whose play-out moves only when the test calls :meth:`hear`."""

    def __init__(self, *, transfer: list[TransferProgress] | None = None, info: CallInfo | None = None):
        self.info = info or CallInfo("call-1", "+12025550111", "+12025550100", "lab")
        self.format = PCMU
        self.quality = None
        self.playout = Playout(PCMU, prebuffer_ms=20)
        self.audio: Feed[CallerAudio] = Feed(50)
        self.happened: Feed = Feed(50)
        self.hung_up: list[HangupCause] = []
        self.transferred: list[str] = []
        self.answered = False
        self.gone = False
        self.lose_marks = False
        self.hold_transfer = False
        """The peer says nothing of a transfer until the line is gone."""
        self._transfer = transfer or []
        self._marks: list[tuple[int, asyncio.Future]] = []
        self._listener: Callable[[bytes], None] = lambda frame: None
        self._hears: Callable[[bytes], None] | None = None
        self.takes_transfer = True
        self.keys = ""
        """What the far end was sent as keys."""
        self.told: list[int] = []
        """What the far end was told of its own wish to transfer."""

    async def answer(self) -> None:
        if self.gone:
            raise LegGone
        self.answered = True

    def frames(self) -> AsyncIterator[CallerAudio]:
        return aiter(self.audio)

    def listen(self, listener: Callable[[bytes], None] | None) -> None:
        self._hears = listener

    def events(self) -> AsyncIterator:
        return aiter(self.happened)

    def play(self, audio: bytes, *, item_id: str) -> None:
        self.playout.enqueue(audio, item_id=item_id)

    def finish(self, item_id: str) -> None:
        self.playout.finish(item_id)

    async def mark(self) -> None:
        mark = self.playout.mark()
        if self.gone or (mark <= self.playout.reached and not self.lose_marks):
            return
        future = asyncio.get_running_loop().create_future()
        self._marks.append((mark, future))
        await future

    def clear(self) -> Cleared:
        cleared = self.playout.clear()
        self._release()
        return Cleared(*cleared)

    def heard_ms(self, item_id: str) -> int:
        return self.playout.heard_ms(item_id)

    def began_at(self, item_id: str) -> float | None:
        return self.playout.began_at(item_id)

    def listen_to_sent(self, listener: Callable[[bytes], None]) -> None:
        self._listener = listener

    def send_dtmf(self, digits: str) -> None:
        self.keys += digits

    def answer_transfer(self, status: int) -> None:
        self.told.append(status)

    async def hang_up(self, cause: HangupCause = HangupCause.NORMAL) -> None:
        self.hung_up.append(cause)
        self.leave(by_caller=False, reason="local")

    async def transfer(self, destination: str) -> AsyncIterator[TransferProgress]:
        self.transferred.append(destination)
        while self.hold_transfer and not self.gone:
            await asyncio.sleep(0)
        for progress in self._transfer:
            yield progress

    # What a test does to it.

    def speak(self, audio: bytes) -> None:
        """Say a frame."""
        if self._hears is not None:
            self._hears(audio)
        else:
            self.audio.put(CallerAudio(audio, 0))

    @property
    def is_listened_to(self) -> bool:
        return self._hears is not None

    def hear(self, ms: int) -> bytes:
        """Let the caller hear the next ``ms`` of what is queued."""
        heard = b""
        for _ in range(ms // 20):
            frame = self.playout.next_frame()
            if frame is not None:
                heard += frame
                self._listener(frame)
        self.playout.settle()
        self._release()
        return heard

    def leave(self, *, by_caller: bool = True, reason: str = "bye") -> None:
        if not self.gone:
            self.gone = True
            self.happened.put(HungUp(by_caller=by_caller, reason=reason))
            self.happened.close()
            self.audio.close()
            self._release()

    def _release(self) -> None:
        if self.lose_marks and not self.gone:
            return
        reached = self.playout.reached
        for mark, future in self._marks:
            if (mark <= reached or self.gone) and not future.done():
                future.set_result(None)


class HandDialler:
    """Calls that ring until the test answers them."""

    def __init__(self, *, routes: bool = True, error: CannotDial | None = None):
        self.routes = routes
        self.error = error
        self.dialled: list[tuple[str, str, str | None]] = []
        """Whom, as whom, over which trunk."""
        self.legs: list[HandLeg] = []

    def has_route(self, came_over: str, trunk: str | None) -> bool:
        return self.routes

    async def dial(
        self, destination: str, *, caller: CallInfo, number: str, line, trunk: str | None
    ) -> HandLeg:
        self.dialled.append((destination, number, trunk))
        if self.error is not None:
            raise self.error
        leg = HandLeg(info=CallInfo(f"{caller.id}-{len(self.legs)}", number, destination, trunk or "lab"))
        self.legs.append(leg)
        return leg

    def answer(self) -> HandLeg:
        """Let the last call be answered."""
        leg = self.legs[-1]
        leg.answered = True
        leg.happened.put(Answered())
        return leg


class HandSession:
    """A model that says what the test gives to :meth:`say`, and keeps what it was told."""

    capabilities = Capabilities(
        inputs=(PCMU, PCMA), outputs=(PCMU, PCMA), turn_model=TurnModel.TURN_BASED,
        truncates=True, cancels=True, resumes=False,
    )  # fmt: skip
    input = PCMU
    output = PCMU

    def __init__(self):
        self.done: Feed = Feed(100)
        self.heard = b""
        self.told: list[tuple] = []
        self.usage = Usage()

    async def __aiter__(self):
        async for event in self.done:
            if isinstance(event, SessionLost):
                raise event
            yield event

    async def send_audio(self, audio: bytes) -> None:
        self.heard += audio

    async def send_text(self, text: str, *, role: str = "user") -> None:
        self.told.append(("text", role, text))

    async def send_tool_result(self, result) -> None:
        self.told.append(("result", result.call_id, result.status.value))

    async def respond(self, *, instructions: str | None = None, tools: bool = True) -> None:
        self.told.append(("respond", instructions, tools))

    async def interrupt(self, *, item_id: str, heard_ms: int) -> None:
        self.told.append(("interrupt", item_id, heard_ms))

    async def update(self, update) -> None:
        raise AssertionError("no call updates a session yet")

    def say(self, *events) -> None:
        for event in events:
            self.done.put(event)


class HandProvider:
    """A model that opens when the test lets it; each time with another session."""

    def __init__(self, name="hand", *, error=None):
        self.name = name
        self.capabilities = HandSession.capabilities
        self.sessions = [HandSession()]
        """The first is opened first; a test may look at it before."""
        self.setups = []
        self.closed = 0
        self.ready = asyncio.Event()
        self.ready.set()
        self.error = error
        self.bill_at_the_end = Usage()

    @property
    def session(self) -> HandSession:
        """The last one that was opened, or the first that will be."""
        return self.sessions[-1]

    @asynccontextmanager
    async def connect(self, setup):
        self.setups.append(setup)
        try:
            await self.ready.wait()
            if self.error is not None:
                raise self.error
            if len(self.setups) > 1:
                self.sessions.append(HandSession())
            yield self.session
        finally:
            self.session.usage += self.bill_at_the_end
            self.closed += 1


class Watcher:
    """Everything that a bus carried, without the audio."""

    def __init__(self, bus: EventBus):
        self._subscription = bus.subscribe("test", 10_000)
        self._seen: list = []

    @property
    def seen(self) -> list:
        self._seen += self._subscription.take()
        return [event for event in self._seen if not isinstance(event, AgentAudioFrame | CallerAudioFrame)]

    def of(self, kind: type) -> list:
        return [event for event in self.seen if isinstance(event, kind)]
