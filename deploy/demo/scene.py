"""What the picture of a call shows, in seconds on the recording's clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pcm = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Turn:
    """Somebody speaks from ``begins`` to ``ends``."""

    begins: float
    ends: float
    text: str
    cut_short: bool = False


@dataclass(frozen=True, slots=True)
class ToolMark:
    """A tool call from its request to its answer."""

    begins: float
    ends: float
    tool: str
    outcome: str


@dataclass(frozen=True, slots=True)
class BargeInMark:
    """The caller interrupts: ``dropped`` seconds of the agent's answer were never played."""

    at: float
    note: str
    dropped: float


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the call's life: answered, REFER, BYE."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value for a card below the waveforms."""

    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Scene:
    """One call, ready to be drawn; both tracks are 8 kHz and begin at second 0."""

    title: str
    subtitle: str
    caller: Pcm
    agent: Pcm
    caller_turns: tuple[Turn, ...]
    agent_turns: tuple[Turn, ...]
    tools: tuple[ToolMark, ...]
    barge_ins: tuple[BargeInMark, ...]
    moments: tuple[Moment, ...]
    figures: tuple[Figure, ...]

    @property
    def seconds(self) -> float:
        return max(len(self.caller), len(self.agent)) / 8000
