"""
A call whose model fails goes on: another session takes over, and the caller is never left in silence.

Three things begin a recovery: the session is lost (:meth:`Recovery.lost`), nothing is heard where an answer
is due (:meth:`Recovery.request`, by whoever watches the line), or the provider says that it will end the
session (:meth:`Recovery.session_ending`). The steps of a request, each taken when the last brought nothing::

    nudge → re-create the response → fail over → apology, then the fallback number or a polite hang-up

Everything happens in the one task of :meth:`Recovery.run`, so that there is never more than one swap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import structlog

from config.recovery import AgentRecovery
from gateway.calls import events as ev
from gateway.calls.model import LiveModel, Wanted
from gateway.calls.opening import Opener, OpenSession
from gateway.calls.repair import Fault, Rung
from gateway.calls.report import Report
from providers.errors import ProviderError, SessionLost

log = structlog.get_logger(__name__)

FILL_AFTER_S = 0.6
"""Silence after which a caller who waits for speech hears the recording that bridges it."""
FILL_AGAIN_S = 4.0
MAX_FILLS = 3
TALKS_ON_S = 2.0
"""How long a caller is thought to be speaking of whom nobody tells us more."""
TICK_S = 0.05
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0
"""Between two rounds of tries in mid-call."""
QUIET_S = 0.3
"""How long nobody speaks before a planned hand-over."""
FORCE_S = 5.0
"""How long before the provider's deadline the hand-over happens, quiet or not."""
RETRY_S = 3.0
"""Between two tries of a planned hand-over."""

CONTINUE = (
    "A technical fault cut you off. The caller has heard just what stands above, and nothing after it. Go on "
    "exactly there. Do not greet again, and do not repeat what was said."
)
ANSWER = (
    "The caller has heard no answer yet, because of a technical fault. Answer now what was said last. Do not "
    "greet again."
)
AGAIN = "The caller has heard nothing of your last answer. Give it again, now."
PART_HEARD = frozenset({Fault.BROKEN_OFF, Fault.INCOMPLETE})
"""Reasons of a request that comes in the middle of an answer."""


class Step(StrEnum):
    """What was done; the words of records, logs and metrics."""

    LOST = "lost"
    NUDGED = "nudged"
    RECREATED = "recreated"
    FILLED = "filled"
    SWAPPED = "swapped"
    SPOKE_AGAIN = "spoke_again"
    HANDED_OVER = "handed_over"
    HAND_OVER_FAILED = "hand_over_failed"
    GAVE_UP = "gave_up"


@dataclass(frozen=True, slots=True)
class Situation:
    """Where the conversation stands."""

    unheard_ms: float
    """What the agent has said and the caller has not heard yet."""
    caller_speaks: bool
    reply_due: bool
    """Whether the caller waits for the agent's answer."""
    tools_run: bool
    silent: bool
    """Whether nothing more of the agent is to be heard: a terminal action is pending."""
    terminal: bool
    """Whether the call is about to end; a transfer that is pending may fail, and is not the end."""

    @property
    def sounds(self) -> bool:
        """Whether anybody is to be heard."""
        return self.unheard_ms > 0 or self.caller_speaks

    @property
    def quiet(self) -> bool:
        """Whether a session can be exchanged without anybody noticing."""
        return not (self.sounds or self.reply_due or self.tools_run or self.silent)


class Stage(Protocol):
    """The conversation, as a recovery sees it (:class:`gateway.calls.bridge.Bridge`)."""

    def situation(self) -> Situation: ...

    def break_off(self) -> bool:
        """Let what was received be heard, and say whether more of it was to come."""
        ...

    async def go_on_with(self, opened: OpenSession, told: int) -> None:
        """Take another session, which knows the history up to the version ``told``."""
        ...

    def fill(self, recording: bytes, item_id: str) -> None:
        """Play a recording to whom the agent speaks."""
        ...

    async def give_up(self, reason: str) -> None:
        """Apologise, and end or transfer the call."""
        ...


class Recovery:
    """
    Keeps the model of one call speaking.

    Args:
        model: What is swapped.
        opener: Opens other sessions.
        stage: The conversation.
        settings: The agent's.
        moment: The recording that bridges a pause, in the line's format.
        bytes_per_ms: Of that recording.
        report: Takes an event for each step.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        *,
        model: LiveModel,
        opener: Opener,
        stage: Stage,
        settings: AgentRecovery,
        moment: bytes,
        bytes_per_ms: int,
        report: Report,
        clock: Callable[[], float],
    ) -> None:
        self._model = model
        self._opener = opener
        self._stage = stage
        self._settings = settings
        self._moment = moment
        self._moment_s = len(moment) / bytes_per_ms / 1000
        self._report = report
        self._clock = clock
        self._wake = asyncio.Event()
        self._loss: SessionLost | None = None
        self._asked: tuple[Rung, str] | None = None
        self._next = Rung.NUDGE
        self._deadline: float | None = None
        self._busy = False
        self._doubted = False
        self._began = clock()
        """When the present session took over."""
        self._swaps = 0
        self._fills = 0
        self._moment_until = 0.0
        self._filling: asyncio.Task[None] | None = None
        self._speechless_since: float | None = None

    # What it is told; each returns at once.

    def lost(self, error: SessionLost) -> None:
        """The session is gone."""
        self._loss = error
        self._wake.set()

    def request(self, reason: str, *, at_least: Rung = Rung.NUDGE) -> None:
        """
        Do something: the caller hears nothing where speech is due.

        Ask again when the step brought nothing: each request goes one rung further, until :meth:`answered`.
        While a session is being replaced, a request is ignored.
        """
        if self._busy or self._loss is not None or self._asked is not None or self._next > Rung.GIVE_UP:
            return
        self._asked = max(self._next, at_least), reason
        self._wake.set()

    def answered(self) -> None:
        """The caller hears speech again: the next request begins with the first rung."""
        if self._next <= Rung.GIVE_UP:
            self._next = Rung.NUDGE

    def doubt(self) -> None:
        """The session has lost its connection and looks for another: a caller who waits hears something."""
        self._doubted = True
        there = self._stage.situation()
        waits = there.reply_due or there.tools_run or self._model.wanted is not None
        if waits and not there.silent:
            self._bridge_the_gap()

    def session_ending(self, after: float) -> None:
        """The provider will close the session in so many seconds."""
        self._deadline = self._clock() + after
        self._wake.set()

    @property
    def waits_for_speech(self) -> bool:
        """Whether the agent's next audio ends a pause; then :meth:`spoke` is to be called."""
        return self._speechless_since is not None

    def spoke(self) -> None:
        """The agent speaks again."""
        if self._speechless_since is not None:
            self._tell(Step.SPOKE_AGAIN, "", after=self._clock() - self._speechless_since)
            self._speechless_since = None
        self._doubted = False
        if self._filling is not None:
            self._filling.cancel()
            self._filling = None

    async def run(self) -> None:
        """Do what is asked for, one after the other; cancelled with the call."""
        async with asyncio.TaskGroup() as self._group:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._busy = True
                await self._work()
                self._busy = False

    async def _work(self) -> None:
        while True:
            if self._loss is not None:
                loss, self._loss, self._asked = self._loss, None, None
                self._opener.lost(self._model.provider, loss.code)
                self._tell(Step.LOST, loss.code or "unknown")
                await self._swap("session_lost", final=loss.final, again=True)
            elif self._asked is not None:
                (rung, reason), self._asked = self._asked, None
                await self._climb(rung, reason)
            elif self._deadline is not None:
                await self._hand_over(self._deadline)
            else:
                return

    # The steps of a request.

    async def _climb(self, rung: Rung, reason: str) -> None:
        if self._stage.situation().silent:
            return
        self._next = Rung(min(rung + 1, Rung.GIVE_UP))
        self._bridge_the_gap()
        model = self._model
        match rung:
            case Rung.NUDGE:
                self._tell(Step.NUDGED, reason)
                wanted = model.wanted or Wanted(None, tools=True)
                await model.respond(instructions=wanted.instructions, tools=wanted.tools)
            case Rung.RECREATE:
                self._tell(Step.RECREATED, reason)
                wanted = model.wanted or Wanted(None, tools=True)
                await model.interrupt(item_id="", heard_ms=0)
                await model.session.send_text(CONTINUE if reason in PART_HEARD else AGAIN, role="system")
                await model.respond(instructions=wanted.instructions, tools=wanted.tools)
            case Rung.FAIL_OVER:
                self._opener.lost(model.provider, reason)
                await self._swap(reason, final=False, again=False)
                self._next = min(self._next, Rung.FAIL_OVER)
            case Rung.GIVE_UP:
                await self._give_up(reason)

    # Another session.

    async def _swap(self, reason: str, *, final: bool, again: bool) -> None:
        """
        Go on with another session, or give up.

        Args:
            reason: A short stable word.
            final: Whether the same provider would end the same way.
            again: Whether the same provider is tried first, else last.
        """
        stage, model = self._stage, self._model
        model.suspend()
        broken = stage.break_off()
        if stage.situation().terminal:
            return  # the farewell is heard, and then the call is over
        if self._swaps >= self._settings.max_swaps:
            await self._give_up(reason)
            return
        self._swaps += 1
        there = stage.situation()
        due = broken or there.reply_due or model.wanted is not None
        if due or there.tools_run:  # who runs a tool owes an answer as well, when it is ready
            self._bridge_the_gap()
        found = await self._find(self._names(again=again), {model.provider} if final else set())
        if found is None:
            await self._give_up(reason)
            return
        opened, told = found
        await self._take(opened, told, broken=broken, due=due)
        self._tell(Step.SWAPPED, reason)

    async def _take(self, opened: OpenSession, told: int, *, broken: bool, due: bool) -> None:
        """Give the conversation to another session, which goes on where the caller was left."""
        model = self._model
        hears_it_itself = model.has_open_turn
        self._deadline, self._doubted = None, False
        self._began = self._clock()
        await self._stage.go_on_with(opened, told)
        if self._stage.situation().silent or hears_it_itself:
            return
        wanted = model.wanted
        if broken or (due and wanted is None):
            await model.session.send_text(CONTINUE if broken else ANSWER, role="system")
        if due or wanted is not None:
            wanted = wanted or Wanted(None, tools=True)
            await model.respond(instructions=wanted.instructions, tools=wanted.tools)

    def _names(self, *, again: bool) -> list[str]:
        """Return whom to ask in mid-call: who is known to answer first."""
        current = self._model.provider
        others = [name for name in self._opener.names if name != current]
        return [current, *others] if again else [*others, current]

    async def _find(self, names: list[str], barred: set[str]) -> tuple[OpenSession, int] | None:
        """Open a session of anybody, in rounds, with the history up to the version that comes with it."""
        until = self._clock() + self._settings.give_up_s
        pause_s = FIRST_PAUSE_S
        while True:
            for name in self._opener.order(names, urgent=True):
                left_s = until - self._clock()
                if left_s <= 0:
                    return None
                if name in barred:
                    continue
                found = await self._try(name, min(self._settings.attempt_s, left_s), barred)
                if found is not None:
                    return found
            if barred.issuperset(names) or until - self._clock() <= pause_s:
                return None
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _try(self, name: str, limit_s: float, barred: set[str]) -> tuple[OpenSession, int] | None:
        told = self._model.history.version
        try:
            async with asyncio.timeout(limit_s):
                return await self._opener.open(name, self._model.setup()), told
        except TimeoutError:
            self._opener.lost(name, "timeout")
            log.warning("provider.unavailable", provider=name, code="timeout", after_s=round(limit_s, 3))
        except ProviderError as error:
            if error.final:
                barred.add(name)
        return None

    async def _give_up(self, reason: str) -> None:
        self._next = Rung(Rung.GIVE_UP)
        self._tell(Step.GAVE_UP, reason)
        self._stop_filling()
        await self._stage.give_up(reason)

    # A planned hand-over.

    async def _hand_over(self, deadline: float) -> None:
        """Exchange the session at a quiet moment, or shortly before the deadline."""
        force_at = deadline - min(FORCE_S, (deadline - self._clock()) / 2)
        quiet_since: float | None = None
        # Providers whose sessions are short must not have us exchange them in every pause.
        not_before = 0.0 if self._doubted else self._began + (deadline - self._clock()) / 2
        while self._loss is None and self._asked is None:
            now, there = self._clock(), self._stage.situation()
            if there.terminal:
                self._deadline = None  # the session that says the farewell says it to its end
                return
            quiet_since = (quiet_since or now) if there.quiet else None
            forced = now >= force_at
            waits = self._doubted and self._model.wanted is not None and not there.sounds
            quiet = quiet_since is not None and now - quiet_since >= QUIET_S
            ready = (quiet or waits) and now >= not_before
            if (forced or ready) and await self._exchange(forced=forced):
                return
            if forced:
                self._deadline = None  # the loss that comes is a loss like any other
                return
            if ready:
                not_before = self._clock() + RETRY_S
            self._busy = False  # who waits for a quiet moment has time for a caller who hears nothing
            await asyncio.sleep(TICK_S)
            self._busy = True

    async def _exchange(self, *, forced: bool) -> bool:
        """Open the next session; take it if the moment is still a good one."""
        model, stage = self._model, self._stage
        found = None
        for name in self._opener.order(self._names(again=True), urgent=True):
            found = await self._try(name, self._settings.attempt_s, set())
            if found is not None:
                break
        if found is None:
            self._tell(Step.HAND_OVER_FAILED, "session_ending")
            return False
        opened, told = found
        there = stage.situation()
        undisturbed = there.quiet and model.history.version == told
        if self._loss is not None or there.terminal or not (forced or undisturbed):
            opened.close()
            return False
        model.suspend()
        broken = stage.break_off()
        due = broken or stage.situation().reply_due or model.wanted is not None
        await self._take(opened, told, broken=broken, due=due and forced)
        self._tell(Step.HANDED_OVER, "session_ending")
        return True

    # What the caller hears meanwhile.

    def _bridge_the_gap(self) -> None:
        """Have the caller hear something as soon as there would be silence, until the agent speaks."""
        if self._speechless_since is None:
            self._speechless_since = self._clock()
        if self._filling is None and self._moment:
            self._filling = self._group.create_task(self._fill(), name="moment")

    def _stop_filling(self) -> None:
        if self._filling is not None:
            self._filling.cancel()
            self._filling = None

    async def _fill(self) -> None:
        after_s = FILL_AFTER_S
        for _ in range(MAX_FILLS):
            await self._silence(after_s)
            self._fills += 1
            self._stage.fill(self._moment, f"moment-{self._fills}")
            self._moment_until = self._clock() + self._moment_s
            self._tell(Step.FILLED, "")
            after_s = FILL_AGAIN_S

    async def _silence(self, after_s: float) -> None:
        """Wait until nothing was to be heard for so long."""
        began, since = self._clock(), None
        while since is None or self._clock() - since < after_s:
            await asyncio.sleep(TICK_S)
            now, there = self._clock(), self._stage.situation()
            sounds = there.unheard_ms > 0 or now < self._moment_until
            busy = sounds or (there.caller_speaks and now - began < TALKS_ON_S)
            if busy or there.silent:
                since = None
            elif since is None:
                since = now

    def _tell(self, step: Step, reason: str, *, after: float | None = None) -> None:
        provider = self._model.provider
        after_ms = None if after is None else round(after * 1000)
        log.info("recovery.step", step=step.value, reason=reason, provider=provider, after_ms=after_ms)
        self._report(ev.RecoveryStepTaken, step.value, reason, provider, after_ms)
