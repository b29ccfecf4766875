"""
Draws a call: both voices on one clock, who said what, tool calls, the barge-in, the figures.

The agent stands above, the caller below, and between them a lane for what the machine did.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # headless: before pyplot or a figure chooses a window system

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import FancyBboxPatch, Rectangle

from deploy.demo.scene import BargeInMark, Figure, Pcm, Scene, ToolMark, Turn

PAPER, INK, FAINT, RULE = "#fcfbf8", "#1f2430", "#7c8394", "#e4e1d8"
AGENT, CALLER, TOOL, ALARM = "#4a45c4", "#0d7f74", "#a65a04", "#d5302f"
WIDTH_IN, HEIGHT_IN, DPI = 16.0, 9.0, 120
LEFT, RIGHT = 0.055, 0.985
PLOT_IN = WIDTH_IN * (RIGHT - LEFT)
TEXT_PT = 9.5
CHAR_IN = TEXT_PT / 72 * 0.58
"""The mean width of a character of the text font."""
MAX_LINES = 5


def draw(scene: Scene, path: Path) -> None:
    """Write the picture as PNG, 1920 x 1080."""
    with mpl.rc_context({"font.family": "DejaVu Sans", "svg.fonttype": "none"}):
        canvas = Canvas(figsize=(WIDTH_IN, HEIGHT_IN), dpi=DPI, facecolor=PAPER)
        agent, lane, caller = (
            canvas.add_axes((LEFT, bottom, RIGHT - LEFT, height))
            for bottom, height in ((0.545, 0.335), (0.445, 0.09), (0.122, 0.298))
        )
        for axes in (agent, lane, caller):
            _prepare(axes, scene.seconds)
        _voice(agent, scene.agent, scene.agent_turns, AGENT, upwards=True)
        _voice(caller, scene.caller, scene.caller_turns, CALLER, upwards=False)
        _label(canvas, "agent", 0.545 + 0.11, AGENT)
        _label(canvas, "caller", 0.122 + 0.20, CALLER)
        _label(canvas, "tools", 0.445 + 0.045, TOOL)
        _clock(lane, scene.seconds)
        _tools(lane, scene.tools, scene.seconds)
        for mark in scene.barge_ins:
            resumes = min((t.begins for t in scene.agent_turns if t.begins > mark.at), default=scene.seconds)
            _barge_in(agent, lane, caller, mark, resumes, scene.seconds)
        for moment in scene.moments:
            for axes in (agent, lane, caller):
                axes.axvline(moment.at, color=FAINT, lw=0.8, ls=(0, (2, 3)), zorder=1)
            agent.text(
                moment.at, 1.0, f" {moment.label} ", transform=agent.get_xaxis_transform(), fontsize=8.5,
                color=FAINT, va="bottom", ha="right" if moment.at > 0.9 * scene.seconds else "left",
            )  # fmt: skip
        _heading(canvas, scene)
        _cards(canvas, scene.figures)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=DPI, facecolor=PAPER)


def _prepare(axes: Axes, seconds: float) -> None:
    axes.set_xlim(-0.004 * seconds, seconds * 1.004)
    axes.set_ylim(0, 1)
    axes.set_facecolor("none")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _label(canvas: Canvas, text: str, y: float, colour: str) -> None:
    canvas.text(LEFT - 0.012, y, text, color=colour, fontsize=11, fontweight="bold", ha="right", va="center")


def _envelope(pcm: Pcm, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest sample of each column, -1..1."""
    size = max(1, len(pcm) // columns)
    rows = pcm[: len(pcm) // size * size].reshape(-1, size).astype(np.float64)
    loudest = max(float(np.abs(pcm.astype(np.float64)).max(initial=0)), 4000.0)
    return rows.min(axis=1) / loudest, rows.max(axis=1) / loudest


def _voice(axes: Axes, pcm: Pcm, turns: tuple[Turn, ...], colour: str, *, upwards: bool) -> None:
    """Draw the waveform near the lane and the words of each turn on its far side."""
    middle, reach = (0.33, 0.27) if upwards else (0.67, 0.27)
    low, high = _envelope(pcm, 2400)
    at = np.arange(len(low)) * (len(pcm) / 8000 / max(len(low), 1))
    axes.axhline(middle, color=RULE, lw=1, zorder=0)
    axes.fill_between(at, middle + low * reach, middle + high * reach, color=colour, lw=0, zorder=3)
    seconds_per_in = (axes.get_xlim()[1] - axes.get_xlim()[0]) / PLOT_IN
    for number, turn in enumerate(turns):
        axes.add_patch(
            Rectangle(
                (turn.begins, middle - reach - 0.03), turn.ends - turn.begins, 2 * reach + 0.06,
                facecolor=colour, alpha=0.10, lw=0, zorder=1,
            )
        )  # fmt: skip
        ends = turns[number + 1].begins if number + 1 < len(turns) else axes.get_xlim()[1]
        room = max(ends - turn.begins - 0.25, 1.0)
        _words(axes, turn, colour, room / seconds_per_in, upwards=upwards)


def _words(axes: Axes, turn: Turn, colour: str, room_in: float, *, upwards: bool) -> None:
    lines = _wrap(turn.text, max(10, int(room_in / CHAR_IN)), cut_short=turn.cut_short)
    side = 0.64 if upwards else 0.36
    axes.plot([turn.begins, turn.begins], [0.36 if upwards else 0.64, side], color=colour, lw=1, alpha=0.5)
    axes.text(
        turn.begins, side, "\n".join(lines), fontsize=TEXT_PT, color=colour, linespacing=1.35,
        ha="left", va="bottom" if upwards else "top", zorder=4,
    )  # fmt: skip


def _wrap(text: str, width: int, *, cut_short: bool) -> list[str]:
    """Break a turn's words into lines; of one that was cut off only the beginning was ever heard."""
    if cut_short:
        lines = textwrap.wrap(f"{text} … (cut off)", width)
        most, ending = 3, " … (cut off)"
    else:
        lines = textwrap.wrap(text, width)
        most, ending = MAX_LINES, " …"
    if len(lines) <= most:
        return lines
    last = textwrap.wrap(lines[most - 1], max(width - len(ending), 1))[0]
    return [*lines[: most - 1], last + ending]


def _clock(lane: Axes, seconds: float) -> None:
    """Draw a tick each second along the lane's lower edge, with a number each few seconds."""
    step = next(step for step in (1, 2, 5, 10, 20, 60, 120, 600) if seconds / step <= 24)
    lane.axhline(0.0, color=RULE, lw=1)
    for second in range(int(seconds) + 1):
        numbered = second % step == 0
        lane.plot([second, second], [0.0, 0.10 if numbered else 0.05], color=FAINT, lw=0.8)
        if numbered:
            lane.text(second, -0.06, f"{second} s", fontsize=8, color=FAINT, ha="center", va="top")


def _tools(lane: Axes, tools: tuple[ToolMark, ...], seconds: float) -> None:
    """Draw tool calls as boxes in up to three rows, so that parallel calls do not cover each other."""
    free_from = [-1.0, -1.0, -1.0]
    for mark in sorted(tools, key=lambda mark: mark.begins):
        text = f"{mark.tool}  {mark.outcome}"
        width = max(mark.ends - mark.begins, (len(text) * CHAR_IN * 0.93 + 0.2) * seconds / PLOT_IN)
        begins = min(mark.begins, seconds - width)
        row = next((row for row, free in enumerate(free_from) if free <= begins), 0)
        free_from[row] = begins + width + 0.05
        y = 0.70 - 0.29 * row
        lane.add_patch(
            FancyBboxPatch(
                (begins, y), width, 0.22, boxstyle="round,pad=0,rounding_size=0.06", mutation_aspect=1.2,
                facecolor="#fdf0dc", edgecolor=TOOL, lw=0.9, zorder=5,
            )
        )  # fmt: skip
        lane.plot([mark.begins, mark.begins], [1.0, y], color=TOOL, lw=1.2, zorder=4)
        lane.text(
            begins + width / 2, y + 0.105, text, fontsize=8.5, color=TOOL, ha="center", va="center", zorder=6
        )


def _barge_in(
    agent: Axes, lane: Axes, caller: Axes, mark: BargeInMark, resumes: float, seconds: float
) -> None:
    """Draw the line, and hatch what was dropped as far as the agent's next turn leaves room."""
    for axes, (low, high) in ((agent, (0.0, 0.63)), (lane, (0.0, 1.0)), (caller, (0.37, 1.0))):
        axes.plot([mark.at, mark.at], [low, high], color=ALARM, lw=1.4, zorder=6, solid_capstyle="butt")
    shown = min(mark.dropped, resumes - mark.at - 0.006 * seconds)
    agent.add_patch(
        Rectangle(
            (mark.at, 0.06), shown, 0.54, facecolor="none", edgecolor=ALARM, alpha=0.30, hatch="////", lw=0
        )
    )
    agent.text(
        mark.at + 0.006 * seconds, 0.33, mark.note, fontsize=9, color=ALARM, fontweight="bold", va="center",
        linespacing=1.4, zorder=7, bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.9, "pad": 2.5},
    )  # fmt: skip


def _heading(canvas: Canvas, scene: Scene) -> None:
    canvas.text(LEFT, 0.955, scene.title, fontsize=17, fontweight="bold", color=INK, va="center")
    canvas.text(RIGHT, 0.955, scene.subtitle, fontsize=10.5, color=FAINT, va="center", ha="right")


def _cards(canvas: Canvas, figures: tuple[Figure, ...]) -> None:
    """Draw the measured values side by side along the lower edge."""
    pitch = (RIGHT - LEFT) / max(len(figures), 1)
    for number, figure in enumerate(figures):
        x = LEFT + number * pitch
        canvas.add_artist(
            FancyBboxPatch(
                (x, 0.025), pitch - 0.008, 0.078, boxstyle="round,pad=0,rounding_size=0.006",
                facecolor="#f3f1ea", edgecolor="none", transform=canvas.transFigure,
            )
        )  # fmt: skip
        canvas.text(x + 0.008, 0.074, figure.value, fontsize=13, fontweight="bold", color=INK, va="center")
        canvas.text(x + 0.008, 0.044, figure.meaning, fontsize=8.5, color=FAINT, va="center")
