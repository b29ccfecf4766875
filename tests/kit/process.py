"""A child process whose output is kept in a file and which never outlives its test."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType


class Process:
    """
    A running command; leave the ``with`` block to end it.

    Args:
        command: What to run, with its arguments.
        log: File for its standard output and error together.
        ready: Asked until it is true; the process has 20 seconds for that.
        env: Variables beside those of the test.
    """

    def __init__(
        self,
        command: list[str],
        log: Path,
        *,
        ready: Callable[[], object] = lambda: True,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.log_file = log
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
        try:
            self.until(ready, 20, "ready")
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def until(self, done: Callable[[], object], timeout: float, what: str) -> None:
        """Wait for something that it does; fail with its log when that does not come or the process ends."""
        end = time.monotonic() + timeout
        while not done():
            if self.popen.poll() is not None:
                raise AssertionError(
                    f"ended with {self.popen.returncode} before it was {what}:\n{self.log[-3000:]}"
                )
            if time.monotonic() > end:
                raise AssertionError(f"not {what} in {timeout} s:\n{self.log[-3000:]}")
            time.sleep(0.02)

    def signal(self, number: int = signal.SIGTERM) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(number)

    def wait(self, timeout: float) -> int:
        """Return its exit code; fail with its log when it goes on."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s:\n{self.log[-3000:]}") from None

    def stop(self, timeout: float = 5.0) -> int:
        """Send SIGTERM, after ``timeout`` SIGKILL, and return the exit code."""
        self.signal()
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.popen.returncode

    def kill(self) -> None:
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()
