"""How much signalling one core carries, and what a call that only waits weighs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.kit.counts import counts
from tests.kit.gateway import Gateway
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.scenario import expand
from tests.kit.sipp import Sipp
from tests.sipp.agents import AGENTS, settings

pytestmark = [pytest.mark.peers, pytest.mark.soak, pytest.mark.timeout(300)]

RATE = 150
SECONDS = counts(test=5, full=60)
DIALOGS = counts(test=500, full=5000)
MOST_MB = 100
T1_MS = counts(test=50, full=500)
BRIEF = '<scenario><invite><sdp port="[media_port]"/></invite><answered/><ack/><hangup/></scenario>'
WAITING = """
<scenario>
  <invite>
    Supported: timer
    Session-Expires: 1800;refresher=uac
    <sdp port="[media_port]" direction="inactive"/>
  </invite>
  <answered><has header="Session-Expires">1800;refresher=uac</has></answered>
  <ack/>
  <pause/>
  <hangup/>
</scenario>
"""
SUBJECT = Path(__file__).parent / "subjects" / "answering.py"


def pin(pid: int, cores: set[int]) -> None:
    """Let all threads of a process, and those that it makes, run on these cores alone."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def apart(subject: int, load: int) -> None:
    """Put the subject on one core and the load on the others, if there are any."""
    first, *others = sorted(os.sched_getaffinity(0))
    pin(subject, {first})
    pin(load, set(others) or {first})


def cpu_seconds(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def test_one_core_answers_and_ends_150_calls_a_second(ports, tmp_path):
    """The whole gateway: routing, a session with the fake model, its greeting, ports, the record's events."""
    calls = RATE * SECONDS
    own = settings(tmp_path)
    own["server"] = {"sip": {"max_calls": 1000}}
    own["storage"] = {}
    with Gateway(own, ports, tmp_path / "gateway", rtp_ports=4000) as gateway:
        pid = gateway.popen.pid
        before = cpu_seconds(pid)
        with Sipp(
            expand(BRIEF),
            gateway.sip,
            ports,
            tmp_path / "sipp",
            called=AGENTS["talk"],
            calls=calls,
            at_once=1000,
            rate=RATE,
            audio_ports=False,
            timeout=SECONDS + 30,
        ) as sipp:
            apart(pid, sipp.popen.pid)
            outcome = sipp.wait()
        used = cpu_seconds(pid) - before
        assert outcome.clean, outcome.errors[:2000]
        assert outcome.successful == calls
        gateway.until(lambda: gateway.metrics()["trunkline_calls_active"] == 0, 10, "idle")
        metrics = gateway.metrics()
    answered = metrics['trunkline_calls_answered_total{trunk="loopback"}']
    print(
        f"{calls} calls in {outcome.seconds:.1f} s, {outcome.retransmissions} retransmissions,"
        f" {used / calls * 1000:.2f} ms of one core for each: {used / outcome.seconds:.0%} of it"
    )
    assert answered == calls
    assert outcome.seconds <= SECONDS + 10


@pytest.fixture
def subject(ports: Ports, tmp_path: Path):
    port = ports.take(2)
    log = tmp_path / "subject.log"
    with Process(
        [sys.executable, str(SUBJECT), str(port), str(T1_MS)], log, ready=lambda: "ready" in log.read_text()
    ) as process:
        yield process, ("127.0.0.1", port)


def test_signalling_of_150_calls_a_second_takes_a_part_of_one_core(subject, ports, tmp_path):
    process, address = subject
    pid = process.popen.pid
    calls, before = RATE * SECONDS, cpu_seconds(pid)
    with Sipp(
        expand(BRIEF),
        address,
        ports,
        tmp_path / "sipp",
        called="x",
        calls=calls,
        at_once=1000,
        rate=RATE,
        audio_ports=False,
        timeout=SECONDS + 30,
    ) as sipp:
        apart(pid, sipp.popen.pid)
        outcome = sipp.wait()
    used = cpu_seconds(pid) - before
    assert outcome.clean, outcome.errors[:2000]
    assert outcome.successful == calls
    print(
        f"SIP alone: {calls} calls in {outcome.seconds:.1f} s, {outcome.retransmissions} retransmissions,"
        f" {used / calls * 1000:.2f} ms of one core for each: {used / outcome.seconds:.0%} of it"
    )
    process.until(lambda: held(process)[0] == 0, 10, "rid of the dialogs")


def held(process: Process) -> tuple[int, int]:
    """Return how many dialogs and transactions it has, as it said last."""
    said = re.findall(r"dialogs (\d+) transactions (\d+)", process.log)
    return (int(said[-1][0]), int(said[-1][1])) if said else (0, 0)


def test_dialogs_that_wait_with_session_timers_weigh_little(subject, ports, tmp_path):
    """The user agent on its endpoint; a whole call has a session with a model beside it."""
    process, address = subject
    pid = process.popen.pid
    base = resident_mb(pid)
    rate = 250
    # All are there then, and their transactions are over: 64 times T1 after the last INVITE.
    pause = DIALOGS / rate + 64 * T1_MS / 1000 + 6
    with Sipp(
        expand(WAITING),
        address,
        ports,
        tmp_path / "sipp",
        called="x",
        calls=DIALOGS,
        at_once=DIALOGS,
        rate=rate,
        pause=pause,
        audio_ports=False,
        timeout=pause + DIALOGS / rate + 60,
    ) as sipp:
        process.until(lambda: held(process)[0] == DIALOGS, DIALOGS / rate + 20, "holding all dialogs")
        busy = resident_mb(pid) - base
        process.until(lambda: held(process) == (DIALOGS, 0), 45, "rid of their transactions")
        idle = resident_mb(pid) - base
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors[:2000]
    print(
        f"{DIALOGS} dialogs: {busy:.1f} MB beyond {base:.1f} MB, {idle:.1f} MB once their transactions are"
        f" over: {idle / DIALOGS * 1000:.1f} kB each"
    )
    assert busy < MOST_MB * DIALOGS / 5000 + 5
    process.until(lambda: held(process)[0] == 0, 10, "rid of the dialogs")
