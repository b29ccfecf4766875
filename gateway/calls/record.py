"""
The record of one call (no I/O): what ``call.json`` says.

All times are seconds since the call arrived, on the clock of the audio file. The transcript stands in
the order in which the turns began, and says of each agent turn what was really heard.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import median

from gateway.calls.cost import TOKENS, Bill, dollars
from gateway.calls.events import (
    AgentSaid,
    BargedIn,
    CallAnswered,
    CallEnded,
    CallerSaid,
    CallerSpeech,
    CallerTurn,
    CallerWasSilent,
    CallEvent,
    CallStarted,
    CostChanged,
    DtmfHeard,
    FirstAudio,
    LimitTold,
    MediaMeasured,
    RecoveryStepTaken,
    ReplyHeard,
    ReplyMissed,
    ToolAnswered,
    ToolCalled,
    TransferChanged,
)
from gateway.media.quality import MediaQuality
from tools.types import JsonValue

VERSION = 1
_ENTRIES = 10_000
"""Entries of a record at most; a call that goes on longer says how many were left out."""
_ARGUMENTS = 65_536
"""Characters of a tool call's arguments that are kept; the dispatcher takes no more either."""
_TRANSCRIPT_AFTER_S = 8.0
"""A turn without a transcript for so long never gets one."""
_HEARD_WHOLE_MS = 60
"""An item of which so little is missing was heard to its end."""

Entry = dict[str, JsonValue]


class CallRecord:
    """
    Collects the events of a call.

    Args:
        started: Its first event.
    """

    def __init__(self, started: CallStarted) -> None:
        self._started = started
        self._provider = ""
        self._answered: float | None = None
        self._ended: CallEnded | None = None
        self._transcript: list[Entry] = []
        self._tools: dict[str, Entry] = {}
        self._barge_ins: list[Entry] = []
        self._dtmf: list[Entry] = []
        self._recovery: list[Entry] = []
        self._transfer: list[Entry] = []
        self._missed: list[Entry] = []
        self._caller_silent: list[Entry] = []
        self._first_audio: list[int] = []
        self._speech_began: float | None = None
        self._spoken: list[tuple[float, float]] = []
        self._turns: dict[str, tuple[float, float]] = {}
        self._said: dict[str, Entry] = {}
        self._media: MediaQuality | None = None
        self._bill = Bill()
        self._limits: list[Entry] = []
        self._entries = 0
        self._left_out = 0

    def add(self, event: CallEvent) -> None:
        """Take one event; audio is not for the record."""
        if isinstance(event, CallEnded):
            self._ended = event
        elif isinstance(event, CostChanged):
            self._bill = event.bill
        elif self._entries >= _ENTRIES:
            self._left_out += 1
        else:
            self._entries += 1
            self._add(event)

    def _add(self, event: CallEvent) -> None:
        match event:
            case CallAnswered():
                self._provider, self._answered = event.provider, event.at
            case CallerSpeech():
                self._speech(event)
            case CallerTurn():
                self._turns[event.item_id] = self._take_spoken(event.at)
            case CallerSaid():
                self._caller_said(event)
            case AgentSaid():
                self._agent_said(event)
            case BargedIn():
                self._barge_ins.append(_barged_in(event))
            case RecoveryStepTaken():
                self._recovery.append(_recovered(event))
            case ReplyMissed():
                self._missed.append(_missed(event))
            case ReplyHeard():
                if self._missed:
                    self._missed[-1]["heard_after_ms"] = event.after_ms
            case CallerWasSilent():
                self._caller_silent.append({"at": _s(event.at), "act": event.act})
            case DtmfHeard():
                self._dtmf.append({"at": _s(event.at), "digit": event.digit})
            case LimitTold():
                self._limits.append(_limit(event))
            case MediaMeasured():
                self._media = event.quality
            case FirstAudio():
                self._first_audio.append(event.latency_ms)
            case ToolCalled():
                self._tools[event.tool_call_id] = {
                    "id": event.tool_call_id,
                    "tool": event.tool,
                    "began": _s(event.at),
                    "ended": None,
                    "arguments": event.arguments[:_ARGUMENTS],
                    "status": None,
                    "reason_code": "",
                    "data": {},
                }
            case ToolAnswered():
                self._tool_answered(event)
            case TransferChanged():
                self._transfer.append(
                    {
                        "at": _s(event.at),
                        "state": event.state,
                        "destination": event.destination,
                        "status": event.status,
                        "reason": event.reason,
                        "method": event.method,
                    }
                )
            case _:
                pass  # audio, and the start that is known

    def _speech(self, event: CallerSpeech) -> None:
        if event.started:
            self._speech_began = event.at
        elif self._speech_began is not None:
            self._spoken.append((self._speech_began, event.at))
            self._speech_began = None

    def _caller_said(self, event: CallerSaid) -> None:
        """
        Write a turn down under its item; a later transcript of the same item replaces the first.

        A turn without a word was noise and is not written down; one whose transcription failed is.
        """
        known = self._said.get(event.item_id)
        if known is not None:
            known.update(text=event.text, partial=event.partial)
            return
        known_turn = event.item_id in self._turns
        began, ended = self._turns.pop(event.item_id) if known_turn else self._take_spoken(event.at)
        if not event.text.strip() and not event.partial:
            return
        entry: Entry = {
            "who": event.party,
            "began": _s(began),
            "ended": _s(ended),
            "item_id": event.item_id,
            "text": event.text,
            "partial": event.partial,
        }
        self._transcript.append(entry)
        if event.item_id:
            self._said[event.item_id] = entry

    def _take_spoken(self, at: float) -> tuple[float, float]:
        """
        Say when a turn was spoken that is told of now.

        That may be a little later, when the next turn is over as well: the oldest turn is meant, but for
        those that were never written down.
        """
        recent = [spoken for spoken in self._spoken if at - spoken[1] <= _TRANSCRIPT_AFTER_S]
        found = recent.pop(0) if recent else (at, at)
        self._spoken = recent
        return found

    def _agent_said(self, event: AgentSaid) -> None:
        began = max(event.at - event.heard_ms / 1000, 0.0) if event.began is None else event.began
        whole = event.heard_ms >= event.total_ms - _HEARD_WHOLE_MS
        self._transcript.append(
            {
                "who": "agent",
                "to": event.party,
                "began": _s(began),
                "ended": _s(min(began + event.heard_ms / 1000, event.at)),
                "item_id": event.item_id,
                "text": event.text,
                "heard": event.text if whole else heard_part(event.text, event.heard_ms, event.total_ms),
                "heard_ms": event.heard_ms,
                "total_ms": event.total_ms,
                "interrupted": not whole,
            }
        )

    def _tool_answered(self, event: ToolAnswered) -> None:
        entry = self._tools.setdefault(
            event.tool_call_id,
            {"id": event.tool_call_id, "tool": event.tool, "began": _s(event.at), "arguments": ""},
        )
        entry.update(
            ended=_s(event.at),
            status=str(event.status),
            reason_code=event.reason_code,
            data=event.data,
        )

    def to_json(
        self,
        *,
        audio: Mapping[str, JsonValue] | None,
        dropped_events: int,
        recording_failed: str | None = None,
    ) -> Entry:
        """
        Return the record.

        Args:
            audio: What is known of the audio file; ``None`` where there is none.
            dropped_events: How many of the call's events the recorder has lost.
            recording_failed: Why the audio file is not whole, if it is not.
        """
        started, ended = self._started, self._ended
        record = {
            "version": VERSION,
            "call_id": started.call_id,
            "caller": started.caller,
            "called": started.called,
            "trunk": started.trunk,
            "parameters": dict(started.parameters),
            "agent": started.agent,
            "organization": started.organization,
            "provider": self._provider,
            "codec": started.format.encoding,
            "started_at": datetime.fromtimestamp(started.wall_time, UTC).isoformat(timespec="milliseconds"),
            "wall_time": started.wall_time,
            "answered": None if self._answered is None else _s(self._answered),
            "ended": None if ended is None else _s(ended.at),
            "reason": "unknown" if ended is None else ended.reason,
            "by": "" if ended is None else ended.by,
            "transcript": [*sorted(self._transcript, key=_began)],
            "tool_calls": list(self._tools.values()),
            "barge_ins": list(self._barge_ins),
            "dtmf": list(self._dtmf),
            "recovery": list(self._recovery),
            "missed_replies": list(self._missed),
            "caller_silent": list(self._caller_silent),
            "transfer": list(self._transfer),
            "limits": list(self._limits),
            "latency": self._latency(),
            "cost": cost_entry(self._bill),
            "media": None if self._media is None else self._media.figures(),
            "audio": audio,
            "recording_failed": recording_failed,
            "dropped_events": dropped_events,
            "left_out": self._left_out,
        }
        return {key: plain(value) for key, value in record.items()}

    def _latency(self) -> Entry:
        first = self._first_audio
        return {
            "setup_ms": None if self._answered is None else round(self._answered * 1000),
            "first_audio_ms": list(first),
            "first_audio_median_ms": round(median(first)) if first else None,
            "first_audio_worst_ms": max(first, default=None),
        }


def _limit(event: LimitTold) -> Entry:
    return {
        "at": _s(event.at),
        "limit": event.limit,
        "reached": event.reached,
        "used": event.used,
        "allowed": event.allowed,
    }


def cost_entry(bill: Bill) -> Entry:
    """
    Return a bill as JSON: US dollars to the millionth, ``null`` where the cost is unknown.

    ``known_usd`` is what the priced part costs.
    """
    return {
        "usd": dollars(bill.total),
        "known_usd": dollars(bill.known),
        "models": [
            {
                "provider": line.provider,
                "model": line.model,
                "tokens": {name: getattr(line.usage, name) for name in TOKENS},
                "seconds": _s(line.usage.seconds),
                "usd": dollars(line.cost),
            }
            for line in bill.lines
        ],
    }


def _recovered(event: RecoveryStepTaken) -> Entry:
    return {
        "at": _s(event.at),
        "step": event.step,
        "reason": event.reason,
        "provider": event.provider,
        "after_ms": event.after_ms,
    }


def _barged_in(event: BargedIn) -> Entry:
    return {
        "at": _s(event.at),
        "item_id": event.item_id,
        "heard_ms": event.heard_ms,
        "dropped_ms": event.dropped_ms,
    }


def _missed(event: ReplyMissed) -> Entry:
    return {
        "at": _s(event.at),
        "fault": event.fault,
        "waited_ms": event.waited_ms,
        "detail": event.detail,
        "heard_after_ms": None,
    }


def heard_part(text: str, heard_ms: int, total_ms: int) -> str:
    """Estimate which words of ``text`` were heard, by the share of the time; whole words only."""
    if heard_ms <= 0 or total_ms <= 0:
        return ""
    share = min(heard_ms / total_ms, 1.0)
    cut = math.floor(len(text) * share)
    if cut >= len(text):
        return text
    head = text[:cut]
    return head[: head.rfind(" ") + 1].rstrip() if not text[cut].isspace() else head.rstrip()


def plain(value: object, depth: int = 16) -> JsonValue:
    """Copy a value so that it is JSON whatever a tool put into it."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return value.encode("utf-8", "replace").decode()
        case float():
            return value if math.isfinite(value) else None
        case Mapping() if depth:
            return {plain_key(key): plain(entry, depth - 1) for key, entry in value.items()}
        case list() | tuple() if depth:
            return [plain(entry, depth - 1) for entry in value]
        case _:
            return str(value) if depth else None


def plain_key(key: object) -> str:
    return str(key).encode("utf-8", "replace").decode()


def _s(seconds: float) -> float:
    return round(seconds, 3)


def _began(entry: Entry) -> float:
    began = entry["began"]
    return began if isinstance(began, float | int) else 0.0
