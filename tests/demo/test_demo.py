"""``make demo`` itself: it passes as it is, and fails with a clear sentence when one part is left out."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import pytest
import soundfile

from deploy.demo.props import ROOT, Part
from deploy.demo.record import read_record

pytestmark = [pytest.mark.peers, pytest.mark.crowd, pytest.mark.timeout(180)]


def demo(out, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "deploy.demo", "--out", str(out), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=150,
    )  # fmt: skip


def processes_of(out):
    """Return the command lines of running processes that name the demo's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, UnicodeDecodeError):
            continue
        if entry.name.isdigit() and int(entry.name) != os.getpid() and str(out) in command:
            found.append(command)
    return found


@pytest.mark.requirement("D-4")
def test_three_calls_are_answered_and_shown_in_less_than_a_minute(tmp_path):
    began = time.monotonic()
    result = demo(tmp_path)
    took = time.monotonic() - began
    record = read_record(tmp_path / "call.json")
    samples, rate = soundfile.read(tmp_path / "call.flac", dtype="int16")
    picture = matplotlib.image.imread(tmp_path / "call.png")

    assert result.returncode == 0, result.stdout + result.stderr
    assert took < 60
    assert "FAILED" not in result.stdout
    for wanted in (
        "lookup_caller() -> ok",
        "query_knowledge(",
        "barge-in: ",
        "transfer to +12125551234: confirmed",
        "phone_number_not_configured",
        "set-up (INVITE to 200)",
        "Goodbye.",
    ):
        assert wanted in result.stdout
    assert (record.reason, record.by) == ("end_call", "agent")
    assert (rate, samples.shape[1]) == (8000, 2)
    assert picture.shape[:2] == (1080, 1920)
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (Part.END_CALL, "end_call: the gateway hung up with BYE once the farewell was heard: no"),
        (Part.TRANSFER_CALL, "transfer_call: REFER named the configured number, after the announcement: no"),
        (Part.LOOKUP_CALLER, "lookup_caller: lookup_caller asked the look-up service about"),
        (Part.QUERY_KNOWLEDGE, "query_knowledge: query_knowledge found the passage"),
        (Part.BARGE_IN, "barge_in: the agent fell silent when the caller interrupted it: no"),
        (Part.FAREWELL, "farewell: the caller heard the farewell to its last 20 ms: no"),
    ],
)
def test_a_part_that_is_left_out_is_noticed_and_named(tmp_path, part, sentence):
    result = demo(tmp_path, "--without", part.value)

    assert result.returncode == 1, result.stdout + result.stderr
    assert f"the demo failed: {sentence}" in result.stderr
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process(tmp_path, number):
    command = [sys.executable, "-u", "-m", "deploy.demo", "--out", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        assert "three callers dial" in it.stdout.readline()
        assert len(processes_of(tmp_path)) >= 3  # the demo itself, the look-up service, the gateway
        it.send_signal(number)
        _, errors = it.communicate(timeout=30)

    assert it.returncode == 130
    assert errors == "interrupted; every process of the demo is gone\n"
    assert processes_of(tmp_path) == []
