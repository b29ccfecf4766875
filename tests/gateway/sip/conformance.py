"""
The messages of RFC 4475 and RFC 5118 at a user agent, as a table: ``docs/sip-conformance.md``.

``python -m tests.gateway.sip.conformance`` writes the page; a test compares it with what it would write.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from gateway.sip import events as sip
from gateway.sip.flow import Flow
from tests.gateway.sip.rig import ANSWER, UDP, Rig

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/sip-conformance.md"
TORTURE = ROOT / "tests/data/torture"
IPV6 = ROOT / "tests/data/ipv6"
UDP6 = Flow("udp", ("2001:db8::9:1", 5060), ("2001:db8::10", 5060))

HEAD = """\
# SIP conformance

What a running user agent answers to messages that break parsers, when its application answers every call. The
messages are our own (`tests/data`), one for each fault that the RFC describes; the RFC's own 49 messages are
judged by the same test where they are at hand. This page is written by
`python -m tests.gateway.sip.conformance` and compared with the code by a test.
"""


@dataclass(frozen=True)
class Case:
    """One message; ``answers`` are the final statuses that are right, ``silence`` for none."""

    name: str
    data: bytes
    answers: tuple[object, ...]
    about: str = ""
    section: str = ""
    lenient: tuple[object, ...] = ()


@dataclass(frozen=True)
class Result:
    case: Case
    got: object

    @property
    def verdict(self) -> str:
        if self.got in self.case.answers:
            return "right"
        return "lenient" if self.got in self.case.lenient else "WRONG"


def load(folder: Path, suffix: str) -> list[Case]:
    """Return the cases of a folder in the order of its ``expected.json``; none where there is no folder."""
    if not (folder / "expected.json").exists():
        return []
    expected = json.loads((folder / "expected.json").read_text())["messages"]
    return [
        Case(
            name,
            (folder / f"{name}{suffix}").read_bytes(),
            tuple(entry["answers"]),
            entry.get("rule") or entry.get("fault", ""),
            entry.get("section", ""),
            tuple(entry.get("lenient", ())),
        )
        for name, entry in expected.items()
    ]


def unique(data: bytes, number: int) -> bytes:
    """Make the first branch with a cookie unique, unless the bare cookie is the point."""
    return re.sub(rb"(?i)(branch=z9hG4bK)(?=[^\s;,])", rb"\1-u%d-" % number, data, count=1)


def final_answer(rig: Rig, data: bytes, flow: Flow = UDP) -> object:
    """Return the final status that a message gets when every offered call is answered."""
    answers = rig.feed(data, flow)
    for event in rig.events():
        if isinstance(event, sip.CallOffered):
            rig.ua.ring(event.call, now=rig.now)
            rig.ua.answer(event.call, ANSWER, now=rig.now)
    answers += rig.sent()
    return answers[-1].status if answers else "silence"


def judge(cases: list[Case], flow: Flow = UDP) -> list[Result]:
    """Send all messages to one user agent, one after the other."""
    rig = Rig()
    return [
        Result(case, final_answer(rig, unique(case.data, number), flow)) for number, case in enumerate(cases)
    ]


def show(results: list[Result]) -> None:
    """Print the table for a test's output."""
    for result in results:
        wanted = ",".join(map(str, result.case.answers))
        print(f"{result.case.name:32} {result.got!s:8} {result.verdict:8} {wanted[:60]}")
    print(f"{[result.verdict for result in results].count('right')} of {len(results)} right")


def page() -> str:
    """Return the page as it should be."""
    torture, ipv6 = judge(load(TORTURE, ".msg")), judge(load(IPV6, ".msg"), UDP6)
    return "\n".join(
        [
            HEAD,
            *_section("RFC 4475: torture test messages", torture),
            "",
            *_section("RFC 5118: IPv6", ipv6),
            "",
        ]
    )


def _section(title: str, results: list[Result]) -> list[str]:
    right = sum(result.verdict == "right" for result in results)
    return [
        f"## {title}",
        "",
        f"{right} of {len(results)} right.",
        "",
        "| fault | answer | right | |",
        "| --- | --- | --- | --- |",
        *map(_row, results),
    ]


def _row(result: Result) -> str:
    case = result.case
    about = case.about.replace("|", "\\|")
    where = f"{case.section}: {about}" if case.section else about
    wanted = ", ".join(map(str, case.answers))
    return f"| {where} | {result.got} | {wanted} | {'' if result.verdict == 'right' else result.verdict} |"


if __name__ == "__main__":
    PAGE.write_text(page())
