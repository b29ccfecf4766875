"""
The conversation of one answered call: two pumps, the tool calls, and the one terminal action.

Everything runs in one task group; :meth:`Bridge.run` returns when the line is gone and nothing of
the call is left running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from gateway.calls import events as ev
from gateway.calls.budget import Budget
from gateway.calls.conversation import Conversation
from gateway.calls.dtmf import DtmfCollector
from gateway.calls.ending import Ending, OwnEnd
from gateway.calls.limits import GoodbyeMissing, Limit, LimitEvent, LimitNear, LimitReached
from gateway.calls.report import Report
from gateway.legs.base import (
    CallLeg,
    Cleared,
    DtmfReceived,
    HangupCause,
    HoldExpired,
    HungUp,
    MediaLost,
    MediaResumed,
    TransferRequested,
)
from gateway.media.convert import converter
from providers.base import ProviderSession
from providers.errors import SessionLost
from providers.types import (
    NO_ANSWER,
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ProviderEvent,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    SessionEnding,
    SpeechStarted,
    SpeechStopped,
    ToolCallsCancelled,
    ToolCallsRequested,
)
from tools.dispatcher import Batch
from tools.types import ToolCall, ToolResult, ToolStatus, TransferRequest

log = structlog.get_logger(__name__)

TOOL_GRACE_S = 3.0
"""How long tools that have begun may still run when the line is gone."""
MEDIA_AGAIN_S = 10.0
"""How long after a transfer that failed, at most, a line without packets is noticed."""


class Tools(Protocol):
    """What the bridge asks of the dispatcher."""

    async def run(self, calls: tuple[ToolCall, ...]) -> Batch: ...


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """
    What an agent's configuration says about its conversations.

    Args:
        greeting: How the model shall open the call; ``None`` lets the caller speak first.
        apology: Audio in the line's format for a session that was lost.
    """

    greeting: str | None
    apology: bytes


class Bridge:
    """
    Join a leg and a session.

    Args:
        leg: Answered.
        session: Configured.
        tools: The call's dispatcher.
        talk: The state that both directions share.
        ending: Carries out the terminal action.
        budget: Says when the call has lasted or cost enough.
        report: Takes the call's events; never blocks.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        *,
        leg: CallLeg,
        session: ProviderSession,
        tools: Tools,
        talk: Conversation,
        ending: Ending,
        budget: Budget,
        settings: BridgeSettings,
        report: Report,
        clock: Callable[[], float],
    ) -> None:
        self._leg = leg
        self._voice = leg
        """Where the agent is heard: the caller's line, or that of a colleague who is asked."""
        self._listening: asyncio.Task[None] | None = None
        """Brings the colleague's voice to the model."""
        self._session = session
        self._tools = tools
        self._talk = talk
        self._ending = ending
        self._budget = budget
        self._settings = settings
        self._report = report
        self._clock = clock
        self._to_model = converter(leg.format, session.input)
        self._to_line = converter(session.output, leg.format)
        self._speaking = ""
        self._over = asyncio.Event()
        self._media_lost = asyncio.Event()
        self._hung_up = HungUp(by_caller=False, reason="local")
        self._digits = DtmfCollector()
        self._running: set[asyncio.Task[None]] = set()
        """Tools and keys that are on their way to the model."""
        self._lost: SessionLost | None = None
        self._limit = Limit.DURATION
        """Why the agent was asked to say goodbye, once it was."""
        ending.speaks_with(self)

    @property
    def lost(self) -> SessionLost | None:
        """Why the session was lost, where it was."""
        return self._lost

    async def run(self) -> HungUp:
        """
        Carry the conversation until the line is gone, and say how it went.

        It also ends when the caller was joined with somebody: the line lives on then, and the answer says
        nothing.
        """
        name = self._leg.info.id[:8]
        async with asyncio.TaskGroup() as group:
            self._group = group
            tasks = [
                group.create_task(self._caller_to_model(), name=f"{name} caller->model"),
                group.create_task(self._model_to_caller(), name=f"{name} model->caller"),
                group.create_task(self._line_events(), name=f"{name} line"),
                group.create_task(self._lost_media(), name=f"{name} media"),
                group.create_task(self._budget.run(self._obey), name=f"{name} budget"),
            ]
            ending = group.create_task(self._end(), name=f"{name} ending")
            if self._settings.greeting is not None:
                await self._session.respond(instructions=self._settings.greeting)
            await self._over.wait()
            if self._running:
                await asyncio.wait(self._running, timeout=TOOL_GRACE_S)
            if self._ending.redirecting:  # a trunk that took the caller over may just hang up
                await asyncio.wait({ending}, timeout=TOOL_GRACE_S)
            for task in [*tasks, ending, *self._running]:
                task.cancel()
            if self._listening is not None:
                self._listening.cancel()
        self._tell(cut=True)
        return self._hung_up

    async def _end(self) -> None:
        await self._ending.run()
        if self._ending.joined:
            self._over.set()

    # Caller to model.

    async def _caller_to_model(self) -> None:
        send, convert = self._session.send_audio, self._to_model.convert
        ending, report = self._ending, self._report
        async for frame in self._leg.frames():
            report.caller_audio(frame.audio)
            if not ending.redirecting:
                await send(convert(frame.audio))

    async def _line_events(self) -> None:
        async for event in self._leg.events():
            match event:
                case DtmfReceived():
                    self._report(ev.DtmfHeard, event.digit)
                    if self._digits.add(event.digit, now=self._clock()):
                        self._start(self._send_digits(), "digits")
                case MediaLost():
                    log.warning("call.media_lost", silent_ms=event.silent_ms)
                    self._media_lost.set()
                case MediaResumed():
                    self._media_lost.clear()
                case HoldExpired():
                    log.warning("call.hold_expired", held_ms=event.held_ms)
                    self._hung_up = HungUp(by_caller=False, reason="hold_timeout")
                    await self._leg.hang_up()
                case TransferRequested():
                    self._leg.answer_transfer(603)  # nobody is there to be connected with somebody else
                case HungUp():
                    if self._hung_up.reason == "local":
                        self._hung_up = event
                    self._ending.line_gone()
                    self._over.set()
                case _:
                    pass  # hold: the leg itself stops and starts the media

    async def _lost_media(self) -> None:
        """Hang up on a line that brings no packets; but a trunk that transfers may send none meanwhile."""
        while True:
            await self._media_lost.wait()
            if self._talk.policy.pending is None:
                self._hung_up = HungUp(by_caller=False, reason="media_lost")
                await self._leg.hang_up()
                return
            await asyncio.sleep(MEDIA_AGAIN_S)

    async def _send_digits(self) -> None:
        """Wait until the caller stops pressing keys, then tell the model once."""
        while (after := self._digits.due(now=self._clock())) > 0:  # noqa: ASYNC110 - each key moves the moment
            await asyncio.sleep(after)
        digits = self._digits.take()
        if self._talk.policy.pending is None:
            self._talk.caller_paused(now=self._clock())
            await self._barge_in()
            await self._session.send_text(f"DTMF {digits} pressed")
            await self._session.respond()

    # Model to caller.

    async def _model_to_caller(self) -> None:
        try:
            async for event in self._session:
                if type(event) is AudioDelta:
                    self._audio(event)
                else:
                    await self._handle(event)
        except SessionLost as error:
            self._lost = error
            log.error("provider.session_lost", code=error.code, error=str(error))  # noqa: TRY400 - foreseen
            if self._running:  # perhaps one of them ends the call as it was meant to end
                await asyncio.wait(self._running, timeout=TOOL_GRACE_S)
            self._apologise("session_lost")

    def _audio(self, event: AudioDelta) -> None:
        now = self._clock()
        item_id = event.item_id
        if self._ending.redirecting and self._voice is self._leg:
            return  # the caller hears ringing, or somebody else already
        if not self._talk.audio(item_id, len(event.audio), now=now):
            return
        if item_id != self._speaking:
            if self._speaking:
                self._voice.finish(self._speaking)
            self._speaking = item_id
        latency = self._talk.response_latency(now=now)
        if latency is not None:
            self._report(ev.FirstAudio, round(latency * 1000))
        self._voice.play(self._to_line.convert(event.audio), item_id=item_id)

    async def _handle(self, event: ProviderEvent) -> None:
        match event:
            case AudioDone():
                self._talk.complete(event.item_id)
                self._voice.finish(event.item_id)
                self._group.create_task(self._settle(), name=f"{self._leg.info.id[:8]} {event.item_id}")
            case SpeechStarted():
                self._talk.caller_started()
                self._ending.caller_started()
                self._report(ev.CallerSpeech, started=True)
            case SpeechStopped():
                self._talk.caller_paused(now=self._clock())
                self._ending.caller_paused()
                self._report(ev.CallerSpeech, started=False)
            case Interrupted():
                await self._barge_in()
            case CallerTranscript():
                if event.final:
                    party = "caller" if self._voice is self._leg else "colleague"
                    self._report(ev.CallerSaid, event.item_id, event.text, party, event.partial)
                elif not event.text:
                    self._report(ev.CallerTurn, event.item_id)
            case AgentTranscript():
                self._talk.text(event.item_id, event.text, final=event.final, now=self._clock())
            case ToolCallsRequested():
                if not self._over.is_set():  # nothing is begun for a caller who has hung up
                    self._start(self._answer(event), "tools")
            case ResponseDone():
                self._response_done(event)
            case ProviderWarning():
                log.warning("provider.warning", code=event.code, message=event.message)
                if event.code == NO_ANSWER:
                    self._apologise("no_answer")
            case SessionEnding():
                log.info("provider.session_ending", after_s=event.after)
            case ToolCallsCancelled() | AudioDelta():
                pass  # begun tools finish, their answers are ignored by the session; audio has its own way

    async def _barge_in(self) -> None:
        """Stop what is playing and tell the model how much of it was heard."""
        if self._talk.policy.silent:
            return  # the farewell or the announcement is always heard to its end
        cleared, unfinished = self._silence()
        await self._interrupt(cleared, unfinished=unfinished)
        if cleared.dropped_ms > 0:
            self._report(ev.BargedIn, cleared.item_id, cleared.heard_ms, cleared.dropped_ms)

    def _silence(self) -> tuple[Cleared, bool]:
        """Drop what is queued, and say what was, and whether more of it would have come."""
        cleared = self._voice.clear()
        self._to_line = converter(self._session.output, self._voice.format)  # what was cut leaves no tail
        self._speaking = ""
        unfinished = self._talk.is_unfinished(cleared.item_id)
        self._tell(cut=True)
        return cleared, unfinished

    async def _interrupt(self, cleared: Cleared, *, unfinished: bool) -> None:
        if cleared.dropped_ms > 0 or unfinished:
            await self._session.interrupt(item_id=cleared.item_id, heard_ms=cleared.heard_ms)

    def _response_done(self, event: ResponseDone) -> None:
        if event.status is ResponseStatus.FAILED:
            log.warning("provider.response_failed", reason=event.reason)
        self._budget.look()
        if event.status is ResponseStatus.COMPLETED and self._talk.said_goodbye:
            self._ending.end(OwnEnd(self._limit))

    # A colleague (gateway.calls.warm.Speaker).

    async def turn_to(self, colleague: CallLeg, briefing: str) -> None:
        self._tell(cut=True)
        self._voice, self._speaking = colleague, ""
        self._to_line = converter(self._session.output, colleague.format)
        self._talk.policy.consult(True)
        name = f"{self._leg.info.id[:8]} colleague->model"
        self._listening = self._group.create_task(self._hear(colleague), name=name)
        await self._session.send_text(briefing, role="system")
        await self._session.respond(tools=False)

    async def turn_back(self) -> None:
        self._talk.policy.consult(False)
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        cleared, unfinished = self._silence()
        self._voice = self._leg
        self._to_line = converter(self._session.output, self._leg.format)
        self._ending.caller_paused()  # whoever spoke last was the colleague
        await self._interrupt(cleared, unfinished=unfinished)

    async def _hear(self, colleague: CallLeg) -> None:
        """Bring the colleague's voice to the model, until it turns back."""
        convert = converter(colleague.format, self._session.input).convert
        async for frame in colleague.frames():
            await self._session.send_audio(convert(frame.audio))

    # Tools.

    async def _answer(self, request: ToolCallsRequested) -> None:
        """Run the calls of one response in parallel, answer all of them, go on once."""
        for call in request.calls:
            self._report(ev.ToolCalled, call.call_id, call.name, call.arguments)
        if self._talk.begin_tools():
            batch = await self._run_tools(request.calls)
            tools = True
        else:
            batch = Batch(tuple(_too_many(call) for call in request.calls), None)
            tools = False
        if batch.terminal is not None:  # first of all: a provider that does not read cannot hold it up
            if self._talk.policy.consulting:
                self._ending.decided(accepted=isinstance(batch.terminal, TransferRequest))
            else:
                self._ending.begin(batch.terminal)
        for result in batch.results:
            self._report(
                ev.ToolAnswered, result.call_id, result.tool, result.status, result.reason_code, result.data
            )
            await self._session.send_tool_result(result)
        if batch.terminal is None and not self._talk.policy.silent and not self._over.is_set():
            await self._session.respond(tools=tools)

    async def _run_tools(self, calls: tuple[ToolCall, ...]) -> Batch:
        try:
            return await self._tools.run(calls)
        except asyncio.CancelledError:  # the line is gone, and the grace is over
            for call in calls:
                self._report(
                    ev.ToolAnswered, call.call_id, call.name, ToolStatus.COMPLETION_UNKNOWN, "call_ended"
                )
            raise

    def _start(self, work: Awaitable[None], what: str) -> None:
        task = self._group.create_task(_awaited(work), name=f"{self._leg.info.id[:8]} {what}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    # The end.

    async def _obey(self, event: LimitEvent) -> None:
        """Do what a limit asks for."""
        match event:
            case LimitNear(limit, used, allowed):
                log.info("call.limit_near", limit=limit, used=used, allowed=allowed)
            case LimitReached(limit, used, allowed):
                log.info("call.limit_reached", limit=limit, used=used, allowed=allowed)
                self._limit = limit
                if self._talk.policy.pending is None:
                    self._talk.ask_for_goodbye()
                    await self._session.respond(
                        instructions="The time of this call is over. Say goodbye in one short sentence.",
                        tools=False,
                    )
            case GoodbyeMissing(limit):
                self._ending.end(OwnEnd(limit))

    def _apologise(self, reason: str) -> None:
        """Say the recorded apology instead of falling silent, then hang up."""
        if self._ending.end(OwnEnd(reason, HangupCause.FAILED, self._settings.apology)):
            self._tell(cut=True)

    async def _settle(self) -> None:
        """Settle the transcript when the item that is complete now has been heard."""
        await self._voice.mark()
        self._tell(cut=False)

    def _tell(self, *, cut: bool) -> None:
        """Publish the utterances whose place in the transcript is settled now."""
        voice = self._voice
        party = "caller" if voice is self._leg else "colleague"
        heard = {item: voice.heard_ms(item) for item in self._talk.open_items}
        for spoken in self._talk.cut(heard) if cut else self._talk.settled(heard):
            began = voice.began_at(spoken.item.id)
            self._report(
                ev.AgentSaid,
                spoken.item.id,
                spoken.item.text,
                spoken.heard_ms,
                round(spoken.item.generated_ms),
                None if began is None else self._report.since(began),
                party,
            )


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _too_many(call: ToolCall) -> ToolResult:
    return ToolResult(
        call.call_id,
        call.name,
        ToolStatus.LIMIT_REACHED,
        message_key="max_tool_calls_reached",
        reason_code="max_tool_calls_reached",
    )
