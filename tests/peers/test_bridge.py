"""
Transfers by a call of our own: two telephones that hear each other through the gateway.

The caller's telephone and the colleague's are both the kit's; every branch ends with ports, tasks and file
descriptors back where they were.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import soundfile

from tests.kit import sound
from tests.kit.colleague import Colleague, number_in, together
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.office import EVERY, NUMBER, SALES, Office, recording
from tests.kit.phone import Phone, ReferPlan
from tests.kit.sound import RATE, Pcm

pytestmark = pytest.mark.peers

ANNOUNCEMENT, APOLOGY = recording("okay"), recording("still_there")
CALLER_SAYS, COLLEAGUE_SAYS = sound.utterance(51, 1.5), sound.utterance(52, 1.5)
BRIDGE = {"transfer": {"method": "bridge"}}


class Scene:
    """A caller, a colleague, and a gateway whose trunk leads to the colleague."""

    def __init__(self, office: Office, colleague: Colleague, gateway: Gateway, phone: Phone) -> None:
        self.office, self.colleague, self.gateway, self.phone = office, colleague, gateway, phone
        self.before = gateway.metrics()

    def ask_for_sales(self) -> None:
        """Call; on return the colleague's telephone has the INVITE."""
        self.phone.call()
        self.colleague.until_called()

    def talk(self) -> None:
        """Let both say something, and each hear the other."""
        self.phone.say(CALLER_SAYS)
        self.colleague.say(COLLEAGUE_SAYS)
        until_understood(CALLER_SAYS, self.colleague)
        until_understood(COLLEAGUE_SAYS, self.phone)

    def record(self) -> dict[str, object]:
        """The call's record, once the call is over."""
        folder = self.office.folder / "recordings"
        self.phone.until(lambda: list(folder.glob("*/call.json")), 10, "call.json")
        return json.loads(next(folder.glob("*/call.json")).read_text())

    def log(self) -> str:
        """What the audit says of the transfer's outcome so far."""
        lines = (self.gateway.folder / "gateway.log").read_text().splitlines()
        return "".join(line for line in lines if "transfer_confirmed" in line and "reason_code" in line)

    def steps(self) -> list[tuple[str, str, str]]:
        return [(each["state"], each["method"], each["reason"]) for each in self.record()["transfer"]]

    def nothing_is_left(self) -> None:
        names = ("trunkline_calls_active", "trunkline_rtp_ports_leased", "trunkline_asyncio_tasks")

        def back() -> bool:
            now = self.gateway.metrics()
            return all(now[name] <= self.before[name] for name in names) and (
                now["process_open_fds"] <= self.before["process_open_fds"] + 1
            )

        self.phone.until(back, 10, "ports, tasks and descriptors")


def until_understood(words: Pcm, phone: Phone, timeout: float = 10.0) -> None:
    """Wait until a telephone heard something, but for what a machine under load may hold back."""
    end = time.monotonic() + timeout
    while (found := hear(words, phone.heard()[-len(words) - 5 * RATE :])).heard_ms < found.audible_ms - 60:
        assert time.monotonic() < end, found
        phone.listen(0.25)


WARM = {
    "tools": {
        "transfer_call": {"enabled": True, "numbers": [{"number": SALES, "label": "Sales", "mode": "warm"}]}
    }
}
BRIEFING = recording("one_moment")


@contextmanager
def scene(
    office: Office,
    *,
    script: str = "handover",
    plan: tuple[tuple[float, int], ...] = ((0.0, 180), (0.3, 200)),
    codec: str = "PCMU",
    refer: ReferPlan | None = None,
    agent: dict[str, object] | None = None,
) -> Iterator[Scene]:
    with Colleague(office.ports, plan=plan, codec=codec) as colleague:
        gateway = office.open(
            script,
            trunk={"address": colleague.address, "trusted": True},
            agent=BRIDGE if agent is None else agent,
        )
        phone = office.phone(gateway, refer=refer)
        with together(phone, colleague):
            yield Scene(office, colleague, gateway, phone)


def test_the_caller_and_the_colleague_hear_each_other_to_the_last_word(office):
    with scene(office) as call:
        call.ask_for_sales()
        invite = call.colleague.invite
        assert number_in(invite) == SALES
        assert invite.uri("from").startswith(f"sip:{NUMBER}@")
        assert invite.uri("p-asserted-identity").startswith(f"sip:{call.phone.caller}@")
        assert invite.uri("diversion").startswith(f"sip:{NUMBER}@")
        call.colleague.until_answered()
        assert hear(ANNOUNCEMENT, call.phone.heard()).whole
        call.talk()
        call.phone.hang_up()
        call.colleague.wait_for_bye(5)
        assert [step[:2] for step in call.steps()] == [
            ("requested", ""),
            ("announced", ""),
            ("redirecting", "bridge"),
            ("confirmed", "bridge"),
        ]
        record = call.record()
        assert (record["reason"], record["by"]) == ("transferred", "caller")
        call.nothing_is_left()


def test_the_recording_has_both_voices(fake_office):
    with scene(fake_office) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        call.talk()
        call.colleague.hang_up()
        call.phone.wait_for_bye(5)
        assert call.record()["by"] == "callee"
        samples, rate = soundfile.read(
            next((fake_office.folder / "recordings").glob("*/call.flac")), dtype="int16"
        )

    assert rate == 8000
    for words, heard in ((CALLER_SAYS, samples[:, 0]), (COLLEAGUE_SAYS, samples[:, 1])):
        found = hear(words, heard)
        assert found.heard_ms >= found.audible_ms - 60


def test_a_colleague_with_the_other_law_is_understood(fake_office):
    with scene(fake_office, codec="PCMA") as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        call.talk()


def test_keys_go_through_to_the_other_side(fake_office):
    with scene(fake_office) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        call.colleague.listen(0.3)  # the ACK leaves a moment before the two are joined
        for key in "42#":
            call.phone.press(key)
            call.phone.listen(0.4)
        call.colleague.listen(0.5)
        assert call.colleague.keys() == "42#"
        call.phone.hang_up()
        assert [each["digit"] for each in call.record()["dtmf"]] == ["4", "2", "#"]


@pytest.mark.parametrize("status", [405, 603])
def test_a_trunk_that_refuses_refer_is_passed_over(fake_office, status):
    with scene(fake_office, refer=ReferPlan(status=status), agent={}) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        call.talk()
        call.phone.hang_up()
        call.colleague.wait_for_bye(5)
        assert [step[:2] for step in call.steps()][2:] == [("redirecting", "bridge"), ("confirmed", "bridge")]


@pytest.mark.parametrize(("status", "reason"), [(486, "busy"), (603, "declined")])
def test_whoever_does_not_take_the_call_gives_the_caller_back_to_the_agent(fake_office, status, reason):
    with scene(fake_office, plan=((0.0, 180), (0.5, status))) as call:
        call.ask_for_sales()
        call.phone.until_heard(APOLOGY, 15, "the apology")
        call.phone.speak(recording("caller_thanks"))
        call.phone.wait_for_bye(10)
        assert call.steps()[2:] == [("redirecting", "bridge", ""), ("failed", "bridge", reason)]
        call.nothing_is_left()


def test_a_telephone_that_rings_and_rings_is_given_up(fake_office):
    agent = {"transfer": {"method": "bridge", "ring_s": 1.0}}
    with scene(fake_office, plan=((0.0, 180),), agent=agent) as call:
        call.ask_for_sales()
        call.colleague.wait_for(lambda message: message.method == "CANCEL", 5, "CANCEL")
        call.phone.until_heard(APOLOGY, 15, "the apology")
        call.phone.hang_up()
        assert call.steps()[-1] == ("failed", "bridge", "no_answer")


def test_the_caller_hears_ringing_meanwhile(fake_office):
    with scene(fake_office, plan=((0.0, 180), (5.0, 200))) as call:
        call.ask_for_sales()
        call.phone.listen(2.0)
        heard = call.phone.heard()[-8000:].astype(float)
        spectrum = np.abs(np.fft.rfft(heard))
        assert sorted(spectrum.argsort()[-2:]) == [440, 480]  # +1: the American tone
        call.phone.hang_up()


def test_early_media_takes_the_place_of_our_ringing(fake_office):
    with scene(fake_office, plan=((0.0, 183), (4.0, 200))) as call:
        call.ask_for_sales()
        call.colleague.listen(0.3)
        call.colleague.say(COLLEAGUE_SAYS)
        call.phone.until_heard(COLLEAGUE_SAYS, 4, "the far end's own announcement")
        assert not call.colleague.acknowledged
        call.phone.hang_up()


def test_a_caller_who_hangs_up_while_it_rings_takes_the_call_back(fake_office):
    with scene(fake_office, plan=((0.0, 180),)) as call:
        call.ask_for_sales()
        call.phone.listen(0.3)
        call.phone.hang_up()
        call.colleague.wait_for(lambda message: message.method == "CANCEL", 5, "CANCEL")
        assert call.record()["reason"] == "bye"
        call.nothing_is_left()


@pytest.mark.report("BR-030")
def test_a_colleague_who_answers_while_the_cancel_is_on_its_way_is_hung_up(fake_office):
    with scene(fake_office, plan=((0.0, 180),)) as call:
        colleague = call.colleague
        colleague.deaf_to_cancel = True
        call.ask_for_sales()
        call.phone.listen(0.3)
        call.phone.hang_up()
        colleague.wait_for(lambda message: message.method == "CANCEL", 5, "CANCEL")
        colleague.listen(0.02)
        colleague.say_status(200)
        colleague.wait_for_bye(5)
        assert colleague.acknowledged
        assert colleague.methods().count("BYE") == 1
        call.nothing_is_left()


@pytest.mark.report("BR-017")
def test_the_colleagues_hold_is_answered_in_our_own_call(fake_office):
    with scene(fake_office) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        answer = call.colleague.reinvite("sendonly", host="0.0.0.0")
        assert answer.status == 200
        assert "a=recvonly" in answer.body
        assert "c=IN IP4 127.0.0.1" in answer.body
        again = call.colleague.reinvite("sendrecv")
        assert again.status == 200
        call.talk()
        call.phone.hang_up()
        call.colleague.wait_for_bye(5)


def test_a_wish_for_a_number_that_is_not_configured_is_declined(fake_office):
    with scene(fake_office) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        call.colleague.pass_on("sip:+19005550000@gw.example")
        declined = call.colleague.wait_for(lambda message: message.answers == "REFER", 5, "603")
        assert declined.status == 603
        call.talk()
        call.phone.hang_up()


@pytest.mark.report("BR-101")
def test_a_colleague_passes_the_caller_on_and_hangs_up_before_anybody_answers(fake_office):
    night = "+12025550177"
    numbers = [{"number": SALES, "label": "Sales"}, {"number": night, "label": "Night desk"}]
    agent = {**BRIDGE, "tools": {"transfer_call": {"enabled": True, "numbers": numbers}}}
    with Colleague(fake_office.ports, plan=((0.0, 180), (1.2, 200))) as third:
        with scene(fake_office, agent=agent) as call:
            call.ask_for_sales()
            call.colleague.until_answered()
            call.colleague.hand_over_to(third)
            call.colleague.pass_on(f"sip:{night}@gw.example")
            with together(call.phone, call.colleague, third):
                third.until_called()
                assert number_in(third.invite) == night
                call.colleague.listen(0.28)
                call.colleague.hang_up()
                third.until_answered()
                assert call.colleague.notified()[0] == "SIP/2.0 100 Trying"
                call.phone.say(CALLER_SAYS)
                third.say(COLLEAGUE_SAYS)
                until_understood(CALLER_SAYS, third)
                until_understood(COLLEAGUE_SAYS, call.phone)
                third.hang_up()
                call.phone.wait_for_bye(5)
                call.nothing_is_left()


def test_an_agent_who_cannot_be_reached_hands_over_by_a_call_of_ours(fake_office, tmp_path):
    agent = {**BRIDGE, "on_unavailable": {"transfer": SALES}}
    with scene(fake_office, script="refused", agent=agent) as call:
        call.phone.call()
        call.colleague.until_answered()
        call.talk()
        call.colleague.hang_up()
        call.phone.wait_for_bye(5)
        assert call.record()["reason"] == "unavailable_transferred"
        call.nothing_is_left()


@EVERY
def test_a_colleague_who_accepts_is_joined_with_the_caller(office):
    with scene(office, script="warm", agent=WARM) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        call.colleague.until_heard(BRIEFING, 10, "the briefing")
        assert not hear(BRIEFING, call.phone.heard()).whole
        call.colleague.press("1")
        call.colleague.listen(0.3)
        call.talk()
        call.colleague.hang_up()
        call.phone.wait_for_bye(5)
        assert [step[:2] for step in call.steps()] == [
            ("requested", ""),
            ("announced", ""),
            ("redirecting", "warm"),
            ("confirmed", "warm"),
        ]
        spoken = [(each["who"], each.get("to")) for each in call.record()["transcript"]]
        assert spoken == [("agent", "caller"), ("agent", "colleague")]
        call.nothing_is_left()


def test_a_colleague_who_says_yes_is_joined_with_the_caller(office):
    with scene(office, script="warm_voice", agent=WARM) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        call.colleague.until_heard(BRIEFING, 10, "the briefing")
        call.colleague.speak(recording("caller_thanks"))
        call.colleague.until(lambda: '"reason_code":"transfer_confirmed"' in call.log(), 10, "the transfer")
        call.talk()
        call.phone.hang_up()
        call.colleague.wait_for_bye(5)
        assert call.steps()[-1] == ("confirmed", "warm", "")
        assert [each["who"] for each in call.record()["transcript"]].count("colleague") == 1
        call.nothing_is_left()


@pytest.mark.parametrize("how", ["key", "hang up", "silence"])
def test_a_colleague_who_does_not_accept_gives_the_caller_back(fake_office, how):
    agent = {**WARM, "transfer": {"decide_s": 4.0 if how == "silence" else 60.0}}
    with scene(fake_office, script="warm", agent=agent) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        call.colleague.until_heard(BRIEFING, 10, "the briefing")
        if how == "key":
            call.colleague.press("2")
        elif how == "hang up":
            call.colleague.hang_up()
        call.phone.until_heard(APOLOGY, 10, "the agent again")
        if how != "hang up":
            call.colleague.wait_for_bye(5)
        call.phone.hang_up()
        reason = {"key": "declined", "hang up": "hung_up", "silence": "no_decision"}[how]
        assert call.steps()[-1] == ("failed", "warm", reason)
        call.nothing_is_left()


def test_the_caller_of_a_warm_transfer_hears_that_somebody_is_still_there(fake_office, tmp_path):
    music = sound.write(tmp_path / "hold.wav", COLLEAGUE_SAYS)
    agent = {**WARM, "transfer": {"hold": str(music)}}
    with scene(fake_office, script="warm", agent=agent) as call:
        call.ask_for_sales()
        call.phone.until_heard(COLLEAGUE_SAYS, 8, "the music")
        call.phone.hang_up()
        call.colleague.wait_for(lambda message: message.method in {"CANCEL", "BYE"}, 5, "the end")
        call.nothing_is_left()
