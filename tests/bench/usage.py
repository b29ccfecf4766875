"""What processes and cores use, from /proc: CPU by schedstat (ns, no tick rounding), resident memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue  # it ended while we looked
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, its threads and its descendants."""
    total = 0
    for member in tree(pid):
        try:
            tasks = list(Path(f"/proc/{member}/task").iterdir())
            total += sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
        except OSError:
            continue
    return total / 1e9


def rss_mb(pid: int) -> float:
    total = 0
    for member in tree(pid):
        try:
            total += int(Path(f"/proc/{member}/statm").read_text().split()[1])
        except OSError:
            continue
    return total * PAGE / 1e6


def cores_busy() -> list[float]:
    """Return for each core its busy seconds since the start of the machine."""
    busy = []
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            busy.append((user + nice + system + irq + softirq + steal) / TICK)
    return busy


class Usage:
    """CPU of named processes, and of everything else on the machine, between ``start`` and ``stop``."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids

    def start(self) -> None:
        self._began = time.monotonic()
        self._cpu = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        self._cores = cores_busy()

    def stop(self) -> dict[str, object]:
        wall = time.monotonic() - self._began
        cpu = {name: cpu_seconds(pid) - self._cpu[name] for name, pid in self._pids.items()}
        busy = sum(now - before for now, before in zip(cores_busy(), self._cores, strict=True))
        return {
            "wall_s": round(wall, 2),
            "cpu_s": {name: round(value, 3) for name, value in cpu.items()},
            "cpu_pct": {name: round(100 * value / wall, 1) for name, value in cpu.items()},
            "foreign_cpu_pct": round(100 * max(busy - sum(cpu.values()), 0.0) / wall, 1),
        }
