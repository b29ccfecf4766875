"""
Keeps watch over a call: nobody waits in silence, neither the caller for the agent nor the agent for a caller.

The thin shell around :mod:`gateway.calls.watchdog` and :mod:`gateway.calls.silence`: it tells them what
happens, wakes up at their deadlines, and has done what they say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from gateway.calls import events as ev
from gateway.calls.repair import Ask, Detected, Fault, Patience, Repaired, Rung, Settled, Step
from gateway.calls.report import Report
from gateway.calls.silence import Act, CallerSilence, SilenceLimits
from gateway.calls.watchdog import Watchdog
from gateway.legs.base import Cleared
from gateway.media.level import ear
from providers.types import (
    NO_ANSWER,
    AudioDone,
    AudioFormat,
    CallerTranscript,
    Capabilities,
    ProviderEvent,
    ProviderWarning,
    ResponseDone,
    SpeechStarted,
    SpeechStopped,
)

log = structlog.get_logger(__name__)

LISTEN_EVERY = 4
"""One in so many frames of the caller's is listened to: it tells speech from silence as well."""
LEAVE_S = 20.0
"""How long the agent may take for its last words."""
_LEAVING_TICK_S = 0.1
_SOON_S = 2.0
"""No deadline that audio of the model brings about is nearer than this."""
_NEVER = float("inf")
_DROPPED = frozenset({Fault.INAUDIBLE, Fault.BROKEN_OFF, Fault.STUCK})
"""What is queued at such a fault is of no use."""


class Ladder(Protocol):
    """Takes the steps of a repair (:class:`gateway.calls.recovery.Recovery`)."""

    def request(self, reason: str, *, at_least: Rung) -> None: ...

    def answered(self) -> None: ...


class Watched(Protocol):
    """The conversation that is watched (:class:`gateway.calls.bridge.Bridge`)."""

    @property
    def ends(self) -> bool:
        """Whether a terminal action is pending, or the agent speaks to somebody else."""
        ...

    @property
    def greets(self) -> bool:
        """Whether the caller is made to listen."""
        ...

    async def drop(self) -> Cleared:
        """Drop what is queued, and tell the model how much was heard."""
        ...

    async def ask(self, instructions: str) -> None:
        """Have the agent say something, without tools."""
        ...

    def take_leave(self, reason: str) -> None:
        """End the call."""
        ...


@dataclass(frozen=True, slots=True)
class VigilSettings:
    """What an agent's configuration says about silence."""

    patience: Patience
    silence: SilenceLimits
    nudge: str
    farewell: str


class Vigil:
    """
    Watches one call.

    Args:
        settings: The agent's.
        line: The format of both directions of the caller's line.
        capabilities: Of the first session.
        report: Takes the call's events.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        settings: VigilSettings,
        line: AudioFormat,
        capabilities: Capabilities,
        report: Report,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._dog = Watchdog(settings.patience, capabilities.turn_model)
        self._silence = CallerSilence(settings.silence, now=clock())
        self._is_audible = ear(line)
        self._bytes_per_ms = line.bytes_per_ms
        self._report = report
        self._clock = clock
        self._wake = asyncio.Event()
        self._armed = _NEVER
        self._skipped = 0
        self._leaving_since: float | None = None
        self._watched: Watched | None = None

    # What happens; each of these returns at once.

    def frame_sent(self, frame: bytes) -> None:
        """Take a frame that was really sent to the caller."""
        dog = self._dog
        if self._ends:
            dog.forget()
            return
        audible = self._is_audible(frame)
        dog.audio_left(len(frame) / self._bytes_per_ms, audible=audible, now=self._clock())
        if dog.has_steps:
            self._wake.set()

    def line_brought(self, frame: bytes) -> None:
        """Take a frame of the caller's."""
        self._skipped += 1
        if self._skipped < LISTEN_EVERY:
            return
        ms = self._skipped * len(frame) / self._bytes_per_ms
        self._skipped = 0
        if self._dog.line_brought(ms, audible=self._is_audible(frame), now=self._clock()):
            self._settle()

    def audio_came(self, ms: float) -> None:
        """Take note of model audio that was queued for the caller."""
        if self._ends:
            return
        now = self._clock()
        self._dog.audio_came(ms, now=now)
        if self._armed > now + _SOON_S:
            self._wake.set()

    def happened(self, event: ProviderEvent) -> None:
        """Take an event of the session that is no audio."""
        now, dog = self._clock(), self._dog
        match event:
            case SpeechStarted():
                dog.caller_started(now=now)
                self.caller_active()
            case SpeechStopped():
                dog.caller_stopped(now=now)
                self.caller_active()
            case CallerTranscript() if event.text:
                dog.caller_said(now=now)
                self.caller_active()
            case AudioDone():
                dog.audio_finished()
            case ResponseDone():
                if not self._ends:
                    dog.response_done(event.status, event.reason, now=now)
            case ProviderWarning(code=code) if code == NO_ANSWER and not self._ends:
                dog.no_answer(event.message, now=now)
            case _:
                return  # what the agent's words are is not for us
        self._settle()

    def interrupted(self) -> None:
        """Note that the session stopped the agent, because of the caller or not."""
        self._dog.interrupted(now=self._clock())
        self._settle()

    def caller_active(self) -> None:
        """Note that the caller does something, such as pressing a key."""
        self._silence.caller_active(now=self._clock())
        self._leaving_since = None

    def reply_due(self) -> None:
        """Note that the model was asked to speak."""
        self._dog.reply_due(now=self._clock())
        self._settle()

    def played(self, ms: float) -> None:
        """Note that a recording of ours was queued."""
        self._dog.play_own(ms, now=self._clock())

    def cleared(self) -> None:
        """Note that what was queued is gone."""
        self._dog.cleared(now=self._clock())

    def held(self, *, held: bool) -> None:
        """Note that the line is on hold, or is back."""
        now = self._clock()
        self._dog.hold(held=held, now=now)
        self._silence.active(now=now)
        self._settle()

    def tools_began(self) -> None:
        self._dog.tools_began()

    def tools_ended(self) -> None:
        now = self._clock()
        self._dog.tools_ended(now=now)
        self._silence.active(now=now)
        self._settle()

    def session_lost(self) -> None:
        """Note that another session is being opened."""
        self._dog.session_lost()

    def session_began(self, capabilities: Capabilities) -> None:
        """Note that another session speaks for the agent."""
        self._dog.session_began(capabilities.turn_model, now=self._clock())
        self._settle()

    def look(self) -> None:
        """Look at the clock now, whatever was thought to be due."""
        self._wake.set()

    @property
    def agent_busy(self) -> bool:
        """Whether the agent speaks or is about to, or works for the caller."""
        return self._dog.agent_busy

    @property
    def _ends(self) -> bool:
        return self._watched is None or self._watched.ends

    def _settle(self) -> None:
        """Wake up earlier where something is due earlier."""
        at = self._dog.next_timeout()
        if self._dog.has_steps or (at is not None and at < self._armed):
            self._wake.set()

    # The watch.

    async def run(self, watched: Watched, ladder: Ladder) -> None:
        """Watch; cancelled with the call."""
        self._watched = watched
        self._silence.active(now=self._clock())
        while True:
            self._wake.clear()
            await self._look(watched, ladder)
            self._armed = self._next()
            after = None if self._armed == _NEVER else max(self._armed - self._clock(), 0.0)
            try:
                async with asyncio.timeout(after):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _next(self) -> float:
        if self._leaving_since is not None:
            return self._clock() + _LEAVING_TICK_S
        return min(self._dog.next_timeout() or _NEVER, self._silence.next_timeout() or _NEVER)

    async def _look(self, watched: Watched, ladder: Ladder) -> None:
        now = self._clock()
        if watched.ends:
            self._dog.forget()
        self._dog.handle_timeout(now=now)  # a repair settles also while the call ends
        for step in self._dog.steps():
            await self._take(step, watched, ladder)
        await self._mind_the_caller(watched, now)

    async def _take(self, step: Step, watched: Watched, ladder: Ladder) -> None:
        match step:
            case Detected():
                waited_ms = round(step.waited * 1000)
                log.warning("call.silent", fault=step.fault.value, waited_ms=waited_ms, detail=step.detail)
                self._report(ev.ReplyMissed, step.fault.value, waited_ms, step.detail)
            case Ask():
                if step.fault in _DROPPED:
                    await watched.drop()
                ladder.request(step.fault.value, at_least=step.at_least)
            case Repaired():
                after_ms = round(step.after * 1000)
                log.info("call.heard_again", fault=step.fault.value, after_ms=after_ms)
                self._report(ev.ReplyHeard, step.fault.value, after_ms)
            case Settled():
                ladder.answered()

    async def _mind_the_caller(self, watched: Watched, now: float) -> None:
        silence = self._silence
        silence.active(now=self._dog.moved_at)
        if self._leaving_since is not None:
            await self._leave(watched, now, self._leaving_since)
            return
        if watched.ends or watched.greets or self._dog.waits:
            silence.active(now=now)
        match silence.handle_timeout(now=now):
            case Act.NUDGE:
                log.info("call.caller_silent", act="nudge")
                self._report(ev.CallerWasSilent, "nudge")
                await watched.ask(self._settings.nudge)
            case Act.HANG_UP:
                log.info("call.caller_silent", act="hang_up")
                self._report(ev.CallerWasSilent, "hang_up")
                self._leaving_since = now
                await watched.ask(self._settings.farewell)
            case None:
                pass

    async def _leave(self, watched: Watched, now: float, since: float) -> None:
        """End the call when the last words were heard; a caller who speaks meanwhile is there again."""
        if watched.ends:
            self._leaving_since = None
        elif not self._dog.waits or now - since >= LEAVE_S:
            self._leaving_since = None
            self._silence.stop()
            watched.take_leave("caller_silent")
