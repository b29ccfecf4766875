"""
``python -m tests.kit.marked reports|requirements [RESULTS...]``: print id -> test -> result, and judge.

Without result files it runs the marked tests itself. It fails on an id of the committed list that has no
passing test, on an id whose test failed, was skipped or xfailed, and on a mark with an id that nobody knows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.kit import lists


@dataclass(frozen=True, slots=True)
class Result:
    """One test that carries an id, and how it ended: passed, failed, skipped or xfailed."""

    id: str
    test: str
    outcome: str


def read_results(paths: Iterable[Path], mark: str) -> list[Result]:
    """Return a result for each id of each marked test in the files that ``--results`` wrote."""
    rows = (json.loads(line) for path in paths for line in path.read_text().splitlines())
    return [Result(id_, row["test"], row["outcome"]) for row in rows for id_ in row.get(mark, ())]


def judge(results: list[Result], *, wanted: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return what is wrong, a sentence each; an empty list is a pass."""
    by_id: dict[str, list[Result]] = {}
    for result in results:
        by_id.setdefault(result.id, []).append(result)
    problems = []
    for id_ in wanted:
        mine = by_id.get(id_, [])
        if not mine:
            problems.append(f"{id_}: no test")
        problems.extend(
            f"{id_}: {result.test} {result.outcome}" for result in mine if result.outcome != "passed"
        )
    known = set(known)
    problems.extend(
        f"{id_}: marked by {by_id[id_][0].test}, but no such id" for id_ in by_id if id_ not in known
    )
    return problems


def run_marked(mark: str) -> list[Path]:
    """Run the marked tests: those that stand alone, those with real peers, those that load the machine."""
    folder = Path(tempfile.mkdtemp(prefix="trunkline-"))
    for name, expression, extra in (
        ("alone", f"{mark} and not peers and not soak", ["-n", "2"]),
        ("peers", f"{mark} and peers and not soak and not crowd", ["-n", "3"]),
        ("crowd", f"{mark} and crowd and not soak", []),
        ("soak", f"{mark} and soak", []),
    ):
        command = [sys.executable, "-m", "pytest", "-q", "-m", expression, *extra]
        # One word: of two, pytest would take the second for a folder with tests before it knows the option.
        results = f"--results={folder / name}.jsonl"
        subprocess.run([*command, results], check=False)  # judged by its results
    return sorted(folder.glob("*.jsonl"))


def ids(kind: str) -> tuple[list[str], list[str], list[str]]:
    """Return the ids that need a test, the ids that exist, and what is wrong with the committed list."""
    if kind == "requirements":
        wanted = lists.requirements()
        return wanted, [*wanted, *lists.shared_requirements()], []
    finished, shared = lists.finished_reports(), lists.shared_reports()
    wanted = [id_ for group in finished.values() for id_ in group]
    stale = [
        f"{category}: finished_reports.txt has other ids than ../shared"
        for category, group in finished.items()
        if shared and sorted(group) != sorted(shared.get(category, []))
    ]
    return wanted, [id_ for group in (*finished.values(), *shared.values()) for id_ in group], stale


def main(kind: str, *paths: str) -> int:
    mark = {"reports": "report", "requirements": "requirement"}[kind]
    results = read_results([Path(path) for path in paths] or run_marked(mark), mark)
    wanted, known, stale = ids(kind)
    for result in sorted(results, key=lambda result: (_order(result.id), result.test)):
        print(f"{result.id:8}{result.outcome:9}{result.test}")
    if not lists.SHARED.exists():
        known = [*known, *(result.id for result in results)]  # the whole list is not here to compare with
    problems = [*stale, *judge(results, wanted=wanted, known=known)]
    for problem in problems:
        print(f"{kind}: {problem}")
    print(f"{kind}: {len(set(wanted))} ids, {len(results)} results, {len(problems)} problems")
    return 1 if problems else 0


def _order(id_: str) -> tuple[str, int]:
    group, _, number = id_.partition("-")
    return group, int(number) if number.isdigit() else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
