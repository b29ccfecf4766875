"""Tells what happened: the transcript and the figures as text, and the scene of the picture."""

from __future__ import annotations

from collections.abc import Iterable

from deploy.demo.checks import Evidence, Finding
from deploy.demo.figures import Figures
from deploy.demo.record import AgentTurn, CallerTurn, Interruption, Record, ToolUse, TransferStep
from deploy.demo.scene import BargeInMark, Figure, Moment, Scene, ToolMark, Turn

Happening = AgentTurn | CallerTurn | Interruption | ToolUse | TransferStep


def transcript(record: Record) -> list[str]:
    """Return one line for each thing that happened, in the order it began."""
    happened: list[tuple[float, Happening]] = [
        *((turn.began, turn) for turn in record.agent_turns),
        *((turn.began, turn) for turn in record.caller_turns),
        *((mark.at, mark) for mark in record.interruptions),
        *((use.began, use) for use in record.tools),
        *((step.at, step) for step in record.transfer),
    ]
    lines = [f"{at:7.2f}  {_line(what)}" for at, what in sorted(happened, key=lambda pair: pair[0])]
    return [*lines, f"{record.ended:7.2f}  ends    {record.reason}, by {record.by}"]


def _line(what: Happening) -> str:
    match what:
        case AgentTurn(text=text, heard_ms=heard, total_ms=total, interrupted=interrupted):
            cut = f"   [cut off: {heard} of {total} ms heard]" if interrupted else ""
            return f"agent   {text}{cut}"
        case CallerTurn(text=text):
            return f"caller  {text}"
        case Interruption(heard_ms=heard, dropped_ms=dropped):
            return f"        barge-in: {heard} ms heard, {dropped} ms thrown away"
        case ToolUse(tool=tool, arguments=arguments, status=status, reason=reason):
            took = f"{(what.ended - what.began) * 1000:.0f} ms"
            outcome = f"{status} ({reason})" if reason else status
            return f"tool    {tool}({_shortened(arguments)}) -> {outcome}, {took}"
        case TransferStep(state=state, destination=destination):
            return f"line    transfer to {destination}: {state}"


def _shortened(arguments: str) -> str:
    return "" if arguments.strip() in {"", "{}"} else arguments


def figures_as_text(figures: Figures) -> list[str]:
    """Return one line for each figure that could be measured."""
    rows = [
        ("set-up (INVITE to 200)", _ms(figures.setup_ms)),
        ("first audio after the answer", _ms(figures.first_audio_ms)),
        ("response after the caller stops", ", ".join(_ms(value) for value in figures.responses_ms)),
        ("barge-in to silence", _ms(figures.silence_ms)),
        ("heard of the interrupted answer", _heard(figures)),
        ("jitter of the gateway's RTP", f"{figures.jitter_ms:.2f} ms"),
        ("99 of 100 packets are on time to", f"{figures.spacing_p99_ms:.1f} ms"),
        (f"longest gap in {figures.packets} packets", _ms(figures.longest_gap_ms)),
    ]
    return [f"  {name:34}{value}" for name, value in rows if value]


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} ms"


def _heard(figures: Figures) -> str:
    if figures.ledger_ms is None or figures.captured_ms is None:
        return ""
    return f"{figures.ledger_ms} ms by the gateway's ledger, {figures.captured_ms} ms in the capture"


def findings_as_text(findings: Iterable[Finding]) -> list[str]:
    return [f"  ok      {it.claim}" if it.ok else f"  FAILED  {it}" for it in findings]


def scene_of(it: Evidence, figures: Figures) -> Scene:
    """Prepare the picture of a call from its recording and its record."""
    record = it.record
    two = it.recording.ndim == 2
    return Scene(
        title=f"{record.caller} calls {record.called}",
        subtitle=f"Trunkline demo · agent {record.agent} · {record.ended:.1f} s · PCMU 8 kHz",
        caller=it.recording[:, 0] if two else it.recording,
        agent=it.recording[:, 1] if two else it.recording,
        caller_turns=tuple(Turn(turn.began, turn.ended, turn.text) for turn in record.caller_turns),
        agent_turns=tuple(
            Turn(turn.began, turn.ended, turn.text, cut_short=turn.interrupted) for turn in record.agent_turns
        ),
        tools=tuple(
            ToolMark(use.began, use.ended, use.tool, f"{use.status}, {(use.ended - use.began) * 1000:.0f} ms")
            for use in record.tools
        ),
        barge_ins=tuple(
            BargeInMark(
                mark.at,
                f"barge-in: {mark.heard_ms / 1000:.2f} s heard,\n{mark.dropped_ms / 1000:.2f} s never played",
                mark.dropped_ms / 1000,
            )
            for mark in record.interruptions
        ),
        moments=(Moment(record.answered, "answered"), Moment(record.ended, f"BYE: {record.reason}")),
        figures=_cards(figures),
    )


def _cards(figures: Figures) -> tuple[Figure, ...]:
    responses = sorted(figures.responses_ms)
    cards = [
        (_ms(figures.setup_ms), "INVITE to 200 OK"),
        (_ms(figures.first_audio_ms), "answer to first audio"),
        (_ms(responses[len(responses) // 2]) if responses else "", "caller stops to agent speaks"),
        (_ms(figures.silence_ms), "barge-in to silence"),
        (
            f"{figures.ledger_ms} / {figures.captured_ms} ms" if figures.ledger_ms is not None else "",
            "heard: ledger / captured",
        ),
        (f"{figures.jitter_ms:.2f} ms", "RTP jitter at the caller"),
    ]
    return tuple(Figure(value, meaning) for value, meaning in cards if value)
