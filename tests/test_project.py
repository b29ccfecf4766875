"""The project's own files: what they promise must be there."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.kit import lists

ROOT = Path(__file__).resolve().parents[1]
UNIT = ROOT / "deploy" / "trunkline.service"


def read(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_environment_example_names_what_the_configuration_examples_use():
    used = {
        name
        for path in (ROOT / "config" / "examples").rglob("*.yaml")
        for line in path.read_text().splitlines()
        for name in re.findall(r"\$\{env:([A-Z_]+)\}", line.partition("#")[0])
    }
    named = set(re.findall(r"^([A-Z_]+)=", read("deploy/trunkline.env.example"), re.MULTILINE)) - {"NAME"}
    assert named == used != set()


def test_the_unit_is_one_that_systemd_understands(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here")
    text = UNIT.read_text()
    for command in re.findall(r"^ExecStart(?:Pre)?=(\S+)", text, re.MULTILINE):
        text = text.replace(command, "/bin/true")  # the real one is where the operator puts it
    text = text.replace("User=trunkline", "User=root").replace("Group=trunkline", "Group=root")
    copy = tmp_path / "trunkline.service"
    copy.write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(copy)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    about = [line for line in result.stderr.splitlines() if "trunkline" in line]
    assert about == []


def test_the_unit_gives_calls_longer_to_finish_than_the_gateway_does():
    stop = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    drain = re.search(r"^\s*drain_s: (\d+)", read("config/examples/full.yaml"), re.MULTILINE)
    assert int(stop[1]) > int(drain[1])


def test_the_unit_runs_commands_that_exist():
    text = UNIT.read_text()
    from gateway.cli import app

    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    called = re.findall(r"^ExecStart(?:Pre)?=\S+/trunkline (\w+)", text, re.MULTILINE)
    assert set(called) == {"config", "serve"} <= names


@pytest.mark.parametrize(
    "target", ["demo", "run", "quick", "test", "soak", "check", "bench", "reports", "requirements"]
)
def test_each_target_that_the_readme_promises_is_in_the_makefile(target):
    assert re.search(rf"^{target}:", read("Makefile"), re.MULTILINE)
    assert f"make {target}" in read("README.md")


def test_make_says_what_there_is():
    out = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[0] for line in out.splitlines()} >= {"demo", "run", "test", "soak", "check", "bench"}


def test_the_licence_is_what_the_metadata_says():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in read("LICENSE")


def test_no_file_is_locked_by_another_tool():
    """uv.lock carries the addresses of downloads."""
    assert not (ROOT / "uv.lock").exists()


def test_the_changelog_has_an_entry_for_this_version():
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", read("CHANGELOG.md"), re.MULTILINE)


def test_every_debian_package_of_the_tests_has_a_command():
    assert lists.debian_packages()
    assert all(package and command for package, command in lists.debian_packages())


def test_setup_names_the_apt_command_for_what_is_missing(tmp_path):
    """A machine without python3 is told so in the first line; this one only pretends to be without."""
    for tool in ("bash", "cat", "sha256sum", "cut", "dirname", "grep"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    (tmp_path / "id").write_text("#!/bin/bash\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    command = [str(ROOT / "deploy" / "setup.sh"), "venv", str(tmp_path / "venv")]
    result = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    first = result.stdout.splitlines()[0]
    assert "apt-get install -y --no-install-recommends python3" in first
    assert "git" in first
