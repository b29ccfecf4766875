"""
Callers who give up, hold, move, flood and say goodbye at every odd moment, all at once at one gateway.

After them nothing of them is left, and each record says the truth about its call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.kit.exchange import Exchange, Number, assert_heard, open_exchange, together
from tests.kit.hear import hear
from tests.kit.office import SCRIPTS, recording
from tests.kit.phone import ReferPlan
from tests.kit.rogue import Manner, Rogue
from tests.kit.sound import Pcm

pytestmark = pytest.mark.peers

GREETING, FAREWELL = recording("greeting"), recording("farewell")
THANKS, SALES = recording("caller_thanks"), recording("caller_sales")
MUTE = Manner(acknowledges=False)


@dataclass(frozen=True)
class Case:
    """What one caller does, and how the call ends by its record."""

    act: Callable[[Rogue], None]
    reason: str
    by: str
    manner: Manner | None = None
    codec: str = "PCMU"
    number: Number = field(default_factory=Number)
    cut_off: Pcm | None = None
    """The recording in which the caller hangs up."""


def to_the_end(phone: Rogue) -> None:
    """Be greeted, say thanks, and hear the whole farewell before the BYE."""
    phone.call()
    phone.listen(4.5)
    phone.speak(THANKS)
    says_goodbye(phone)


def says_goodbye(phone: Rogue) -> None:
    bye_at = phone.wait_for_bye(20)
    assert_heard(FAREWELL, phone.heard(before=bye_at))


def cancels_after(seconds: float) -> Callable[[Rogue], None]:
    def act(phone: Rogue) -> None:
        phone.dial()
        phone.listen(seconds)
        phone.cancel()
        phone.wait_for(lambda message: message.status == 487, 3)

    return act


def leaves_in_the_greeting(phone: Rogue) -> None:
    phone.call()
    phone.listen(1)
    phone.hang_up()


def leaves_in_the_farewell(phone: Rogue) -> None:
    phone.call()
    phone.listen(4.5)
    phone.speak(THANKS)
    phone.listen(2)
    phone.hang_up()


def leaves_before_the_ack(phone: Rogue) -> None:
    phone.dial()
    phone.until(lambda: 200 in phone.statuses(), 5, "200")
    phone.send_bye()
    phone.wait_for(lambda message: message.answers == "BYE" and message.status == 200, 3)


def never_acknowledges(phone: Rogue) -> None:
    phone.dial()
    phone.wait_for_bye(12)


def leaves_while_the_transfer_is_pending(phone: Rogue) -> None:
    phone.refer = ReferPlan(status=100)
    phone.call()
    phone.listen(4.5)
    phone.speak(SALES)
    phone.wait_for(lambda message: message.method == "REFER", 15, "REFER")
    phone.hang_up()


def holds_and_resumes(phone: Rogue) -> None:
    phone.call()
    phone.listen(1.5)
    assert "a=recvonly" in phone.re_invite("sendonly").body
    before = len(phone.audio)
    phone.listen(1)
    assert len(phone.audio) <= before + 1
    assert "a=sendrecv" in phone.re_invite("sendrecv").body
    phone.listen(3.5)
    assert hear(GREETING, phone.heard()).heard_ms > 0
    phone.speak(THANKS)
    says_goodbye(phone)


def resumes_without_an_offer(phone: Rogue) -> None:
    phone.call()
    phone.listen(1.5)
    phone.re_invite("inactive")
    assert "a=sendrecv" in phone.re_invite("sendrecv", offers=False).body
    phone.listen(3.5)
    phone.speak(THANKS)
    says_goodbye(phone)


def asks_again_in_the_farewell(phone: Rogue) -> None:
    phone.call()
    phone.listen(4.5)
    phone.speak(THANKS)
    phone.listen(1.5)
    assert phone.re_invite().status == 200
    says_goodbye(phone)


def moves_its_audio(phone: Rogue) -> None:
    phone.call()
    phone.listen(1)
    phone.move_audio(phone.rtp.getsockname()[1] + 1)
    phone.listen(3.5)
    phone.speak(THANKS)
    says_goodbye(phone)


def presses_keys_in_the_farewell(phone: Rogue) -> None:
    phone.call()
    phone.listen(4.5)
    phone.speak(THANKS)
    phone.listen(1.5)
    for key in "12#":
        phone.press(key)
        phone.listen(0.2)
    says_goodbye(phone)


def talks_into_the_farewell(phone: Rogue) -> None:
    """BR-093: nobody is hung up on while talking."""
    phone.call()
    phone.listen(4.5)
    phone.speak(THANKS)
    phone.listen(2)
    talked = np.concatenate([THANKS] * 3)
    phone.speak(talked)
    assert not any(each.message.method == "BYE" for each in phone.received)
    says_goodbye(phone)


CASES = {
    **{
        f"cancels after {after} s": Case(
            cancels_after(after), "cancel", "caller", number=Number(faults="late_handshake:1")
        )
        for after in (0, 0.1, 0.5)
    },
    "leaves in the greeting": Case(leaves_in_the_greeting, "bye", "caller", cut_off=GREETING),
    "leaves in the farewell": Case(leaves_in_the_farewell, "bye", "caller", cut_off=FAREWELL),
    "leaves before the ACK": Case(leaves_before_the_ack, "bye", "caller", manner=MUTE),
    "never acknowledges": Case(never_acknowledges, "ack_timeout", "gateway", manner=MUTE),
    "leaves in a transfer": Case(
        leaves_while_the_transfer_is_pending, "bye", "caller", number=Number(scene="transfer")
    ),
    "holds": Case(holds_and_resumes, "end_call", "agent"),
    "resumes without an offer": Case(resumes_without_an_offer, "end_call", "agent"),
    "asks again in the farewell": Case(asks_again_in_the_farewell, "end_call", "agent"),
    "moves its audio": Case(moves_its_audio, "end_call", "agent"),
    "keys in the farewell": Case(presses_keys_in_the_farewell, "end_call", "agent"),
    "talks into the farewell": Case(talks_into_the_farewell, "end_call", "agent"),
    "late offer": Case(to_the_end, "end_call", "agent", manner=Manner(late_offer=True)),
    "PCMA": Case(to_the_end, "end_call", "agent", codec="PCMA"),
    "10 ms": Case(to_the_end, "end_call", "agent", manner=Manner(frame_ms=10)),
    "30 ms": Case(to_the_end, "end_call", "agent", manner=Manner(frame_ms=30)),
    "60 ms": Case(to_the_end, "end_call", "agent", manner=Manner(frame_ms=60)),
    "garbage": Case(to_the_end, "end_call", "agent", manner=Manner(garbage=5)),
    "twice the rate": Case(leaves_in_the_greeting, "bye", "caller", manner=Manner(copies=4)),
}  # fmt: skip


def assert_truth(cut_off: Pcm, phone: Rogue, report: dict[str, object]) -> None:
    """What the record says was heard is what came: the agent speaks without a pause until the BYE."""
    capture = phone.heard()
    heard_ms = len(capture) / 8 - hear(cut_off, capture).start_ms
    last = report["transcript"][-1]
    assert last["interrupted"]
    assert abs(last["heard_ms"] - heard_ms) <= 100, (last, heard_ms)


def call(exchange: Exchange, name: str, case: Case) -> None:
    phone = exchange.phone(name, manner=case.manner, codec=case.codec)
    case.act(phone)
    report = exchange.report(name)
    assert (report["reason"], report["by"]) == (case.reason, case.by), name
    if case.cut_off is not None:
        assert_truth(case.cut_off, phone, report)
    assert report["dropped_events"] == 0
    assert report["audio"]["seconds"] < report["ended"] + 4


@pytest.mark.crowd
def test_odd_callers_get_what_they_are_due_and_leave_nothing_behind(ports, tmp_path):
    numbers = {name: case.number for name, case in CASES.items()}
    server = {"sip": {"timers": {"t1_ms": 100, "t2_ms": 400}}}
    with open_exchange(SCRIPTS / "adversary.yaml", numbers, ports, tmp_path, server=server) as exchange:
        before = exchange.gauges()
        together([lambda name=name, case=case: call(exchange, name, case) for name, case in CASES.items()])
        exchange.gateway.until(lambda: exchange.gauges() == before, 15, f"as before: {before}")
        assert "Traceback" not in exchange.gateway.log


@pytest.mark.crowd
def test_fifty_calls_in_one_second_are_all_answered_and_leave_nothing_behind(ports, tmp_path):
    numbers = {f"caller {number}": Number() for number in range(50)}
    with open_exchange(SCRIPTS / "adversary.yaml", numbers, ports, tmp_path) as exchange:
        before = exchange.gauges()

        def hello(name: str) -> None:
            phone = exchange.phone(name)
            phone.call(timeout=15)
            phone.listen(2)
            phone.hang_up()
            assert hear(GREETING[:8000], phone.heard()).heard_ms > 0

        together([lambda name=name: hello(name) for name in numbers])
        exchange.gateway.until(lambda: exchange.gauges() == before, 15, f"as before: {before}")
        assert {exchange.report(name)["reason"] for name in numbers} == {"bye"}
