import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.demo import stage
from deploy.demo.stage import Stage, StageError, free_port, free_port_range

ROOT = Path(stage.__file__).parents[2]


@pytest.fixture
def scene(tmp_path):
    with Stage(tmp_path, ROOT) as it:
        yield it


def sleeper(before: str = "") -> list[str]:
    return [sys.executable, "-c", f"{before}\nimport time; time.sleep(60)"]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_leaving_the_stage_ends_every_process_also_after_a_failure(tmp_path):
    actors = []

    def fail():
        with Stage(tmp_path, ROOT) as it:
            actors.extend([it.start("one", sleeper()), it.start("two", sleeper())])
            raise StageError("something else went wrong")

    with pytest.raises(StageError, match="something else"):
        fail()
    assert [actor.process.returncode for actor in actors] == [-signal.SIGTERM, -signal.SIGTERM]


def test_a_process_that_ignores_sigterm_and_its_children_are_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "GRACE_S", 0.2)
    stubborn = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('child', child.pid, flush=True)"
    )
    with Stage(tmp_path, ROOT) as it:
        actor = it.start("stubborn", sleeper(stubborn))
        child = int(it.wait_for_line(actor, "child", within=10))

    assert actor.process.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 5
    while not is_gone(child) and time.monotonic() < deadline:
        os.sched_yield()
    assert is_gone(child)


def test_a_line_of_the_output_is_waited_for(scene):
    actor = scene.start("printer", sleeper("print('listening 4711', flush=True)"))

    assert scene.wait_for_line(actor, "listening", within=10) == "4711"


def test_a_process_that_dies_early_is_reported_with_its_last_words(scene):
    actor = scene.start("gateway", [sys.executable, "-c", "import sys; sys.exit('demo.yaml:3: no such key')"])

    with pytest.raises(
        StageError, match=r"the gateway ended too early, with code 1:\ndemo.yaml:3: no such key"
    ):
        scene.wait_for_url(actor, "http://127.0.0.1:9/readyz", within=10)


def test_a_command_that_is_not_there_is_named(scene):
    with pytest.raises(StageError, match="cannot start the gateway: No such file"):
        scene.start("gateway", ["/nonexistent/trunkline"])


def test_something_that_never_gets_ready_is_given_up(scene):
    actor = scene.start("gateway", sleeper())

    with pytest.raises(StageError, match=r"was not ready within 0.2 s"):
        scene.wait_for_url(actor, f"http://127.0.0.1:{free_port(socket.SOCK_STREAM)}/readyz", within=0.2)


def test_free_ports_are_free_and_a_range_begins_even():
    first, last = free_port_range(8)

    assert first % 2 == 0
    assert last - first == 7
    for port in range(first, last + 1):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", port))


def test_a_range_of_ports_never_holds_a_port_that_was_promised_to_something_else(monkeypatch):
    drawn = iter([40_001, 41_000])
    monkeypatch.setattr(stage, "free_port", lambda _: next(drawn))
    monkeypatch.setattr(stage, "_is_free", lambda _: True)

    assert free_port_range(100, besides=[40_050]) == (41_000, 41_099)


def test_a_sandbox_that_forbids_sockets_gets_a_sentence(monkeypatch):
    def forbidden(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(stage.socket, "socket", forbidden)

    with pytest.raises(StageError, match=r"does not let the demo open a socket on 127.0.0.1: Operation not"):
        free_port(socket.SOCK_DGRAM)


def test_a_signal_waits_until_a_process_that_is_being_born_is_known():
    happened = []

    def be_interrupted():
        with stage.signals_as_interrupt(), stage.signals_deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            happened.append("the block went on")

    with pytest.raises(KeyboardInterrupt):
        be_interrupted()
    assert happened == ["the block went on"]


def test_sigterm_leads_out_of_the_demo_like_ctrl_c():
    with pytest.raises(KeyboardInterrupt), stage.signals_as_interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_output_of_a_process_is_kept_in_its_log(scene, tmp_path):
    actor = scene.start(
        "talker", [sys.executable, "-c", "print('one'); import sys; print('two', file=sys.stderr)"]
    )
    actor.process.wait()

    assert sorted(actor.tail().splitlines()) == ["one", "two"]
    assert (tmp_path / "talker.log").exists()
    assert isinstance(actor.process, subprocess.Popen)
