"""
The conversation of one answered call: two pumps, the tool calls, and the one terminal action.

Everything runs in one task group; :meth:`Bridge.run` returns when the line is gone and nothing of
the call is left running. Sessions with the model come and go meanwhile (:mod:`gateway.calls.recovery`); line,
ledger, transcript and tools stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gateway.calls import events as ev
from gateway.calls.budget import Budget
from gateway.calls.conversation import Conversation, Goodbye
from gateway.calls.dtmf import DtmfCollector
from gateway.calls.ending import Ending, OwnEnd
from gateway.calls.greeter import Greeter
from gateway.calls.limits import TIME_IS_OVER, GoodbyeMissing, Limit, LimitEvent, LimitNear, LimitReached
from gateway.calls.model import LiveModel
from gateway.calls.opening import Opener, OpenSession
from gateway.calls.recovery import Recovery, Situation
from gateway.calls.report import Report
from gateway.calls.rounds import ToolRounds
from gateway.calls.terms import BridgeSettings
from gateway.calls.vigil import Vigil
from gateway.calls.voice import AgentVoice
from gateway.legs.base import (
    CallLeg,
    Cleared,
    DtmfReceived,
    HangupCause,
    HoldChanged,
    HoldExpired,
    HungUp,
    MediaLost,
    MediaResumed,
    TransferRequested,
)
from providers.base import ProviderSession
from providers.errors import SessionLost
from providers.types import (
    CONNECTION_LOST,
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
from tools.types import EndRequest

log = structlog.get_logger(__name__)

EVENTS_IN_A_ROW = 32
"""After so many events of a session other calls have their turn, however fast it sends."""
MAX_WARNINGS = 100
"""Of the sessions of one call that are logged; the last one says so."""
TOOL_GRACE_S = 3.0
"""How long tools that have begun may still run when the line is gone."""
MEDIA_AGAIN_S = 10.0
"""How long after a transfer that failed, at most, a line without packets is noticed."""


class Bridge:
    """
    Join a leg and a model.

    Args:
        leg: Answered.
        model: With its first session.
        opener: Opens others.
        rounds: Runs the tools.
        talk: The state that both directions share.
        ending: Carries out the terminal action.
        budget: Says when the call has lasted or cost enough.
        vigil: Says when nobody is heard; it is told of each frame that is sent by who owns it.
        report: Takes the call's events; never blocks.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        *,
        leg: CallLeg,
        model: LiveModel,
        opener: Opener,
        rounds: ToolRounds,
        talk: Conversation,
        ending: Ending,
        budget: Budget,
        vigil: Vigil,
        settings: BridgeSettings,
        report: Report,
        clock: Callable[[], float],
    ) -> None:
        self._leg = leg
        self._listening: asyncio.Task[None] | None = None
        """Brings the colleague's voice to the model."""
        self._model = model
        self._rounds = rounds
        self._talk = talk
        self._ending = ending
        self._budget = budget
        self._vigil = vigil
        self._settings = settings
        self._report = report
        self._clock = clock
        self._voice = AgentVoice(leg, model.output, talk, report, model.history)
        self._pump: asyncio.Task[None] | None = None
        """Brings what the present session says to the line."""
        self._ears: asyncio.Task[None] | None = None
        """Brings the caller's voice to the model."""
        self._over = asyncio.Event()
        self._media_lost = asyncio.Event()
        self._hung_up = HungUp(by_caller=False, reason="local")
        self._events = self._warnings = 0
        self._digits = DtmfCollector()
        self._running: set[asyncio.Task[None]] = set()
        """Tools and keys that are on their way to the model."""
        self.recovery = Recovery(
            model=model,
            opener=opener,
            stage=self,
            settings=settings.recovery,
            moment=settings.moment,
            bytes_per_ms=leg.format.bytes_per_ms,
            report=report,
            clock=clock,
        )
        self._greeter = Greeter(settings.greeting, model, self._voice, talk, vigil, clock)
        model.asked = vigil.reply_due
        self._limit = Limit.DURATION
        """Why the agent was asked to say goodbye, once it was."""
        ending.speaks_with(self)

    async def run(self) -> HungUp:
        """
        Carry the conversation until the line is gone, and say how it went.

        It also ends when the caller was joined with somebody: the line lives on, the answer says nothing.
        """
        name = self._leg.info.id[:8]
        async with asyncio.TaskGroup() as group:
            self._group = group
            tasks = [
                group.create_task(self._line_events(), name=f"{name} line"),
                group.create_task(self._lost_media(), name=f"{name} media"),
                group.create_task(self.recovery.run(), name=f"{name} recovery"),
                group.create_task(self._budget.run(self._obey), name=f"{name} budget"),
                group.create_task(self._vigil.run(self, self.recovery), name=f"{name} vigil"),
                group.create_task(self._greeter.greet(), name=f"{name} greeting"),
            ]
            self._listen()
            self._follow(self._model.session)
            ending = group.create_task(self._end(), name=f"{name} ending")
            await self._over.wait()
            if self._running:
                await asyncio.wait(self._running, timeout=TOOL_GRACE_S)
            if self._ending.redirecting:  # a trunk that took the caller over may just hang up
                await asyncio.wait({ending}, timeout=TOOL_GRACE_S)
            for task in [*tasks, ending, *self._running, self._pump, self._ears, self._listening]:
                if task is not None:
                    task.cancel()
        self._voice.tell(cut=True)
        return self._hung_up

    async def _end(self) -> None:
        await self._ending.run()
        if self._ending.joined:
            self._over.set()

    # Caller to model.

    def _listen(self) -> None:
        """Take the caller's voice anew: a session that reads nothing any more holds nobody up."""
        if self._ears is not None:
            self._ears.cancel()
        name = f"{self._leg.info.id[:8]} caller->model"
        self._ears = self._group.create_task(self._caller_to_model(), name=name)

    async def _caller_to_model(self) -> None:
        hear, ending, report = self._model.hear, self._ending, self._report
        listen, floor = self._vigil.line_brought, self._greeter.floor
        async for frame in self._leg.frames():
            report.caller_audio(frame.audio)
            listen(frame.audio)
            if not ending.redirecting:
                await hear(floor.take(frame.audio))

    async def _line_events(self) -> None:
        async for event in self._leg.events():
            match event:
                case DtmfReceived():
                    self._report(ev.DtmfHeard, event.digit)
                    self._vigil.caller_active()
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
                case HoldChanged():
                    self._vigil.held(held=event.held)  # the leg itself stops and starts the media
                case _:
                    pass  # ringing is over

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
        await self._greeter.over.wait()
        digits = self._digits.take()
        if self._talk.policy.pending is None:
            self._talk.caller_paused(now=self._clock())
            await self._barge_in()
            await self._model.send_text(f"DTMF {digits} pressed")
            await self._model.respond()

    # Model to caller.

    def _follow(self, session: ProviderSession) -> None:
        """Listen to this session, and to no other."""
        if self._pump is not None:
            self._pump.cancel()
        name = f"{self._leg.info.id[:8]} model->caller"
        self._pump = self._group.create_task(self._model_to_caller(session), name=name)

    async def _model_to_caller(self, session: ProviderSession) -> None:
        renamed = self._model.renamed
        try:
            async for event in session:
                known = renamed(event)
                if type(known) is AudioDelta:
                    self._audio(known)
                else:
                    await self._handle(known)
                self._events += 1
                if self._events % EVENTS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
        except SessionLost as error:
            log.error("provider.session_lost", code=error.code, error=str(error))  # noqa: TRY400 - foreseen
            self._ending.caller_paused()  # whoever told us that the caller speaks tells us no more
            if self._talk.policy.silent:
                self._voice.break_off(now=self._clock())  # the farewell is as long as it has become
            self.recovery.lost(error)

    def _audio(self, event: AudioDelta) -> None:
        now = self._clock()
        if self._ending.redirecting and self._voice.is_with_caller:
            return  # the caller hears ringing, or somebody else already
        if not self._talk.audio(event.item_id, len(event.audio), now=now):
            return
        if self.recovery.waits_for_speech:
            self.recovery.spoke()
        latency = self._talk.response_latency(now=now)
        if latency is not None:
            self._report(ev.FirstAudio, round(latency * 1000))
        self._voice.play(event.item_id, event.audio)
        self._vigil.audio_came(len(event.audio) / self._talk.bytes_per_ms)

    async def _handle(self, event: ProviderEvent) -> None:
        self._vigil.happened(event)
        match event:
            case AudioDone():
                self._voice.finish(event.item_id)
                self._group.create_task(self._voice.settle(), name=f"{self._leg.info.id[:8]} {event.item_id}")
            case SpeechStarted():
                self._model.caller_started()
                self._talk.caller_started()
                self._ending.caller_started()
                self._report(ev.CallerSpeech, started=True)
            case SpeechStopped():
                self._talk.caller_paused(now=self._clock())
                self._ending.caller_paused()
                self._report(ev.CallerSpeech, started=False)
            case Interrupted() if self._greeter.over.is_set():
                await self._barge_in()
                if not self.ends:
                    self._vigil.interrupted()
            case CallerTranscript():
                if event.final:
                    self._report(ev.CallerSaid, event.item_id, event.text, self._voice.party, event.partial)
                elif not event.text:
                    self._report(ev.CallerTurn, event.item_id)
            case AgentTranscript():
                self._talk.text(event.item_id, event.text, final=event.final, now=self._clock())
            case ToolCallsRequested():
                if not self._over.is_set():  # nothing is begun for a caller who has hung up
                    self._vigil.tools_began()
                    self._rounds.begin()
                    self._start(self._use_tools(event), "tools")
            case ResponseDone():
                self._response_done(event)
            case ProviderWarning():
                self._warnings += 1
                if self._warnings <= MAX_WARNINGS:
                    last = self._warnings == MAX_WARNINGS
                    log.warning("provider.warning", code=event.code, message=event.message, last=last)
                if event.code == CONNECTION_LOST:
                    self.recovery.doubt()
            case SessionEnding():
                log.info("provider.session_ending", after_s=event.after)
                self.recovery.session_ending(event.after)
            case ToolCallsCancelled() | AudioDelta() | Interrupted():
                pass  # begun tools finish, their answers are ignored by the session; audio has its own way

    async def _barge_in(self) -> None:
        """Stop what is playing and tell the model how much of it was heard."""
        await self._rounds.decided()
        if self._talk.policy.silent:
            return  # the farewell or the announcement is always heard to its end
        cleared = await self.drop()
        await self._greeter.cut(cleared)
        if cleared.dropped_ms > 0:
            self._report(ev.BargedIn, cleared.item_id, cleared.heard_ms, cleared.dropped_ms)

    async def _use_tools(self, event: ToolCallsRequested) -> None:
        try:
            await self._rounds.answer(event, over=self._over)
        finally:
            self._vigil.tools_ended()

    async def _interrupt(self, cleared: Cleared, *, unfinished: bool) -> None:
        if cleared.dropped_ms > 0 or unfinished:
            await self._model.interrupt(item_id=cleared.item_id, heard_ms=cleared.heard_ms)

    def _response_done(self, event: ResponseDone) -> None:
        if event.status is ResponseStatus.FAILED:
            log.warning("provider.response_failed", reason=event.reason)
        self._budget.look()
        if event.status is not ResponseStatus.COMPLETED:
            return
        if not self._running:
            self._model.turn_answered()
        match self._talk.responded():
            case Goodbye.SAID:
                self._ending.end(OwnEnd(self._limit))
            case Goodbye.PERHAPS:
                self._budget.expect_goodbye()
            case Goodbye.NOT_YET:
                pass

    # Who watches for silence (gateway.calls.vigil.Watched).

    @property
    def ends(self) -> bool:
        return self._talk.policy.pending is not None or self._over.is_set()

    @property
    def greets(self) -> bool:
        return not self._greeter.over.is_set()

    async def drop(self) -> Cleared:
        cleared, unfinished = self._voice.silence()
        self._vigil.cleared()
        await self._interrupt(cleared, unfinished=unfinished)
        return cleared

    async def ask(self, instructions: str) -> None:
        await self._model.respond(instructions=instructions, tools=False)

    def take_leave(self, reason: str) -> None:
        self._ending.end(OwnEnd(reason))

    # From one session to the next (gateway.calls.recovery.Stage).

    def situation(self) -> Situation:
        talk, pending = self._talk, self._talk.policy.pending
        return Situation(
            unheard_ms=self._voice.unheard_ms,
            caller_speaks=talk.caller_speaks,
            reply_due=talk.reply_due(now=self._clock()),
            tools_run=bool(self._running),
            silent=talk.policy.silent,
            terminal=isinstance(pending, EndRequest) or self._over.is_set(),
        )

    def break_off(self) -> bool:
        self._vigil.session_lost()
        self._listen()
        return self._voice.break_off(now=self._clock())

    async def go_on_with(self, opened: OpenSession, told: int) -> None:
        if self._pump is not None:
            self._pump.cancel()
        await self._model.resume(opened, told=told)
        self._talk.take_over(self._model.output.bytes_per_ms)
        self._ending.caller_paused()
        self._voice.speak_in(self._model.output)
        self._vigil.session_began(opened.session.capabilities)
        self._follow(opened.session)

    def fill(self, recording: bytes, item_id: str) -> None:
        self._voice.line.play(recording, item_id=item_id)
        self._voice.line.finish(item_id)
        self._vigil.played(len(recording) / self._voice.line.format.bytes_per_ms)

    async def give_up(self, reason: str) -> None:
        if self._running:  # perhaps one of them ends the call as it was meant to end
            await asyncio.wait(self._running, timeout=TOOL_GRACE_S)
        settings = self._settings
        own = OwnEnd(reason, HangupCause.FAILED, settings.apology, settings.fallback, settings.connecting)
        if self._ending.end(own):
            self._voice.tell(cut=True)

    # The agent's voice and ears (gateway.calls.warm.Speaker).

    async def spoken(self) -> None:
        await self._voice.spoken()

    async def turn_to(self, colleague: CallLeg, briefing: str) -> None:
        self._voice.tell(cut=True)
        self._voice.turn_to(colleague)
        self._model.listen_to(colleague.format)
        self._talk.policy.consult(True)
        name = f"{self._leg.info.id[:8]} colleague->model"
        self._listening = self._group.create_task(self._hear(colleague), name=name)
        await self._model.send_text(briefing, role="system")
        await self._model.respond(tools=False)

    async def turn_back(self) -> None:
        self._talk.policy.consult(False)
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        cleared, unfinished = self._voice.silence()
        self._voice.turn_to(self._leg)
        self._model.listen_to(self._leg.format)
        self._ending.caller_paused()  # whoever spoke last was the colleague
        await self._interrupt(cleared, unfinished=unfinished)

    async def _hear(self, colleague: CallLeg) -> None:
        """Bring the colleague's voice to the model, until it turns back."""
        async for frame in colleague.frames():
            await self._model.hear(frame.audio)

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
                    await self._model.respond(
                        instructions=TIME_IS_OVER,
                        tools=False,
                    )
            case GoodbyeMissing(limit):
                self._ending.end(OwnEnd(limit))


async def _awaited(work: Awaitable[None]) -> None:
    await work
