"""
What this project asks of a test run beyond pytest's own rules.

Every run can write its results as JSON lines (``--results FILE``), with the requirement and report ids of
each test; ``make requirements``, ``make reports`` and the tally read them. Under ``CI=true`` a run fails when
a test is skipped or xfailed that ``tests/allowed_skips.txt`` does not name, when fewer tests were collected
than ``tests/floor`` says, or when a Debian package is missing. Elsewhere the tests that need such a package
are skipped.

With xdist the hooks that see items run in the workers and those that see results in the controller, so what
is known of an item travels in its ``user_properties``.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import IO

import pytest

from tests.kit.lists import allowed_skips, debian_packages

MARKS = ("requirement", "report")
WEIGHT = {"": 0, "passed": 1, "xfailed": 2, "skipped": 2, "failed": 3}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trunkline")
    group.addoption("--results", metavar="FILE", help="append the results as JSON lines")
    group.addoption("--rules", metavar="DIR", default=None, help="folder of allowed_skips.txt and floor")


def pytest_configure(config: pytest.Config) -> None:
    ci = os.environ.get("CI") == "true"
    folder = Path(config.getoption("--rules") or config.rootpath / "tests")
    missing = [
        package
        for package, command in debian_packages(folder)
        if not (shutil.which(command) or Path(command).is_file())
    ]
    if ci and missing:
        raise pytest.UsageError(f"missing Debian packages: apt-get install -y {' '.join(missing)}")
    config.pluginmanager.register(Items(missing), "trunkline-items")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Gate(config, folder, ci=ci), "trunkline-gate")


def is_there(command: str) -> bool:
    """Whether a command, or a file that is named in its place, is installed."""
    return shutil.which(command) is not None or Path(command).is_file()


class Items:
    """The half that sees the tests: in the worker with xdist, in the only process without."""

    def __init__(self, missing: list[str]) -> None:
        self.missing = missing

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Count before ``-m`` takes any away, and write each test's ids where its reports carry them."""
        for item in items:
            item.user_properties.extend(
                (mark.name, str(id_))
                for name in MARKS
                for mark in item.iter_markers(name)
                for id_ in mark.args
            )
        if hasattr(config, "workeroutput"):
            config.workeroutput["collected"] = len(items)
        else:
            config.pluginmanager.get_plugin("trunkline-gate").collected = len(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self.missing and item.get_closest_marker("peers"):
            pytest.skip(f"missing: apt-get install -y {' '.join(self.missing)}")


class Gate:
    """The half that sees the results."""

    def __init__(self, config: pytest.Config, folder: Path, *, ci: bool) -> None:
        self.config = config
        self.ci = ci
        self.allowed = allowed_skips(folder)
        self.floor = int((folder / "floor").read_text()) if (folder / "floor").exists() else 0
        self.collected = 0
        self.outcomes: dict[str, dict[str, object]] = {}
        self.problems: list[str] = []
        self.file: IO[str] | None = None
        if results := config.getoption("--results"):
            Path(results).parent.mkdir(parents=True, exist_ok=True)
            self.file = Path(results).open("a")  # noqa: SIM115  # closed when the session ends

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self.collected = max(self.collected, getattr(node, "workeroutput", {}).get("collected", 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep one outcome for each test: the worst of set-up, call and tear-down."""
        outcome = outcome_of(report)
        row = self.outcomes.setdefault(report.nodeid, {"test": report.nodeid, "outcome": "", "seconds": 0.0})
        row["seconds"] = round(float(str(row["seconds"])) + report.duration, 3)
        if outcome and WEIGHT[outcome] >= WEIGHT[str(row["outcome"])]:
            row["outcome"] = outcome
        if outcome in ("skipped", "xfailed"):
            row["reason"] = reason_of(report)
        if report.when == "teardown":
            for name in MARKS:
                row[name] = [value for key, value in report.user_properties if key == name]
            if self.file:
                self.file.write(json.dumps(row) + "\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.file:
            self.file.close()
        if self.ci and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self.problems = self.broken_rules()
            if self.problems:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def broken_rules(self) -> list[str]:
        problems = [
            f"{row['outcome']} and not in allowed_skips.txt: {test} ({row.get('reason', '')})"
            for test, row in self.outcomes.items()
            if row["outcome"] in ("skipped", "xfailed") and test not in self.allowed
        ]
        whole = self.config.args_source is pytest.Config.ArgsSource.TESTPATHS
        if whole and self.collected < self.floor:
            problems.append(f"{self.collected} tests collected, the floor is {self.floor}")
        return problems

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        seed = self.config.getoption("randomly_seed", default=None)
        if seed is not None:
            terminalreporter.write_line(f"{self.collected} tests collected, random seed {seed}")
        if self.problems:
            terminalreporter.section("rules of a CI run", red=True, bold=True)
            for problem in self.problems:
                terminalreporter.write_line(problem)


def outcome_of(report: pytest.TestReport) -> str:
    """Return passed, failed, skipped or xfailed; empty for a phase that decides nothing."""
    if report.failed:
        return "failed"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    return "passed" if report.when == "call" else ""


def reason_of(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail)
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
