"""The gateway's own record of a call (``call.json``), as the demo reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.evidence import EvidenceError, Json, as_list, as_map, as_number, load


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One item of the agent, until it was heard to its end or cut off."""

    began: float
    ended: float
    text: str
    heard_ms: int
    total_ms: int
    interrupted: bool


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


def read_record(path: Path) -> Record:
    """Read ``call.json``; raises :exc:`EvidenceError` when it is not what it should be."""
    data = load(path)
    try:
        return _record(data)
    except KeyError as error:
        raise EvidenceError(f"{path.name} has no {error.args[0]}") from None


def _record(data: dict[str, Json]) -> Record:
    turns = [as_map(entry) for entry in as_list(data["transcript"])]
    return Record(
        call_id=str(data["call_id"]),
        wall_time=as_number(data["wall_time"]),
        caller=str(data["caller"]),
        called=str(data["called"]),
        agent=str(data["agent"]),
        answered=as_number(data["answered"]),
        ended=as_number(data["ended"]),
        reason=str(data["reason"]),
        by=str(data["by"]),
        agent_turns=tuple(_agent_turn(entry) for entry in turns if entry["who"] == "agent"),
        caller_turns=tuple(
            CallerTurn(as_number(entry["began"]), as_number(entry["ended"]), str(entry["text"]))
            for entry in turns
            if entry["who"] == "caller"
        ),
        interruptions=tuple(
            Interruption(as_number(e["at"]), int(as_number(e["heard_ms"])), int(as_number(e["dropped_ms"])))
            for e in map(as_map, as_list(data["barge_ins"]))
        ),
        tools=tuple(_tool(entry) for entry in map(as_map, as_list(data["tool_calls"]))),
        transfer=tuple(
            TransferStep(as_number(entry["at"]), str(entry["state"]), str(entry["destination"]))
            for entry in map(as_map, as_list(data["transfer"]))
        ),
        latencies_ms=tuple(
            int(as_number(value)) for value in as_list(as_map(data["latency"])["first_audio_ms"])
        ),
    )


def _agent_turn(entry: dict[str, Json]) -> AgentTurn:
    return AgentTurn(
        began=as_number(entry["began"]),
        ended=as_number(entry["ended"]),
        text=str(entry["text"]),
        heard_ms=int(as_number(entry["heard_ms"])),
        total_ms=int(as_number(entry["total_ms"])),
        interrupted=bool(entry["interrupted"]),
    )


def _tool(entry: dict[str, Json]) -> ToolUse:
    ended = entry["ended"]
    began = as_number(entry["began"])
    return ToolUse(
        began=began,
        ended=began if ended is None else as_number(ended),
        tool=str(entry["tool"]),
        arguments=str(entry["arguments"]),
        status=str(entry["status"]),
        reason=str(entry["reason_code"]),
        data=json.dumps(entry["data"], ensure_ascii=False),
    )
