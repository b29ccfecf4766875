"""One run of the demo: the processes, the three calls, what they left behind."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.checks import Evidence, Finding, check_first, check_refused, check_transfer
from deploy.demo.evidence import EvidenceError, read_caller, read_lookups, read_recording
from deploy.demo.props import ROOT, Part, Ports, write_settings
from deploy.demo.record import read_record
from deploy.demo.stage import HOST, Actor, Stage, StageError, free_port, free_port_range, python

CALL_S = 75.0
"""More than the longest call can take: every wait of the caller is bounded."""


@dataclass(frozen=True, slots=True)
class Act:
    """One of the three calls."""

    title: str
    story: str
    number: str
    check: Callable[[Evidence], list[Finding]]


ACTS = (
    Act("A caller interrupts, asks, and says goodbye", "first", "+12125550100", check_first),
    Act("A caller wants Sales", "transfer", "+12125550101", check_transfer),
    Act("A caller wants a number that is not configured", "refused", "+12125550102", check_refused),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of one act when the curtain has fallen."""

    act: Act
    evidence: Evidence
    findings: list[Finding]
    folder: Path
    """The gateway's folder of this call."""


def play(work: Path, without: Part | None, say: Callable[[str], None]) -> list[Outcome]:
    """Run everything once; raises :exc:`StageError` or :exc:`EvidenceError` with a sentence."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with Stage(work, ROOT) as stage:
        ports = _ports(stage, work)
        gateway = _start_gateway(stage, work, ports, without)
        say(f"the gateway listens on udp:{HOST}:{ports.sip}; three callers dial")
        callers = [_start_caller(stage, work, act, ports, without) for act in ACTS]
        for act, caller in zip(ACTS, callers, strict=True):
            stage.finish(caller, within=CALL_S)
            say(f"the {caller.name} is done: {act.title.lower()}")
        code = stage.end(gateway)
        if code:
            raise StageError(f"the gateway ended with code {code} when it was asked to:\n{gateway.tail()}")
    return [_outcome(work, act) for act in ACTS]


def _ports(stage: Stage, work: Path) -> Ports:
    stub = stage.start("look-up service", python("deploy.demo.stub", "--report", str(work / "lookups.jsonl")))
    lookup = int(stage.wait_for_line(stub, "listening", within=10))
    sip = free_port(socket.SOCK_DGRAM)
    first, last = free_port_range(besides=[sip])
    return Ports(
        sip=sip,
        http=free_port(socket.SOCK_STREAM),
        rtp_first=first,
        rtp_last=last,
        lookup=lookup,
    )


def _start_gateway(stage: Stage, work: Path, ports: Ports, without: Part | None) -> Actor:
    settings = write_settings(work, ports, without)
    trunkline = Path(sys.executable).parent / "trunkline"
    gateway = stage.start("gateway", [str(trunkline), "serve", str(settings)])
    stage.wait_for_url(gateway, f"http://{HOST}:{ports.http}/readyz", within=20)
    return gateway


def _start_caller(stage: Stage, work: Path, act: Act, ports: Ports, without: Part | None) -> Actor:
    patient = ["--patient", "--patience", "20"] if without is Part.BARGE_IN else []
    caller = stage.start(
        f"{act.story} caller",
        python(
            "deploy.demo.caller", "--gateway", f"{HOST}:{ports.sip}", "--to", act.number,
            "--story", act.story, "--out", str(work / act.story), *patient,
        ),
    )  # fmt: skip
    time.sleep(0.3)  # so that three interpreters do not start at the same moment as the first greeting
    return caller


def _outcome(work: Path, act: Act) -> Outcome:
    folders = [
        path.parent
        for path in sorted((work / "recordings").glob("*/call.json"))
        if read_record(path).called == act.number
    ]
    if len(folders) != 1:
        raise EvidenceError(f"the gateway recorded {len(folders)} calls to {act.number}, 1 was made")
    record = read_record(folders[0] / "call.json")
    evidence = Evidence(
        caller=read_caller(work / act.story),
        record=record,
        recording=read_recording(folders[0] / "call.flac"),
        lookups=tuple(read_lookups(work / "lookups.jsonl")),
    )
    return Outcome(act, evidence, act.check(evidence), folders[0])
