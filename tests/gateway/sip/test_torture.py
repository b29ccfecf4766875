"""
RFC 4475: messages that break parsers, against a real user agent whose application answers calls.

Our own messages for the same faults are in ``tests/data/torture``. The RFC's own are read from
``../shared/oracles/rfc4475`` beside the repository, or from ``$TORTURE_DIR``; where that folder is
missing, ours take their place, so that the number of tests is the same everywhere.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.sip.parser import ParseError, parse_message
from tests.gateway.sip.conformance import ROOT, TORTURE, final_answer, judge, load, show
from tests.gateway.sip.rig import Rig

RFC = Path(os.environ.get("TORTURE_DIR") or ROOT.parent / "shared/oracles/rfc4475")
OUR_CASES, RFC_CASES = load(TORTURE, ".msg"), load(RFC, ".dat")
BOTH = pytest.mark.parametrize("cases", [OUR_CASES, RFC_CASES or OUR_CASES], ids=["ours", "rfc4475"])


@pytest.mark.parametrize("case", OUR_CASES, ids=lambda case: case.name)
def test_each_message_alone(case):
    assert final_answer(Rig(), case.data) in case.answers


@BOTH
def test_all_messages_at_one_user_agent(cases):
    """Print the table; no message spoils the answer to a later one."""
    results = judge(cases)
    show(results)

    assert [result.verdict for result in results] == ["right"] * len(cases)
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
