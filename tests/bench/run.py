"""``make bench``: how many calls one core carries, beside a bare bridge and the usual sample.

The server stands alone on one core; load and fake model share another. Every run starts fresh processes,
waits for a quiet machine; a round that fails is repeated when other work disturbed it. In the default series
trunkline and rtp_fast-paced get the same SIP load and minimal-uvloop its own media-stream load, all with 120
calls; ``--full`` measures longer and goes on to more calls. Before that, what 20 ms of audio cost each
provider (``tests/bench/hot_path.py``). Results go to docs/evidence/bench-DATE.md and .jsonl; exit 1 if a gate
fails.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # `make bench` starts this file itself

from deploy.demo.stage import Stage, StageError, free_port, python, signals_as_interrupt  # noqa: E402
from tests.bench.contenders import CONTENDERS, Contender, wait_for_port  # noqa: E402
from tests.bench.hot_path import HotPath  # noqa: E402
from tests.bench.machine import description, pinned, two_cores, wait_quiet  # noqa: E402
from tests.bench.verdict import CALLS, Run, holds, judge, ratios, table  # noqa: E402

SERIES = ("minimal-uvloop", "rtp_fast-paced", "trunkline")
MORE_CALLS = (160, 200, 250, 300)


def measure(contender: Contender, calls: int, given: argparse.Namespace) -> Run:
    """Start fake, server and load on their cores; return what the load saw."""
    server_core, load_core = two_cores()
    with tempfile.TemporaryDirectory() as folder, Stage(Path(folder), ROOT) as stage:
        fake_port = free_port(socket.SOCK_STREAM)
        fake = stage.start(
            "fake", pinned(load_core, python("tests.bench.fake_openai", "--port", str(fake_port)))
        )
        wait_for_port(fake_port, fake)
        server = contender.start(stage, fake_port, Path(folder), lambda it: pinned(server_core, it))
        time.sleep(1.0)  # what a server still does right after it is up is not the cost of calls
        load = python(
            f"tests.bench.{contender.load}", "--port", str(server.port), "-n", str(calls),
            "--seconds", str(given.seconds), "--server-pid", str(server.actor.process.pid),
            "--fake-pid", str(fake.process.pid),
        )  # fmt: skip
        actor = stage.start("load", pinned(load_core, load))
        code = stage.finish(actor, within=60 + calls / 10 + given.seconds)
        if code:
            raise StageError(f"{contender.name}: {actor.tail()}\n{server.actor.tail()}")
        result = json.loads(actor.log.read_text().splitlines()[-1])
    return Run(contender.name, {"contender": contender.name, "at": time.strftime("%H:%M:%S"), **result})


def measure_hot_path() -> HotPath:
    """Measure what 20 ms of audio cost, on the server's core."""
    wait_quiet()
    command = pinned(two_cores()[0], python("tests.bench.hot_path", "--json"))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StageError(f"hot path: {done.stderr[-2000:]}")
    found = HotPath.read(done.stdout.splitlines()[-1])
    print(found.table(), flush=True)
    return found


def run_series(given: argparse.Namespace) -> list[Run]:
    """Run what was asked for; a round that fails is repeated if other work disturbed it."""
    runs: list[Run] = []
    for calls in given.calls:
        of_these_calls: list[Run] = []
        for _ in range(given.tries):
            round_ = [run_one(name, calls, given) for name in given.servers]
            of_these_calls += round_
            if not judge(of_these_calls, calls) or not any(run.is_disturbed for run in round_):
                break
        runs += of_these_calls
    return runs


def run_one(name: str, calls: int, given: argparse.Namespace) -> Run:
    wait_quiet()
    run = measure(CONTENDERS[name], calls, given)
    print(table([run]).splitlines()[-1] + (" disturbed" if run.is_disturbed else ""), flush=True)
    return run


def conclusions(runs: list[Run]) -> list[str]:
    held = holds(runs)
    return [*ratios(runs), *([f"trunkline held {held} calls without a fault"] if held else [])]


def write(runs: list[Run], hot_path: HotPath, faults: list[str], folder: Path) -> Path:
    """Write the evidence: every run as a JSON line, and a page."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"bench-{time.strftime('%Y-%m-%d')}.md"
    page.with_suffix(".jsonl").write_text("".join(json.dumps(run.result) + "\n" for run in runs))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    verdict = "passed" if not faults else "FAILED: " + "; ".join(faults)
    page.write_text(
        f"# Density, {time.strftime('%d %B %Y')}\n\n"
        f"`make bench` at commit {commit or 'unknown'}: {verdict}.\n\n"
        f"{table(runs)}\n\n" + "".join(f"* {line}\n" for line in conclusions(runs)) + "\n"
        f"{description()}. Server alone on one core, load and fake model on another; callers speak 600 ms "
        "every 5 s, the fake answers with 6 s of speech, the next turn interrupts it. Gaps are those of a "
        "player with 60 ms of buffer. Compare CPU within one series only: the same run hours apart differs "
        f"by up to 18 %. Each run is a line of [{page.stem}.jsonl]({page.stem}.jsonl).\n\n"
        f"## 20 ms of audio\n\n{hot_path.page()}\n\nOf the CPU of one call's audio alone, over loopback, "
        "beside the vendor's SDK used as its documentation shows, in the same run on the same core.\n"
    )
    return page


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("servers", nargs="*", metavar="SERVER", help=f"of {', '.join(CONTENDERS)}")
    parser.add_argument("-n", "--calls", type=int, action="append", help=f"concurrent calls ({CALLS})")
    parser.add_argument("--seconds", type=float, help="measured window (20)")
    parser.add_argument("--tries", type=int, default=3, help="how often a disturbed round is made")
    parser.add_argument("--full", action="store_true", help="60 s windows, and then more calls")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "evidence")
    given = parser.parse_args()
    if unknown := set(given.servers) - set(CONTENDERS):
        parser.error(f"no such server: {', '.join(sorted(unknown))}")
    given.servers = given.servers or list(SERIES)
    given.seconds = given.seconds or (60.0 if given.full else 20.0)
    given.calls = given.calls or [CALLS, *(MORE_CALLS if given.full else ())]
    return given


def main() -> int:
    given = options()
    with signals_as_interrupt():
        try:
            hot_path = measure_hot_path()
            runs = run_series(given)
        except StageError as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted; every process that was started is gone", file=sys.stderr)
            return 130
    faults = judge(runs, given.calls[0]) if "trunkline" in given.servers else []
    faults += hot_path.faults()
    print("\n" + table(runs) + "\n\n" + "\n".join(conclusions(runs)))
    print(f"\n{write(runs, hot_path, faults, given.out)}")
    for fault in faults:
        print(f"FAILED: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
