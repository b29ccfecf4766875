"""
The mind of a fake model: what happened goes in, what to say and call comes out. No I/O, no clock.

Both fakes ask the same director, so a script means the same to both.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from providers.fakes.script import (
    Act,
    Call,
    OnCallerTurn,
    OnDtmf,
    OnGreeting,
    OnIdle,
    OnKnows,
    OnText,
    OnToolResult,
    Outcome,
    Script,
    Step,
)

_DTMF = re.compile(
    r"(?i:\b(?:dtmf|press(?:ed|es)?|keys?)\b)"  # the word that announces keys
    r"(?:[\s:,'\"]|(?i:\b(?:the|keys?|digits?)\b))*"
    r"([0-9*#A-D]+)(?!\w)"
)

MAX_PENDING = 256
"""What happened longer ago than this many events is forgotten, as a context window forgets."""


@dataclass(frozen=True, slots=True)
class CallerSpoke:
    """A turn of the caller is over; ``barged_in`` when it cut the model off."""

    barged_in: bool


@dataclass(frozen=True, slots=True)
class TextArrived:
    """A text was put into the conversation, or came with the request for an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """The result of a call is there."""

    tool: str
    output: str


@dataclass(frozen=True, slots=True)
class CallerWasIdle:
    """Nobody spoke for a long time."""


Stimulus: TypeAlias = CallerSpoke | TextArrived | ToolAnswered | CallerWasIdle


@dataclass(frozen=True, slots=True)
class Reaction:
    """What the model does now: ``acts`` in order, after ``after`` seconds of thought."""

    acts: tuple[Act, ...]
    after: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _Available:
    step: Step
    uses: int | None


def dtmf_keys(text: str) -> str:
    """Return the telephone keys that an injected text names (``"DTMF 5 pressed"`` gives ``"5"``)."""
    return "".join(_DTMF.findall(text))


class Director:
    """
    Plays one session of a script.

    :meth:`notice` what happens, then :meth:`react` when the model is to answer: that uses up what was
    noticed. :meth:`take_back` undoes the last reaction, for a response that failed unheard.
    """

    def __init__(self, script: Script, instructions: str) -> None:
        self._script = script
        self._scene = script.scene_for(instructions)
        self._available = _opened(self._scene.steps)
        self._pending: tuple[Stimulus, ...] = ()
        self._before: tuple[tuple[_Available, ...], tuple[Stimulus, ...]] = (self._available, ())
        self._turns = 0
        self._greeted = False
        self._known: deque[str] = deque(maxlen=MAX_PENDING)
        """Everything that was put in, for steps that want to know it."""

    def spoke_before(self) -> None:
        """
        Learn that the agent has spoken before this session, and of what it had heard until then.

        No greeting is due any more, and what was noticed so far has had its answer.
        """
        self._greeted = True
        self._pending = ()

    def instruct(self, instructions: str) -> None:
        """Take new instructions; when they belong to another scene, that one begins from its top."""
        scene = self._script.scene_for(instructions)
        if scene is not self._scene:
            self._scene, self._available = scene, _opened(scene.steps)

    def notice(self, stimulus: Stimulus) -> None:
        """Remember something until the next reaction."""
        self._pending = (*self._pending, stimulus)[-MAX_PENDING:]
        match stimulus:
            case TextArrived(text):
                self._known.append(text)
            case ToolAnswered(_, output):
                self._known.append(output)
            case _:
                pass  # nothing was told

    def transcript(self, *, barged_in: bool) -> str:
        """Return the words of the turn that is over now; call it once a turn."""
        self._turns += 1
        turn = (CallerSpoke(barged_in),)
        for available in self._available:
            if isinstance(available.step.on, OnCallerTurn) and _fits(available.step, turn):
                if available.step.heard is not None:
                    return available.step.heard
                break
        return f"Turn {self._turns} of the caller."

    def idle_after(self) -> float | None:
        """Return the shortest silence, in seconds, that a step waits for."""
        waits = [entry.step.on.after for entry in self._available if isinstance(entry.step.on, OnIdle)]
        return min(waits, default=None)

    def react(self, *, tools: bool = True) -> Reaction:
        """
        Choose the first step that fits what was noticed, and use it up.

        With ``tools=False`` calls are left out, and steps that only call do not fit.
        """
        self._before = (self._available, self._pending)
        happened, self._pending = self._pending, ()
        for index, available in enumerate(self._available):
            acts = _acts(available.step, tools=tools)
            if self._greeted and isinstance(available.step.on, OnGreeting):
                continue
            if self._fits(available.step, happened) and (acts or tools):
                self._use(index)
                return Reaction(acts, available.step.after, available.step.outcome)
        return Reaction(self._script.otherwise, 0.0, Outcome())

    def remark(self, texts: Iterable[str], *, tools: bool = True) -> Reaction:
        """React to ``texts`` alone, out of band: nothing that was noticed is used up."""
        happened = tuple(TextArrived(text) for text in texts)
        for index, available in enumerate(self._available):
            if isinstance(available.step.on, OnText) and _fits(available.step, happened):
                self._use(index)
                return Reaction(
                    _acts(available.step, tools=tools), available.step.after, available.step.outcome
                )
        return Reaction(self._script.otherwise, 0.0, Outcome())

    def take_back(self) -> None:
        """Undo the last :meth:`react`; what was noticed since then stays noticed."""
        self._available, happened = self._before
        self._pending = (*happened, *self._pending)[-MAX_PENDING:]
        self._before = (self._available, self._pending)

    def _fits(self, step: Step, happened: tuple[Stimulus, ...]) -> bool:
        if isinstance(step.on, OnKnows):
            return all(any(each.search(text) for text in self._known) for each in step.on.patterns)
        return _fits(step, happened)

    def _use(self, index: int) -> None:
        used = self._available[index]
        left = None if used.uses is None else used.uses - 1
        kept = () if left == 0 else (_Available(used.step, left),)
        self._available = (
            *_opened(used.step.then),
            *self._available[:index],
            *kept,
            *self._available[index + 1 :],
        )


def _opened(steps: Iterable[Step]) -> tuple[_Available, ...]:
    return tuple(_Available(step, step.uses) for step in steps)


def _acts(step: Step, *, tools: bool) -> tuple[Act, ...]:
    return step.acts if tools else tuple(act for act in step.acts if not isinstance(act, Call))


def _fits(step: Step, happened: tuple[Stimulus, ...]) -> bool:
    match step.on:
        case OnGreeting():
            return not any(isinstance(stimulus, CallerSpoke | ToolAnswered) for stimulus in happened)
        case OnCallerTurn(barge_in):
            turns = [stimulus for stimulus in happened if isinstance(stimulus, CallerSpoke)]
            return any(turn.barged_in or not barge_in for turn in turns)
        case OnDtmf(keys):
            pressed = "".join(dtmf_keys(text) for text in _texts(happened))
            return pressed.endswith(keys) if keys else bool(pressed)
        case OnText(pattern):
            return any(pattern.search(text) for text in _texts(happened))
        case OnToolResult(tools, output):
            answered = [stimulus for stimulus in happened if isinstance(stimulus, ToolAnswered)]
            return all(
                any(
                    answer.tool == tool and (output is None or output.search(answer.output))
                    for answer in answered
                )
                for tool in tools
            )
        case OnKnows():
            return False  # nothing that happens: see Director
        case OnIdle():
            return any(isinstance(stimulus, CallerWasIdle) for stimulus in happened)


def _texts(happened: Iterable[Stimulus]) -> list[str]:
    return [stimulus.text for stimulus in happened if isinstance(stimulus, TextArrived)]
