"""
RFC 4475: messages that break parsers, against a real user agent whose application answers calls.

Our own messages for the same faults are in ``tests/data/torture``. The RFC's own are read from
``../shared/oracles/rfc4475`` beside the repository, or from ``$TORTURE_DIR``; where that folder is
missing, ours take their place, so that the number of tests is the same everywhere.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.sip import events as sip
from gateway.sip.parser import ParseError, parse_message
from tests.gateway.sip.rig import ANSWER, Rig

ROOT = Path(__file__).parents[3]
OURS = ROOT / "tests/data/torture"
RFC = Path(os.environ.get("TORTURE_DIR") or ROOT.parent / "shared/oracles/rfc4475")


@dataclass(frozen=True)
class Case:
    name: str
    data: bytes
    answers: tuple[object, ...]
    lenient: tuple[object, ...] = ()


def load(folder: Path, suffix: str) -> list[Case]:
    if not (folder / "expected.json").exists():
        return []
    expected = json.loads((folder / "expected.json").read_text())["messages"]
    return [
        Case(
            name,
            (folder / f"{name}{suffix}").read_bytes(),
            tuple(entry["answers"]),
            tuple(entry.get("lenient", ())),
        )
        for name, entry in expected.items()
    ]


OUR_CASES, RFC_CASES = load(OURS, ".msg"), load(RFC, ".dat")
BOTH = pytest.mark.parametrize("cases", [OUR_CASES, RFC_CASES or OUR_CASES], ids=["ours", "rfc4475"])


def unique(data: bytes, number: int) -> bytes:
    """Make the first branch with a cookie unique, unless the bare cookie is the point."""
    return re.sub(rb"(?i)(branch=z9hG4bK)(?=[^\s;,])", rb"\1-u%d-" % number, data, count=1)


def final_answer(rig: Rig, data: bytes) -> object:
    """Return the final status that a message gets when every offered call is answered."""
    answers = rig.feed(data)
    for event in rig.events():
        if isinstance(event, sip.CallOffered):
            rig.ua.ring(event.call, now=rig.now)
            rig.ua.answer(event.call, ANSWER, now=rig.now)
    answers += rig.sent()
    return answers[-1].status if answers else "silence"


def verdict(case: Case, got: object) -> str:
    if got in case.answers:
        return "right"
    return "lenient" if got in case.lenient else "WRONG"


@pytest.mark.parametrize("case", OUR_CASES, ids=lambda case: case.name)
def test_each_message_alone(case):
    assert final_answer(Rig(), case.data) in case.answers


@BOTH
def test_all_messages_at_one_user_agent(cases):
    """Print the table; no message spoils the answer to a later one."""
    rig, verdicts = Rig(), []
    for number, case in enumerate(cases):
        got = final_answer(rig, unique(case.data, number))
        verdicts.append(verdict(case, got))
        shown = ",".join(str(each) for each in case.answers)
        print(f"{case.name:32} {got!s:8} {verdicts[-1]:8} {shown[:60]}")
    print(f"{verdicts.count('right')} of {len(cases)} right")

    assert verdicts == ["right"] * len(cases)
    assert len(cases) == 49


def test_our_messages_are_our_own():
    assert not {case.data for case in OUR_CASES} & {case.data for case in RFC_CASES}


@BOTH
def test_the_parser_reads_or_refuses_and_what_it_reads_it_writes(cases):
    read = 0
    for case in cases:
        try:
            message = parse_message(case.data)
        except ParseError:
            continue
        read += 1
        again = parse_message(message.to_bytes())
        assert again.body == message.body
        for name in {name for name, _ in message.headers} - {"Content-Length"}:
            assert again.headers.get_all(name) == message.headers.get_all(name), (case.name, name)

    assert read >= 25
