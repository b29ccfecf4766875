from __future__ import annotations

import os
import signal
import time

import pytest

from tests.kit.process import Process

TALKS = ["bash", "-c", "echo up; trap 'echo down; exit 3' TERM; while true; do read -t 0.05 <> <(:); done"]
DEAF = ["bash", "-c", "echo up; trap '' TERM; while true; do read -t 0.05 <> <(:); done"]


def test_a_process_is_ready_when_it_says_so_and_ends_on_sigterm(tmp_path):
    log = tmp_path / "log"
    with Process(TALKS, log, ready=lambda: "up" in log.read_text()) as process:
        assert process.popen.poll() is None
        assert process.stop() == 3
        assert process.log == "up\ndown\n"


def test_a_process_that_does_not_listen_is_killed(tmp_path):
    log = tmp_path / "log"
    process = Process(DEAF, log, ready=lambda: "up" in log.read_text())
    assert process.stop(timeout=0.1) == -signal.SIGKILL


def test_a_process_that_ends_too_early_fails_with_its_log(tmp_path):
    with pytest.raises(AssertionError, match=r"ended with 4(.|\n)*no such config"):
        Process(["bash", "-c", "echo no such config; exit 4"], tmp_path / "log", ready=lambda: False)


def test_a_process_that_never_comes_up_is_not_left_behind(tmp_path, monkeypatch):
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with pytest.raises(AssertionError, match="not ready"):
        Process(
            ["bash", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"], tmp_path / "log", ready=lambda: False
        )
    pid = int((tmp_path / "pid").read_text() or 0) if (tmp_path / "pid").exists() else 0
    if pid:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
