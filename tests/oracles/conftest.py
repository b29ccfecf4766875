"""Programs that others wrote: these tests are collected only by `make oracles`, which names their folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.gateway import COMMAND
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.oracles.aimock import Aimock

FOLDER = Path(os.environ.get("ORACLES_DIR", ""))
if not os.environ.get("ORACLES_DIR"):
    collect_ignore_glob = ["test_*.py"]


def part(name: str) -> Path:
    """Return where a part was fetched to, or skip what needs it."""
    if not (FOLDER / name / ".fetched").is_file():
        pytest.skip(f"{name} could not be had")
    return FOLDER / name


@pytest.fixture
def ports() -> Iterator[Ports]:
    with Ports() as ports:
        yield ports


@dataclass(frozen=True, slots=True)
class Fake:
    """A server of ours that runs, and the certificate that its clients have to trust."""

    url: str
    certificate: Path
    log: Path


@pytest.fixture
def start_fake(ports: Ports, tmp_path: Path) -> Iterator[Callable[[str, str], Fake]]:
    """Give what starts a server by the name of its command and a script."""
    with ExitStack() as stack:

        def start(vendor: str, script: str, *options: str) -> Fake:
            path, output = tmp_path / "script.yaml", tmp_path / "fake.out"
            path.write_text(script)
            command = [COMMAND, f"fake-{vendor}", "--port", str(ports.take()), "--script", str(path)]
            command += ["--validate", *options]
            if vendor == "gemini":
                command += ["--tls-folder", str(tmp_path)]
            stack.enter_context(Process(command, output, ready=lambda: "://" in output.read_text()))
            url = next(line for line in output.read_text().splitlines() if "://" in line)
            return Fake(url, tmp_path / "fake-cert.pem", tmp_path / "fake.jsonl")

        yield start


@pytest.fixture
def aimock(ports: Ports, tmp_path: Path) -> Iterator[Aimock]:
    with Aimock(part("npm"), ports, tmp_path) as server:
        yield server
