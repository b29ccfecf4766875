"""What both loads share: options, pacing, the measured window."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import time
from collections.abc import Sequence
from typing import Protocol

from tests.bench.signals import FRAME_S, SIGNAL_FRAMES
from tests.bench.turns import Cycle, Heard, measure, percentiles
from tests.bench.usage import Usage, rss_mb

now = time.monotonic
SETTLE_S = 1.0
"""Pause between set-up and media."""


class Caller(Heard, Protocol):
    closed_at: float | None
    ended_at: float

    def send_frame(self, index: int) -> None: ...


def options(doc: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("-n", type=int, default=10, help="concurrent calls")
    parser.add_argument("--seconds", type=float, default=20, help="measured window")
    parser.add_argument("--warmup", type=float, default=6, help="must hold one whole cycle")
    parser.add_argument("--ramp", type=float, default=25, help="new calls per second")
    parser.add_argument("--vad-silence-ms", type=int, default=200, help="as given to the fake")
    parser.add_argument("--server-pid", type=int, required=True)
    parser.add_argument("--fake-pid", type=int, required=True)
    return parser


def offset_of(index: int, total: int) -> int:
    """Return where in the signal a caller begins, so that no two send the same audio."""
    return index * SIGNAL_FRAMES // max(total, 1)


async def paced(callers: Sequence[Caller], cycle: Cycle, begin: float, end: float) -> list[float]:
    """Send every caller's frames at real pace, phases spread over the 20 ms; return how late each was."""
    total = len(callers)
    lag: list[float] = []
    frame = index = 0
    due = begin
    while due < end:
        at = now()
        while due <= at:
            caller = callers[index]
            if caller.closed_at is None:
                lag.append(at - due)
                speaks = cycle.speaks(caller.index, frame)
                offset = offset_of(caller.index, total)
                caller.send_frame((offset + frame) % SIGNAL_FRAMES if speaks else -1)
            index += 1
            if index == total:
                index, frame = 0, frame + 1
            due = begin + frame * FRAME_S + FRAME_S * index / total
        await asyncio.sleep(max(due - now(), 0.001))  # uvloop's timers have steps of 1 ms
    return lag


async def drive(callers: Sequence[Caller], given: argparse.Namespace, idle_rss: float) -> dict[str, object]:
    """Run the media, measure the window, analyse."""
    cycle = Cycle(calls=given.n, vad_silence_ms=given.vad_silence_ms)
    await asyncio.sleep(SETTLE_S)
    gc.collect()
    gc.disable()
    usage = Usage({"load": os.getpid(), "server": given.server_pid, "fake": given.fake_pid})
    start = now() + 0.1
    begin, end = start + given.warmup, start + given.warmup + given.seconds
    used: dict[str, object] = {}

    async def window() -> None:
        await asyncio.sleep(begin - now())
        usage.start()
        await asyncio.sleep(end - now())
        used.update(usage.stop())
        used["rss_per_call_mb"] = round((rss_mb(given.server_pid) - idle_rss) / given.n, 3)

    async with asyncio.TaskGroup() as group:
        group.create_task(window())
        sending = group.create_task(paced(callers, cycle, start, end + 1.0))
    await asyncio.sleep(0.5)
    for caller in callers:
        caller.ended_at = now()  # what comes in during the analysis has no true time
    cpu = used["cpu_s"]["server"]
    return {
        "n": given.n,
        "seconds": given.seconds,
        "dropped_calls": sum(caller.closed_at is not None for caller in callers),
        "send_lag_ms": percentiles(sending.result()),
        "usage": used,
        "cpu_s_per_call_min": round(cpu / (given.n * used["wall_s"] / 60), 4),
        "talk": measure(callers, cycle, begin).summary(),
    }
