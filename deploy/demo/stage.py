"""The demo's processes: started on free ports, watched, and all gone at the end, whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

HOST = "127.0.0.1"
GRACE_S = 5.0
RTP_PORTS = 32
WAYS_OUT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StageError(Exception):
    """The demo cannot be set up or went down; the text is a sentence for its reader."""


@dataclass(frozen=True, slots=True)
class Actor:
    """One process and where its output goes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def tail(self, lines: int = 12) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Stage:
    """
    A context that owns processes: leaving it ends them in reverse order.

    Args:
        logs: Folder for one log file for each process.
        root: The folder that the processes work in: the repository.
    """

    def __init__(self, logs: Path, root: Path) -> None:
        self._logs = logs
        self._root = root
        self._actors: list[Actor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with signals_deferred():
            for actor in reversed(self._actors):  # all at once: together they take as long as the slowest
                if actor.process.poll() is None:
                    self._signal(actor, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_S
            for actor in reversed(self._actors):
                self._await_end(actor, within=max(deadline - time.monotonic(), 0.0))

    def start(self, name: str, command: Sequence[str]) -> Actor:
        """Start a process in its own group, so that a Ctrl-C reaches it through us only."""
        log = self._logs / f"{name}.log"
        with log.open("wb") as out, signals_deferred():  # a process that is born is known
            try:
                process = subprocess.Popen(  # noqa: S603 - commands of ours, no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=self._root,
                    start_new_session=True,
                )
            except OSError as error:
                raise StageError(f"cannot start the {name}: {error.strerror}: {command[0]}") from None
            actor = Actor(name, process, log)
            self._actors.append(actor)
        return actor

    def end(self, actor: Actor) -> int:
        """Ask the process to end, insist after five seconds, and return its exit code."""
        if actor.process.poll() is None:
            self._signal(actor, signal.SIGTERM)
        return self._await_end(actor, within=GRACE_S)

    def _await_end(self, actor: Actor, *, within: float) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            actor.process.wait(within)
        self._signal(actor, signal.SIGKILL)  # also what the process may have left behind in its group
        return actor.process.wait()

    def wait_for_line(self, actor: Actor, start: str, *, within: float) -> str:
        """Wait for a line of the output that begins with ``start`` and return what follows."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for line in actor.log.read_text(errors="replace").splitlines():
                if line.startswith(start):
                    return line.removeprefix(start).strip()
            self._must_live(actor)
            time.sleep(0.02)
        raise StageError(f"the {actor.name} did not start within {within:g} s:\n{actor.tail()}")

    def wait_for_url(self, actor: Actor, url: str, *, within: float) -> None:
        """Wait until ``url`` answers with 200."""
        deadline = time.monotonic() + within
        said = "no answer"
        while time.monotonic() < deadline:
            self._must_live(actor)
            try:
                with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - loopback, our own
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError) as error:
                said = str(error)
            time.sleep(0.05)
        raise StageError(f"the {actor.name} was not ready within {within:g} s ({said}):\n{actor.tail()}")

    def finish(self, actor: Actor, *, within: float) -> int:
        """Wait until the process ends by itself."""
        try:
            return actor.process.wait(within)
        except subprocess.TimeoutExpired:
            raise StageError(f"the {actor.name} did not end within {within:g} s") from None

    def _must_live(self, actor: Actor) -> None:
        if actor.process.poll() is not None:
            raise StageError(
                f"the {actor.name} ended too early, with code {actor.process.returncode}:\n{actor.tail()}"
            )

    @staticmethod
    def _signal(actor: Actor, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(actor.process.pid, number)


def free_port(kind: socket.SocketKind) -> int:
    """Let the system choose a port on loopback that nobody uses."""
    try:
        with socket.socket(socket.AF_INET, kind) as probe:
            probe.bind((HOST, 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise StageError(
            f"this machine does not let the demo open a socket on {HOST}: {error.strerror}. "
            "The demo needs UDP and TCP on loopback; a sandbox may forbid it"
        ) from None


def free_port_range(count: int = RTP_PORTS, *, besides: Container[int] = ()) -> tuple[int, int]:
    """Find ``count`` UDP ports in a row, the first even (RTP), that nobody uses and ``besides`` lacks."""
    for _ in range(50):
        first = free_port(socket.SOCK_DGRAM) & ~1
        ports = range(first, first + count)
        if ports.stop <= 65536 and all(port not in besides and _is_free(port) for port in ports):
            return first, ports.stop - 1
    raise StageError(f"no {count} free UDP ports in a row on {HOST}: close what holds them and try again")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP wait until the block is done; then they act as they would have."""
    caught: list[int] = []
    before = {number: signal.signal(number, lambda it, _: caught.append(it)) for number in WAYS_OUT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in caught:
            signal.raise_signal(late)


@contextlib.contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Turn every way out into KeyboardInterrupt; SIGINT too, which a shell's background job ignores."""

    def interrupt(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in WAYS_OUT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def python(*arguments: str) -> list[str]:
    """Build the command that runs a module with this interpreter."""
    return [sys.executable, "-m", *arguments]
