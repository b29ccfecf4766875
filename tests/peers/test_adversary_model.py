"""
A model that fails in every way the fake OpenAI server knows: the caller never gets silence.

All calls run at once against one gateway; after them nothing of them is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.kit import sound
from tests.kit.exchange import Exchange, Number, assert_heard, open_exchange, together
from tests.kit.hear import hear
from tests.kit.office import SCRIPTS, recording
from tests.kit.phone import ReferPlan

pytestmark = pytest.mark.peers

SORRY = sound.utterance(41, 1.0)
FAREWELL, THANKS = recording("farewell"), recording("caller_thanks")


@dataclass(frozen=True)
class Case:
    """A fault and what the call is like with it."""

    faults: str
    reason: str
    says: str = "apology"
    by: str = "gateway"
    or_else: str = ""
    """Another reason that may be seen first."""


REFUSED = [
    Case(faults, "unavailable_rejected", says="nothing")
    for faults in ("status:429", "status:401", "refuse_update", "close:1011@0", "stall", "late_handshake:30")
]
LOST = [
    Case(faults, "session_lost")
    for faults in (
        "close:1011@1", "close:1006@1", "close:1000@1", "expire@2", "error:insufficient_quota@2",
        "close:1011@4.7",
    )
]  # fmt: skip
SPEECHLESS = [
    Case("failed", "response_failed"),
    Case("failed:rate_limit_exceeded", "response_failed"),
    Case("no_audio", "empty_response"),
    Case("silent_audio:2", "inaudible_audio"),
    Case("hang", "speech_broken_off"),
    # The session notices the dead connection at about the time at which the call misses the answer.
    Case("stall@3", "no_audio", or_else="session_lost"),
]
HARMLESS = [
    Case(faults, "end_call", says="farewell", by="agent")
    for faults in (
        "error@2", "unknown_event@1", "garbage@1", "failed#1", "failed#2", "no_audio#1", "no_audio#2",
        "incomplete#1", "late_deltas:3", "stray_deltas:2", "transcript:failed", "transcript:late",
        "rate_limits:none", "no_pong", "slow_reader:0.01", "slow_arguments:1",
    )
]  # fmt: skip
CASES = {case.faults: case for case in [*REFUSED, *LOST, *SPEECHLESS, *HARMLESS]}


def endure(exchange: Exchange, case: Case) -> None:
    """Call, hear the greeting if there is one, say thanks, and hear what is to be heard before the BYE."""
    phone = exchange.phone(case.faults)
    if case.says == "nothing":
        assert phone.dial_and_be_refused(timeout=15).status == 503
        assert 200 not in phone.statuses()
    else:
        phone.call(timeout=15)
        phone.listen(4.5)
        phone.speak(THANKS)
        bye_at = phone.wait_for_bye(25)
        due = SORRY if case.says == "apology" else FAREWELL
        assert_heard(due, phone.heard(before=bye_at), case.faults)
    report = exchange.report(case.faults)
    assert report["reason"] in {case.reason, case.or_else or case.reason}, (case, report["reason"])
    assert report["by"] == case.by, case


@pytest.mark.crowd
def test_a_caller_never_gets_silence_whatever_the_model_does(ports, tmp_path):
    apology = {
        "apology": str(sound.write(tmp_path / "apology.wav", SORRY)),
        "recovery": {"max_swaps": 0},
        "reply_within_s": 2,
    }
    numbers = {name: Number(faults=name, agent=apology) for name in CASES}
    with open_exchange(SCRIPTS / "adversary.yaml", numbers, ports, tmp_path) as exchange:
        before = exchange.gauges()
        together([lambda case=case: endure(exchange, case) for case in CASES.values()])
        exchange.gateway.until(lambda: exchange.gauges() == before, 10, f"as before: {before}")
        assert "Traceback" not in exchange.gateway.log


def test_a_session_lost_while_a_transfer_is_pending_is_apologised_for_when_that_fails(ports, tmp_path):
    apology = {
        "apology": str(sound.write(tmp_path / "apology.wav", SORRY)),
        "recovery": {"max_swaps": 0},
    }
    number = Number(scene="transfer", faults="close:1011@9", agent=apology)
    with open_exchange(SCRIPTS / "adversary.yaml", {"sales": number}, ports, tmp_path) as exchange:
        phone = exchange.phone("sales")
        phone.refer = ReferPlan(notifies=((0.0, "SIP/2.0 100 Trying"), (4.0, "SIP/2.0 486 Busy Here")))
        phone.call()
        phone.listen(4)
        phone.speak(recording("caller_sales"))
        bye_at = phone.wait_for_bye(25)
        assert any(each.message.method == "REFER" for each in phone.received)
        assert hear(SORRY, phone.heard(before=bye_at)).whole
        report = exchange.report("sales")
        assert report["reason"] == "session_lost"
        assert [step["state"] for step in report["transfer"]][-1] == "failed"
