"""
The model of a call, whatever session speaks for it at present.

Sessions come and go (:mod:`gateway.calls.recovery`); the call speaks to this one object. What it says
while there is no session is kept and told to the next one: texts and tool results through the history, the
caller's voice from the beginning of a turn that nobody has written down yet.

Item and call ids of later sessions get a prefix, because each vendor begins to count anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.calls.opening import OpenSession
from gateway.media.convert import converter
from providers.base import ProviderSession
from providers.failover import History
from providers.types import (
    AgentTranscript,
    AudioDelta,
    AudioDone,
    AudioFormat,
    CallerTranscript,
    HistoryItem,
    ProviderEvent,
    Said,
    SessionSetup,
    ToolCallsCancelled,
    ToolCallsRequested,
    ToolUsed,
)
from tools.types import CallUpdate, ToolResult

RECENT_FRAMES = 250
"""Of the caller's voice that are kept: five seconds in frames of 20 ms."""
ITEMS = 64
"""Items of the present session that are known to be its own."""
PREFIX_FRAMES = 25
"""How many frames before the provider says so a turn began."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request to speak that was not answered yet."""

    instructions: str | None
    tools: bool


class LiveModel:
    """
    The model's side of a call.

    Args:
        opened: The first session.
        setup: What it was configured with.
        history: What was said so far; tool calls and texts are written down here.
    """

    def __init__(self, opened: OpenSession, setup: SessionSetup, history: History) -> None:
        self.provider = opened.provider
        self.history = history
        self.suspended = False
        """Whether there is no session: what is for it is kept."""
        self.wanted: Wanted | None = None
        self.asked: Callable[[], None] = _nobody
        """Told of each request to speak."""
        self._opened = opened
        self._session = opened.session
        self._setup = setup
        self._generation = 1
        self._source = setup.line
        self._convert = converter(self._source, self._session.input).convert
        self._recent: deque[bytes] = deque(maxlen=RECENT_FRAMES)
        self._heard = 0
        self._turn_from: int | None = None
        self._missed_from = 0
        self._asked: dict[str, int] = {}
        self._items: deque[str] = deque(maxlen=ITEMS)

    @property
    def session(self) -> ProviderSession:
        return self._session

    @property
    def output(self) -> AudioFormat:
        """The format of the audio of :attr:`session`."""
        return self._session.output

    def setup(self) -> SessionSetup:
        """Return what another session is to be configured with, the history up to now."""
        return replace(self._setup, history=self.history.items())

    # What the call says; while there is no session it is kept.

    async def hear(self, audio: bytes) -> None:
        """Take a frame of the voice that the model listens to, in the format of its line."""
        self._recent.append(audio)
        self._heard += 1
        if not self.suspended:
            await self._session.send_audio(self._convert(audio))

    def listen_to(self, source: AudioFormat) -> None:
        """Take frames in another format from now on: those of another line."""
        self._source = source
        self._convert = converter(source, self._session.input).convert
        self._recent.clear()

    async def send_text(self, text: str, *, role: str = "user") -> None:
        self.history.text(Said("system" if role == "system" else "caller", text))
        if not self.suspended:
            await self._session.send_text(text, role=role)

    async def send_tool_result(self, result: ToolResult) -> None:
        """Answer a tool call, to whatever session there is; a call is answered once."""
        generation = self._asked.pop(result.call_id, None)
        if generation is None:
            return
        self.history.answered(result.call_id, result.to_json())
        if self.suspended:
            return
        if generation == self._generation:
            await self._session.send_tool_result(replace(result, call_id=self._theirs(result.call_id)))
        else:  # this session never asked
            await self._session.send_text(_late_result(result.tool, result.to_json()), role="system")

    async def respond(self, *, instructions: str | None = None, tools: bool = True) -> None:
        self.wanted = Wanted(instructions, tools)
        self.asked()
        if not self.suspended:
            await self._session.respond(instructions=instructions, tools=tools)

    async def interrupt(self, *, item_id: str, heard_ms: int) -> None:
        """Stop the model; an item of an earlier session, or a recording, is none that this one could cut."""
        if not self.suspended:
            own = item_id in self._items
            theirs = self._theirs(item_id) if own else ""
            await self._session.interrupt(item_id=theirs, heard_ms=heard_ms if own else 0)

    async def update(self, update: CallUpdate) -> None:
        """
        Change the live parts; raises ``ProviderRejected``.

        Sessions to come have them, too, but for the voice: another provider has others.
        """
        if not self.suspended:
            await self._session.update(update)
        setup = self._setup
        self._setup = replace(
            setup,
            prompt=setup.prompt if update.prompt is None else update.prompt,
            language=update.language or setup.language,
            tools=setup.tools if update.tools is None else update.tools,
        )

    # What the session says.

    def renamed(self, event: ProviderEvent) -> ProviderEvent:
        """Return an event of the session with the ids that the call knows; note what was asked."""
        match event:
            case AudioDelta():
                self.wanted = None
                item_id = self._ours(event.item_id)
                if not self._items or self._items[-1] != item_id:
                    self._items.append(item_id)
                return event if self._generation == 1 else AudioDelta(item_id, event.audio)
            case AudioDone() | AgentTranscript():
                return replace(event, item_id=self._ours(event.item_id))
            case CallerTranscript():
                renamed = replace(event, item_id=self._ours(event.item_id))
                self._note(renamed)
                return renamed
            case ToolCallsRequested():
                self.wanted = None
                calls = tuple(replace(call, call_id=self._ours(call.call_id)) for call in event.calls)
                for call in calls:
                    self._asked[call.call_id] = self._generation
                    self.history.asked(call)
                return replace(event, calls=calls)
            case ToolCallsCancelled():
                return replace(event, call_ids=tuple(self._ours(each) for each in event.call_ids))
            case _:
                return event

    def caller_started(self) -> None:
        """The caller begins a turn: its sound is kept until its words are there."""
        if self._turn_from is None:
            self._turn_from = max(self._heard - PREFIX_FRAMES, 0)

    def turn_answered(self) -> None:
        """The model has answered: its sound is not needed any more, whether its words come or not."""
        self._turn_from = None

    def _note(self, event: CallerTranscript) -> None:
        if event.final:
            self.history.caller(event.item_id, event.text)
            self._turn_from = None
        elif not event.text:
            self.history.caller(event.item_id, "")

    # From one session to the next.

    def suspend(self) -> None:
        """Keep what is said from now on: the session is of no more use."""
        if not self.suspended:
            self.suspended = True
            self._missed_from = self._heard if self._turn_from is None else self._turn_from

    @property
    def has_open_turn(self) -> bool:
        """Whether the caller said something of which the next session hears the sound."""
        kept_from = self._heard - len(self._recent)
        return self._turn_from is not None and self._turn_from >= kept_from

    async def resume(self, opened: OpenSession, *, told: int) -> None:
        """
        Speak through another session from now on; the one before is closed.

        Args:
            opened: Configured.
            told: The version of the history that it was given.
        """
        missed_from = self._missed_from if self.suspended else self._heard
        self.suspended = True  # so that the caller's voice stays in order
        self._opened.close()
        self._opened, self._session, self.provider = opened, opened.session, opened.provider
        self._generation += 1
        self._convert = converter(self._source, self._session.input).convert
        self._turn_from = None
        self._items.clear()
        # While a full socket is waited for, more is said and done.
        while told < self.history.version or missed_from < self._heard:
            items, told = self.history.items(after=told), self.history.version
            for item in items:
                await self._tell(item)
            kept = list(self._recent)
            missed, missed_from = kept[max(len(kept) - self._heard + missed_from, 0) :], self._heard
            for audio in missed:
                await self._session.send_audio(self._convert(audio))
        self.suspended = False

    async def _tell(self, item: HistoryItem) -> None:
        match item:
            case Said("caller", text):
                await self._session.send_text(text, role="user")
            case Said("agent", text):
                await self._session.send_text(f'You have just said: "{text}"', role="system")
            case Said(_, text):
                await self._session.send_text(text, role="system")
            case ToolUsed(call, output):
                await self._session.send_text(_late_result(call.name, output, call.arguments), role="system")

    @property
    def _prefix(self) -> str:
        return "" if self._generation == 1 else f"session-{self._generation}-"

    def _ours(self, theirs: str) -> str:
        return f"{self._prefix}{theirs}" if theirs else ""

    def _theirs(self, ours: str) -> str:
        return ours.removeprefix(self._prefix)


def _nobody() -> None:
    pass


def _late_result(tool: str, output: str, arguments: str = "") -> str:
    asked = f" with {arguments}" if arguments else ""
    return f"The tool {tool}, which you called before{asked}, has answered: {output}"
