"""The project's rules for a test run, each in a pytest of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit import lists

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def rules(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with the lists that gate a run, and a project that loads the plugin."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini(
        "[pytest]\ntestpaths = .\nmarkers =\n    peers: x\n    report(id): x\n    requirement(id): x\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    pytester.makeconftest("pytest_plugins = ['tests.kit.plugin']")
    folder = pytester.mkdir("rules")
    (folder / "kit").mkdir()
    (folder / "kit" / "debian-packages.txt").write_text("coreutils true\n")
    (folder / "floor").write_text("1")
    return folder


def run(pytester: pytest.Pytester, rules: Path, *args: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(f"--rules={rules}", "-p", "no:randomly", *args)


def skipping(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.skip(reason='no moon')\ndef test_a(): pass\ndef test_b(): pass"
    )


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_skip_that_is_not_allowed_fails_a_ci_run(pytester, rules, workers):
    skipping(pytester)
    result = run(pytester, rules, "-n", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["skipped and not in allowed_skips.txt: *::test_a (*no moon*)"])


def test_an_xfail_that_is_not_allowed_fails_a_ci_run(pytester, rules):
    pytester.makepyfile("import pytest\n@pytest.mark.xfail(reason='hard')\ndef test_a(): assert 0")
    result = run(pytester, rules)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["xfailed and not in allowed_skips.txt: *::test_a (hard)"])


def test_a_skip_that_the_list_names_passes(pytester, rules):
    skipping(pytester)
    name = "test_a_skip_that_the_list_names_passes.py::test_a"
    (rules / "allowed_skips.txt").write_text(f"# why\n{name} | no moon on this machine\n")
    assert run(pytester, rules).ret == pytest.ExitCode.OK


def test_a_name_in_the_list_without_a_reason_is_no_permission(pytester, rules):
    skipping(pytester)
    name = "test_a_name_in_the_list_without_a_reason_is_no_permission.py::test_a"
    (rules / "allowed_skips.txt").write_text(f"{name}\n")
    assert run(pytester, rules).ret == pytest.ExitCode.TESTS_FAILED


def test_a_skip_passes_on_a_developers_machine(pytester, rules, monkeypatch):
    monkeypatch.delenv("CI")
    skipping(pytester)
    assert run(pytester, rules).ret == pytest.ExitCode.OK


@pytest.mark.parametrize("workers", ["0", "2"])
def test_fewer_tests_than_the_floor_fail_a_ci_run(pytester, rules, workers):
    pytester.makepyfile("def test_a(): pass\ndef test_b(): pass")
    (rules / "floor").write_text("3")
    result = run(pytester, rules, "-n", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["2 tests collected, the floor is 3"])


def test_the_floor_counts_tests_that_an_expression_deselects(pytester, rules):
    pytester.makepyfile("def test_a(): pass\ndef test_b(): pass")
    (rules / "floor").write_text("2")
    assert run(pytester, rules, "-k", "test_a").ret == pytest.ExitCode.OK


def test_the_floor_is_for_whole_runs_only(pytester, rules):
    path = pytester.makepyfile("def test_a(): pass")
    (rules / "floor").write_text("3")
    assert run(pytester, rules, str(path)).ret == pytest.ExitCode.OK


def test_a_missing_debian_package_fails_a_ci_run_by_name(pytester, rules):
    pytester.makepyfile("def test_a(): pass")
    (rules / "kit" / "debian-packages.txt").write_text("sip-tester no-such-command\n")
    result = run(pytester, rules)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*apt-get install -y sip-tester*"])


def test_a_missing_debian_package_skips_the_tests_with_peers_elsewhere(pytester, rules, monkeypatch):
    monkeypatch.delenv("CI")
    (rules / "kit" / "debian-packages.txt").write_text("sip-tester no-such-command\n")
    pytester.makepyfile("import pytest\n@pytest.mark.peers\ndef test_a(): assert 0\ndef test_b(): pass")
    run(pytester, rules).assert_outcomes(skipped=1, passed=1)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_results_carry_outcomes_and_the_ids_of_marks(pytester, rules, workers):
    pytester.makepyfile(
        "import pytest\n"
        "@pytest.mark.requirement('L-1')\n@pytest.mark.requirement('L-2')\ndef test_a(): pass\n"
        "@pytest.mark.report('BR-1')\ndef test_b(): assert 0\n"
        "@pytest.fixture\ndef broken():\n    yield\n    assert 0\n"
        "def test_c(broken): pass\n"
    )
    run(pytester, rules, "-n", workers, "--results=var/out.jsonl")
    rows = [json.loads(line) for line in (pytester.path / "var" / "out.jsonl").read_text().splitlines()]
    found = {row["test"].partition("::")[2]: row for row in rows}
    assert {name: row["outcome"] for name, row in found.items()} == {
        "test_a": "passed",
        "test_b": "failed",
        "test_c": "failed",
    }
    assert sorted(found["test_a"]["requirement"]) == ["L-1", "L-2"]
    assert found["test_b"]["report"] == ["BR-1"]


def test_the_seed_is_printed(pytester, rules):
    pytester.makepyfile("def test_a(): pass")
    result = pytester.runpytest_subprocess(f"--rules={rules}", "-p", "randomly", "-p", "no:xdist", "-q")
    result.stdout.fnmatch_lines(["1 tests collected, random seed *"])


def test_each_allowed_skip_has_a_reason():
    assert all(test and reason for test, reason in lists.allowed_skips().items())
