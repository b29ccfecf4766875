"""The gateway's own record of a call (``call.json``), as the demo reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One item of the agent; ``ended`` is when it was heard to its end or cut off."""

    ended: float
    text: str
    heard_ms: int
    total_ms: int

    @property
    def began(self) -> float:
        return self.ended - self.heard_ms / 1000


@dataclass(frozen=True, slots=True)
class CallerTurn:
    """One turn of the caller with its transcript."""

    began: float
    ended: float
    text: str


@dataclass(frozen=True, slots=True)
class Interruption:
    at: float
    heard_ms: int
    dropped_ms: int


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call and its answer."""

    began: float
    ended: float
    tool: str
    arguments: str
    status: str
    reason: str
    data: str
    """The answer's data as JSON text."""


@dataclass(frozen=True, slots=True)
class TransferStep:
    at: float
    state: str
    destination: str


@dataclass(frozen=True, slots=True)
class Record:
    """One call; times are seconds since it arrived, which was at ``wall_time`` (Unix time)."""

    call_id: str
    wall_time: float
    caller: str
    called: str
    agent: str
    answered: float
    ended: float
    reason: str
    by: str
    agent_turns: tuple[AgentTurn, ...]
    caller_turns: tuple[CallerTurn, ...]
    interruptions: tuple[Interruption, ...]
    tools: tuple[ToolUse, ...]
    transfer: tuple[TransferStep, ...]
    latencies_ms: tuple[int, ...]
    """From the caller's pause to the agent's first audio, once for each answer."""

    def uses_of(self, tool: str) -> list[ToolUse]:
        return [use for use in self.tools if use.tool == tool]
