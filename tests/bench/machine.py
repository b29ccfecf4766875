"""The machine under a benchmark: which cores, how quiet, what versions."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tests.bench.usage import cores_busy

QUIET_CPU = 0.4
"""Of one core: above this, other work would be measured too."""
PINNED = 'echo -15 >/proc/self/autogroup 2>/dev/null; exec nice -n "$0" taskset -c "$1" "${@:2}"'


def two_cores() -> tuple[int, int]:
    """Return a core for the server and one for load and fake; with one core only, exit with a sentence."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("the benchmark needs two cores: one for the server, one for load and fake")
    return cores[0], cores[1]


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """
    Return the command on one core, ahead of other work where we are root.

    With autogroup scheduling the priority of the session counts, not only the nice value of the process.
    """
    niceness = "-15" if os.geteuid() == 0 else "0"
    return ["bash", "-c", PINNED, niceness, str(core), *command]


def wait_quiet(within: float = 12.0) -> None:
    """Wait until nothing else uses the machine, or for ``within`` seconds."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        before = sum(cores_busy())
        time.sleep(1.0)
        if sum(cores_busy()) - before < QUIET_CPU:
            return


def description() -> str:
    """Say what the figures were measured on."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = names[0].partition(":")[2].strip() if names else platform.machine()
    packages = ("uvloop", "websockets", "openai", "picows", "fastapi", "uvicorn")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} x {cpu}, Linux {platform.release()}, Python {sys.version.split()[0]}, {versions}"
    )
