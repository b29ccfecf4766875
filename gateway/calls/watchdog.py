"""
The silent-call watchdog (no I/O, time is an argument): no caller waits in silence for an answer.

It watches what really *leaves* for the caller, and knows when a reply of the model is due: after a turn of
the caller, after the results of tools, after every request to speak. Some things are a fault at once: a
response that failed, that ended without audio, that was rejected; audio that flows and cannot be heard; an
utterance that stops half way; audio that is queued and does not leave. To think is none, for as long as
:class:`Patience` says. Nothing is due while the caller speaks, a tool runs, the line is on hold, or the call
is being ended or transferred.

Whoever owns the watchdog tells it what happens, takes :meth:`Watchdog.steps`, has the next step of the ladder
taken (:mod:`gateway.calls.recovery`) when it is asked for, and comes back at :meth:`Watchdog.next_timeout`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.calls.repair import Ask, Detected, Fault, Patience, Repaired, Rung, Settled, Step, judge, pause
from providers.types import ResponseStatus, TurnModel

HEARD_MS = 40
"""So much audible audio is an answer; less is a click."""
SWAPS = 2
"""Sessions that are tried for one reply, before the caller is told that there is a problem."""
_LATE_WORDS_S = 3.0
"""A transcript that comes so soon after the agent was heard belongs to the turn that was being answered."""
_TURN_MS, _UNTOLD_MS = 300, 800
"""So much audible sound is a turn of the caller, not a cough; more where the session tells of turns."""
_TURN_END_S = 0.8
"""A line that is quiet for so long has ended a turn."""
_NEVER = float("-inf")


@dataclass(slots=True)
class _Episode:
    """A fault from its detection to the next time that the agent is heard."""

    fault: Fault
    at: float
    ask_at: float | None = None
    """When to ask for the next step; ``None`` when it was taken."""
    again_at: float = 0.0
    """When the next one may follow."""
    swaps: int = 0


class Watchdog:
    """
    Watches one call.

    Args:
        patience: Limits.
        turn_model: Of the session; it decides what silence can be seen to be a fault.
    """

    def __init__(self, patience: Patience, turn_model: TurnModel) -> None:
        self._patience = patience
        self._turn_model = turn_model
        self._off = False
        self._swapping = False
        self._held = False
        self._steps: list[Step] = []
        self._episode: _Episode | None = None
        self._settled_at: float | None = None
        # What is owed.
        self._due: float | None = None
        self._since = 0.0
        """From when on patience counts."""
        self._allowance = 0.0
        self._speaking = False
        self._tells_turns = False
        """Whether this session has ever said that the caller speaks."""
        self._voice_at = _NEVER
        """When the line brought something that could be heard, or words of the caller were written down."""
        self._voice_ms = 0.0
        self._stopped_at = _NEVER
        """When the provider said last that a turn was over."""
        self._tools = 0
        # What leaves.
        self._queued_ms = 0.0
        self._skip_ms = 0.0
        """Of what leaves next, so much was queued before the reply became due, or is our own."""
        self._open = False
        """More of the utterance must come."""
        self._moved_at = _NEVER
        """When audio came or left last."""
        self._heard_at = _NEVER
        """When something audible of the model left last."""
        self._sounded_ms = 0.0
        self._mute_ms = 0.0
        # Since the last response ended.
        self._spoke = False
        self._called = False
        self._cut = False
        """The model says that it was interrupted: what it was doing may end without a sound."""

    # The call.

    def reply_due(self, *, now: float) -> None:
        """Note that the model was asked to speak."""
        self._owe(now)

    def play_own(self, ms: float, *, now: float) -> None:
        """Note that so much audio of ours was queued, which is no reply of the model."""
        self._skip_ms = self._queued_ms = self._queued_ms + ms
        self._moved_at = now

    def hold(self, *, held: bool, now: float) -> None:
        """Note that the line is on hold, where nothing leaves, or is back."""
        self._held = held
        self._since = self._moved_at = now

    def cleared(self, *, now: float) -> None:
        """Note that everything that was queued is gone."""
        self._queued_ms = self._skip_ms = 0.0
        self._open = False
        self._since = min(self._since, now)

    def forget(self) -> None:
        """Note that no reply is due any more: the call ends, or the caller is handed over."""
        self._due = self._episode = None
        self._open = self._speaking = False
        self._queued_ms = self._skip_ms = 0.0

    def stop(self) -> None:
        """Watch no more: somebody else speaks to the caller."""
        self.forget()
        self._off = True

    def session_lost(self) -> None:
        """Note that there is no session, and that another one is being opened."""
        self._swapping = True
        self._open = False

    def session_began(self, turn_model: TurnModel, *, now: float) -> None:
        """Note that another session goes on with the conversation; what was due still is."""
        self._turn_model = turn_model
        self._tells_turns = self._speaking = self._open = self._swapping = False
        self._spoke = self._called = self._cut = False
        self._since, self._allowance = now, 0.0
        if self._episode is not None:
            self._episode.swaps += 1
            self._episode.ask_at, self._episode.again_at = None, now + self._patience.again

    # The caller.

    def caller_started(self, *, now: float) -> None:
        """Note that the provider hears the caller speak."""
        self._tells_turns = self._speaking = True
        self._since = self._voice_at = now
        self._due = None
        self._end_episode(now)

    def caller_stopped(self, *, now: float) -> None:
        """Note that the provider says that the caller's turn is over."""
        self._tells_turns, self._speaking = True, False
        self._stopped_at = now
        self._end_episode(now)
        self._owe(now)

    def interrupted(self, *, now: float) -> None:
        """Note that the model stopped speaking because of the caller, or says so."""
        self.cleared(now=now)
        if not self._speaking:
            self._owe(now, allowance=self._patience.turn)
            self._voice_at = now
            self._cut = not self._tells_turns

    def line_brought(self, ms: float, *, audible: bool, now: float) -> bool:
        """Note a piece of what the line brings, from time to time; say whether a reply is due by it."""
        if audible:
            self._voice_ms += ms
            self._voice_at = now
        elif self._voice_ms and now - self._voice_at > _TURN_END_S:
            was_turn = self._voice_ms >= (_UNTOLD_MS if self._tells_turns else _TURN_MS)
            self._voice_ms = 0.0
            unanswered = self._heard_at < self._voice_at and not self._open and self._due is None
            if was_turn and unanswered and not self._speaking and self._stopped_at < self._voice_at:
                self._owe(now, allowance=self._patience.turn)
                return True
        return False

    def caller_said(self, *, now: float) -> None:
        """Note that the provider wrote down words of the caller."""
        self._voice_at = now
        if self._tells_turns or self._due is not None or self._open:
            return
        if now - self._heard_at > _LATE_WORDS_S:
            self._owe(now, allowance=self._patience.turn)

    # The model.

    def audio_came(self, ms: float, *, now: float) -> None:
        """Note audio of the model that was queued for the caller; on the audio path."""
        self._spoke, self._cut = True, False
        self._open = self._turn_model is not TurnModel.DUPLEX  # there is no end of an utterance there
        self._queued_ms += ms
        self._moved_at = now

    def audio_left(self, ms: float, *, audible: bool, now: float) -> None:
        """Note a frame that was really sent; on the audio path."""
        self._moved_at = now
        self._queued_ms = max(self._queued_ms - ms, 0.0)
        if self._skip_ms > 0:
            self._skip_ms -= ms
        elif audible:
            self._mute_ms = 0.0
            self._sounded_ms += ms
            self._heard_at = now
            if self._due is not None and self._sounded_ms >= HEARD_MS:
                self._reply_heard(now)
        elif self._turn_model is not TurnModel.DUPLEX and not self._speaking:
            self._mute_ms += ms
            limit = self._patience.inaudible if self._due is not None else self._patience.hush
            if self._mute_ms >= limit * 1000:
                self._mute_ms = 0.0
                self._detect(Fault.INAUDIBLE, now)

    def audio_finished(self) -> None:
        """Note that an utterance is complete."""
        self._open = False

    def tools_began(self) -> None:
        """Note that the model called tools: that is its reply."""
        self._tools += 1
        self._called = True
        self._due = None

    def tools_ended(self, *, now: float) -> None:
        """Note that they were answered."""
        self._tools -= 1
        self._since = self._moved_at = now

    def response_done(self, status: ResponseStatus, reason: str, *, now: float) -> None:
        """Judge how a response ended."""
        spoke, called = self._spoke, self._called or self._cut
        self._spoke = self._called = self._cut = self._open = False
        if self._speaking or self._held or self._swapping:
            return  # what the caller says now gets an answer of its own
        fault = judge(status, reason, spoke=spoke, called=called, due=self._due is not None)
        if fault is not None:
            self._detect(fault, now, detail=reason)

    def no_answer(self, reason: str, *, now: float) -> None:
        """Note that the session says that no answer will come."""
        if self._due is not None and not self._speaking:
            self._detect(Fault.FAILED, now, detail=reason)

    # Outputs.

    @property
    def agent_busy(self) -> bool:
        """Whether the agent speaks or is about to, or works for the caller."""
        speaks = self._due is not None or self._open or self._queued_ms > 0
        return speaks or self._tools > 0 or self._swapping

    @property
    def waits(self) -> bool:
        """Whether nobody can expect the caller to say something now."""
        return self.agent_busy or self._speaking or self._held

    @property
    def moved_at(self) -> float:
        """When audio came or left last."""
        return self._moved_at

    @property
    def has_steps(self) -> bool:
        return bool(self._steps)

    def steps(self) -> list[Step]:
        """Take what there is to tell and to do, in order."""
        steps, self._steps = self._steps, []
        return steps

    # Time.

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never; calling early is harmless."""
        return min((at for at, _ in self._deadlines()), default=None)

    def handle_timeout(self, *, now: float) -> None:
        """Find what is due."""
        for at, fault in self._deadlines():
            if at > now:
                continue
            if fault is not None:
                self._detect(fault, now)
            elif self._episode is not None:
                self._ask(self._episode, now)
            else:
                self._settled_at = None
                self._steps.append(Settled())
            return

    def _deadlines(self) -> list[tuple[float, Fault | None]]:
        """Say what comes when; ``None`` is something that was put off."""
        if self._off or self._held or self._swapping:
            return []
        patience, episode = self._patience, self._episode
        if episode is not None and episode.ask_at is not None:
            return [(episode.ask_at, None)]
        found: list[tuple[float, Fault | None]] = []
        if episode is None and self._settled_at is not None:
            found.append((self._settled_at, None))
        if self._queued_ms > 0:
            found.append((self._moved_at + patience.stuck, Fault.STUCK))
        if self._tools:
            pass
        elif self._open and self._queued_ms <= 0 and not self._speaking:
            found.append((self._moved_at + patience.gap, Fault.BROKEN_OFF))
        elif (self._due is not None or self._speaking) and not self._answers:
            found.append((self._reply_deadline(), Fault.NO_AUDIO))
        if episode is not None:
            return [(max(at, episode.again_at), fault) for at, fault in found]
        return found

    @property
    def _answers(self) -> bool:
        """Whether audio of the answer is on its way; what becomes of it is another question."""
        return self._queued_ms > self._skip_ms and self._turn_model is not TurnModel.DUPLEX

    def _reply_deadline(self) -> float:
        patience = self._patience
        if self._episode is not None:
            return self._since + patience.gap
        since, wait = self._since, patience.reply + self._allowance
        if self._speaking:
            # Nobody has said that the turn is over; the line itself tells how long it has been quiet.
            return max(since, self._voice_at) + wait + patience.turn
        if not self._tells_turns:
            since = max(since, self._voice_at)
        return since + wait

    # Inside.

    def _owe(self, now: float, *, allowance: float = 0.0) -> None:
        if self._off:
            return
        if self._due is None:
            self._due = now
            self._sounded_ms = self._mute_ms = 0.0
            self._skip_ms = self._queued_ms  # what was said before is no answer
        self._since = now + self._skip_ms / 1000
        self._allowance = allowance

    def _reply_heard(self, now: float) -> None:
        episode, self._due = self._episode, None
        self._end_episode(now)
        if episode is not None:
            self._steps.append(Repaired(episode.fault, now - episode.at))

    def _end_episode(self, now: float) -> None:
        if self._episode is not None:
            self._episode = None
            self._settled_at = now + self._patience.settled

    def _detect(self, fault: Fault, now: float, *, detail: str = "") -> None:
        """Find a fault: it is new, or the last step was of no use."""
        episode = self._episode
        if self._off or self._swapping or (episode is not None and episode.ask_at is not None):
            return
        if self._due is None:
            self._due = now
        if episode is None:
            self._steps.append(Detected(fault, now - self._due, detail))
            self._episode = episode = _Episode(fault, now)
        episode.ask_at = now + pause(fault, detail, self._patience)
        self._sounded_ms = self._mute_ms = 0.0
        self._skip_ms = self._queued_ms
        if episode.ask_at <= now:
            self._ask(episode, now)

    def _ask(self, episode: _Episode, now: float) -> None:
        self._since, self._allowance = now + self._queued_ms / 1000, 0.0
        episode.ask_at, episode.again_at = None, now + self._patience.again
        at_least = Rung.NUDGE if episode.fault is Fault.NO_AUDIO else Rung.RECREATE
        if episode.swaps >= SWAPS:
            at_least = Rung.GIVE_UP
        self._steps.append(Ask(episode.fault, at_least))
