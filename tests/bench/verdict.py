"""What a series of runs says: gates, ratios, the table for the terminal and the page for docs/evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CALLS = 120
"""What one core must carry (issue 2)."""
FIRST_AUDIO_P99_MS = 60.0
LAG_P99_MS = 5.0
"""A load that is later than this measures itself."""
FOREIGN_PCT = 25.0
"""Other work on the machine, in per cent of one core, that makes a run worth repeating."""
RATIOS = {"minimal-uvloop": 1.25, "rtp_fast-paced": 3.5}
"""CPU for a call and minute, beside another server's in the same series, at most."""

Result = dict[str, object]


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run."""

    contender: str
    result: Result

    @property
    def calls(self) -> int:
        return int(self.result["n"])

    @property
    def cpm(self) -> float:
        """CPU seconds of the server for each call and minute."""
        return float(self.result["cpu_s_per_call_min"])

    @property
    def talk(self) -> Result:
        return self.result["talk"]

    @property
    def first_p99_ms(self) -> float:
        return float(self.talk["first_audio_ms"].get("p99", float("inf")))

    @property
    def lag_p99_ms(self) -> float:
        return float(self.result["send_lag_ms"].get("p99", float("inf")))

    @property
    def foreign_pct(self) -> float:
        return float(self.result["usage"]["foreign_cpu_pct"])

    @property
    def is_disturbed(self) -> bool:
        """Whether other work, or the load itself, may have spoiled the run."""
        return self.foreign_pct > FOREIGN_PCT or self.lag_p99_ms > LAG_P99_MS

    def faults(self) -> Iterator[str]:
        """Yield what the callers noticed, as sentences."""
        talk, dropped = self.talk, self.result["dropped_calls"]
        if dropped:
            yield f"{dropped} calls were dropped"
        if self.result.get("bye_unanswered"):
            yield f"{self.result['bye_unanswered']} BYEs had no answer"
        if talk["answers"] != talk["turns"]:
            yield f"{talk['turns'] - talk['answers']} of {talk['turns']} turns had no answer"
        if talk["gaps"]:
            yield f"{talk['gaps']} gaps in the answers, the longest {talk['longest_gap_ms']} ms"
        if talk["barge_in_missed"]:
            yield f"{talk['barge_in_missed']} of {talk['barge_ins']} interruptions were not obeyed"
        if self.first_p99_ms >= FIRST_AUDIO_P99_MS:
            yield f"first audio p99 is {self.first_p99_ms} ms, {FIRST_AUDIO_P99_MS:.0f} are allowed"
        rtp = self.result.get("rtp")
        if rtp and rtp["lost_pct"]:
            yield f"{rtp['lost_pct']} % of the RTP packets were lost"


def ratio(runs: Sequence[Run], of: str, to: str, calls: int) -> float | None:
    """Compare the CPU of two contenders at the same number of calls; the best run of each counts."""
    costs = [
        min((run.cpm for run in runs if run.contender == name and run.calls == calls), default=None)
        for name in (of, to)
    ]
    return None if None in costs or not costs[1] else round(costs[0] / costs[1], 3)


def judge(runs: Sequence[Run], calls: int = CALLS) -> list[str]:
    """Return why a series fails; nothing when it passes."""
    ours = [run for run in runs if run.contender == "trunkline" and run.calls == calls]
    if not ours:
        return [f"trunkline was not measured with {calls} calls"]
    if all(list(run.faults()) for run in ours):
        return [f"trunkline with {calls} calls: {fault}" for fault in ours[-1].faults()]
    if all(run.lag_p99_ms > LAG_P99_MS for run in ours):
        return [f"the load was {ours[-1].lag_p99_ms} ms late (p99): the machine is too busy to measure"]
    beside = {name: ratio(runs, "trunkline", name, calls) for name in RATIOS}
    return [
        f"a call costs {value} times what it costs {name}, {RATIOS[name]} times are allowed"
        for name, value in beside.items()
        if value is not None and value > RATIOS[name]
    ]


def holds(runs: Sequence[Run]) -> int:
    """Return the most calls that trunkline carried without a fault."""
    return max(
        (run.calls for run in runs if run.contender == "trunkline" and not list(run.faults())), default=0
    )


HEADINGS = (
    "server", "calls", "CPU s / call min", "core %", "first audio p50 / p99 ms", "barge-in p50 / p99 ms",
    "gaps", "answers", "RTP jitter p99 ms", "MB / call", "other work %", "load late p99 ms",
)  # fmt: skip


def row(run: Run) -> tuple[str, ...]:
    talk, usage = run.talk, run.result["usage"]
    first, barge_in = talk["first_audio_ms"], talk["barge_in_ms"]
    jitter = run.result["rtp"]["jitter_ms"].get("p99", "-") if "rtp" in run.result else "-"
    return (
        run.contender,
        str(run.calls),
        f"{run.cpm:.3f}",
        f"{usage['cpu_pct']['server']:.0f}",
        f"{first.get('p50', '-')} / {first.get('p99', '-')}",
        f"{barge_in.get('p50', '-')} / {barge_in.get('p99', '-')}",
        str(talk["gaps"]),
        f"{talk['answers']} / {talk['turns']}",
        str(jitter),
        f"{usage['rss_per_call_mb']:.2f}",
        f"{run.foreign_pct:.0f}",
        f"{run.lag_p99_ms}",
    )


def table(runs: Sequence[Run]) -> str:
    """Return the runs as a Markdown table, which reads well in a terminal too."""
    rows = [HEADINGS, *map(row, runs)]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(HEADINGS))]
    lines = ["| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def ratios(runs: Sequence[Run]) -> list[str]:
    """Return one line for each number of calls at which trunkline can be compared."""
    lines = []
    for calls in sorted({run.calls for run in runs if run.contender == "trunkline"}):
        for other in RATIOS:
            value = ratio(runs, "trunkline", other, calls)
            if value is not None:
                lines.append(f"CPU for a call, trunkline : {other} = {value} : 1 ({calls} calls)")
    return lines
