"""What a caller does in one call, as steps; and the three calls of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Listen:
    """Wait until the agent has spoken and then been silent for ``quiet`` seconds."""

    quiet: float = 0.8


@dataclass(frozen=True, slots=True)
class Say:
    """Speak one line of ``audio/lines.tsv``."""

    line: str


@dataclass(frozen=True, slots=True)
class BargeIn:
    """Speak while the agent speaks: once ``after`` seconds of its turn were heard."""

    line: str
    after: float = 1.0


@dataclass(frozen=True, slots=True)
class TakeTransfer:
    """Wait for REFER, report 100 and then the outcome, and wait for the BYE."""

    outcome: str = "200 OK"


@dataclass(frozen=True, slots=True)
class AwaitBye:
    """Wait until the gateway hangs up."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """Send BYE."""


Step: TypeAlias = Listen | Say | BargeIn | TakeTransfer | AwaitBye | HangUp

STORIES: dict[str, tuple[Step, ...]] = {
    "first": (
        Listen(),
        Say("hours"),
        BargeIn("interrupt"),
        Listen(),
        Say("thanks"),
        AwaitBye(),
    ),
    "transfer": (Listen(), Say("sales"), TakeTransfer()),
    "transfer_busy": (Listen(), Say("sales"), TakeTransfer("486 Busy Here"), Listen(), HangUp()),
    "refused": (Listen(), Say("neighbour"), Listen(), Say("thanks"), AwaitBye()),
    "short": (Listen(), HangUp()),
}
"""Named on the command line; the demo plays ``first``, ``transfer`` and ``refused``."""


def without_barge_in(story: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the story of a patient caller, who waits for the end of each answer."""
    patient: list[Step] = []
    for step in story:
        patient += [Listen(), Say(step.line)] if isinstance(step, BargeIn) else [step]
    return tuple(patient)
