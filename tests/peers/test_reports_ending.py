"""
Field reports of the category end-call/transfer, held on real SIP calls through ``trunkline serve``.

Several were reported of carriers' REST calls or WebSockets, which this gateway does not have yet; their tests
hold the same kind of fault on a SIP line and say so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kit import sip_text, sound
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.model import Model, received, reports
from tests.kit.office import NUMBER, SALES, Office
from tests.kit.phone import ReferPlan
from tests.kit.stubborn import Stubborn

pytestmark = pytest.mark.peers

SOUNDS = {
    "greeting": sound.utterance(1, 0.8),
    "farewell": sound.utterance(2, 2.0),
    "announcement": sound.utterance(3, 0.8),
    "apology": sound.utterance(4, 0.8),
}
"""What the agent says: short, and found again by content."""
GREETING, FAREWELL, APOLOGY = SOUNDS["greeting"], SOUNDS["farewell"], SOUNDS["apology"]
THANKS = WISH = sound.utterance(5, 0.9)
FAREWELL_SCRIPT = """
steps:
  - {on: greeting, say: {audio: greeting.wav, text: Hello}}
  - {on: caller_turn, say: {audio: farewell.wav, text: Goodbye}, call: {tool: end_call, arguments: {}}}
"""
TRANSFER_SCRIPT = f"""
steps:
  - {{on: greeting, say: {{audio: greeting.wav, text: Hello}}}}
  - on: caller_turn
    say: {{audio: announcement.wav, text: One moment}}
    call: {{tool: transfer_call, arguments: {{phone_number: "{SALES}"}}}}
  - {{on: {{text: "failed"}}, say: {{audio: apology.wav, text: Sorry}}}}
  - on: caller_turn
    say: {{audio: farewell.wav, text: Goodbye}}
    call: {{tool: end_call, arguments: {{}}}}
"""
QUICK = {"sip": {"timers": {"t1_ms": 50, "t2_ms": 400, "t4_ms": 500}, "refer_timeout_s": 1}}
"""Timer F, after which a BYE without an answer is given up, is 64 times T1: 3.2 s."""
HELD = ("trunkline_asyncio_tasks", "process_open_fds", "trunkline_rtp_ports_leased", "trunkline_calls_active")


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path) -> Path:
    """The folder of the scripts and of their sounds."""
    for name, pcm in SOUNDS.items():
        sound.write(tmp_path / f"{name}.wav", pcm)
    (tmp_path / "farewell.yaml").write_text(FAREWELL_SCRIPT)
    (tmp_path / "transfer.yaml").write_text(TRANSFER_SCRIPT)
    return tmp_path


def stubborn(office: Office, gateway: Gateway, **options: object) -> Stubborn:
    return office.stack.enter_context(Stubborn(gateway.sip, office.ports, called=NUMBER, **options))


def held(gateway: Gateway) -> dict[str, float]:
    metrics = gateway.metrics()
    return {name: metrics[name] for name in HELD}


def goes_back_to(gateway: Gateway, before: dict[str, float]) -> None:
    """Wait until nothing of the calls is held any more: no task, socket, port or call."""
    gateway.until(lambda: held(gateway) == before, 10, f"as before: {before}, now {held(gateway)}")


def faults(gateway: Gateway) -> list[str]:
    return [line for line in gateway.log.splitlines() if '"level":"error"' in line.replace(" ", "")]


def say_thanks(phone: Stubborn) -> None:
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(THANKS)


def report_of(office: Office) -> dict:
    [report] = reports(office.folder / "recordings")
    return report


# The end.


@pytest.mark.report("BR-091")
def test_a_farewell_that_arrives_in_a_burst_is_heard_whole_before_the_bye(openai_office, tmp_path):
    """The model sends 3.2 s of speech and ``end_call`` at once; the BYE follows the last byte heard."""
    goodbye = sound.utterance(91, 3.2)
    sound.write(tmp_path / "goodbye.wav", goodbye)
    script = """
        speech: {speed: 50}
        steps:
          - on: greeting
            say: {audio: goodbye.wav, text: "Thank you for calling, goodbye"}
            call: {tool: end_call, arguments: {}}
    """
    with Model(script, tmp_path) as model:
        gateway = openai_office.start(with_model(openai_office, model))
        phone = stubborn(openai_office, gateway)
        phone.call()
        bye_at = phone.wait_for_bye(10)
    heard = hear(goodbye, phone.heard(before=bye_at))
    assert heard.whole, heard
    first = phone.audio[0].at
    assert 3.2 <= bye_at - first <= 10.0


def with_model(office: Office, model: Model) -> dict[str, object]:
    return {
        "server": QUICK,
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": model.settings,
        "agents": {"reception": {**office._agent(), "providers": ["openai"]}},
        "numbers": {NUMBER: {"agent": "reception"}},
        "storage": {"recordings": str(office.folder / "recordings")},
    }


@pytest.mark.report("BR-092")
@pytest.mark.parametrize("answers", [[0, 0, 200], 0], ids=["the third is answered", "silence"])
def test_end_call_ends_the_line_itself_and_asks_again_until_it_is_answered(fake_office, scripts, answers):
    """
    Reported of a carrier whose call outlived its media WebSocket.

    Here the line is the SIP dialog: BYE is sent, repeated with the same bytes until it is answered or timer F
    fires, and either way nothing of the call is left and the record has its real end.
    """
    gateway = fake_office.open(str(scripts / "farewell"), server=QUICK)
    before = held(gateway)
    phone = stubborn(fake_office, gateway)
    phone.answer_byes = answers
    say_thanks(phone)
    phone.wait_for_bye(15)
    media_ends = len(phone.audio)
    phone.listen(4.5)

    assert len({(bye["via"], bye["cseq"]) for bye in phone.byes}) == 1
    assert len(phone.byes) == 3 if answers else len(phone.byes) >= 8
    assert len(phone.audio) - media_ends <= 2  # no audio behind the BYE
    goes_back_to(gateway, before)
    report = report_of(fake_office)
    assert (report["reason"], report["by"]) == ("end_call", "agent")
    seconds = phone.audio[-1].at - report["wall_time"]
    assert report["ended"] == pytest.approx(seconds, abs=0.5)


FOLLOW_UP = """
    speech: {speed: 10}
    steps:
      - on: greeting
        say: {audio: greeting.wav, text: Hello}
      - on: caller_turn
        say: {audio: goodbye.wav, text: "Goodbye, and all the best"}
        call: [{tool: end_call, arguments: {}}, {tool: end_call, arguments: {}}]
      - on: caller_turn
        say: {audio: apology.wav, text: There is more}
        repeat: true
"""


@pytest.mark.report("BR-093")
@pytest.mark.parametrize("interrupts", [False, True])
def test_a_long_goodbye_is_heard_whole_and_nobody_is_hung_up_on_while_speaking(
    openai_office, tmp_path, interrupts
):
    """The documented rule: a farewell is played to its end; the BYE waits for the caller's sentence."""
    goodbye = sound.utterance(93, 7.0)
    sound.write(tmp_path / "goodbye.wav", goodbye)
    with Model(FOLLOW_UP, tmp_path) as model:
        gateway = openai_office.start(with_model(openai_office, model))
        phone = stubborn(openai_office, gateway)
        say_thanks(phone)
        phone.until_heard(goodbye[: 2 * sound.RATE], 10, "two seconds of the goodbye")
        stopped = 0.0
        if interrupts:
            phone.speak(sound.utterance(94, 6.5))
            stopped = phone.received[-1].at if phone.byes else 0.0
            assert not phone.byes, "hung up on while speaking"
        bye_at = phone.wait_for_bye(15)
        [session] = model.sessions
        answered = [
            event["item"]["call_id"]
            for event in received(session, "conversation.item.create")
            if event["item"]["type"] == "function_call_output"
        ]
    assert bye_at > stopped
    heard = hear(goodbye, phone.heard(before=bye_at))
    assert heard.whole, heard
    assert heard.pauses_ms == 0
    assert len(phone.byes) == 1
    assert len(answered) == len(set(answered)) == 2  # the second end_call is harmless
    report = report_of(openai_office)
    assert (report["reason"], report["by"]) == ("end_call", "agent")
    assert [call["status"] for call in report["tool_calls"]] == ["ok", "denied"]


@pytest.mark.report("BR-096")
def test_after_the_caller_s_bye_nothing_is_sent_and_the_end_is_the_caller_s(openai_office, scripts):
    """
    Reported of a hang-up over REST after the carrier's ``stop``.

    Here both sides want to end: the farewell of ``end_call`` is playing when the caller's BYE comes.
    """
    gateway = openai_office.open(str(scripts / "farewell"), server=QUICK)
    before = held(gateway)
    phone = stubborn(openai_office, gateway)
    say_thanks(phone)
    phone.until_heard(FAREWELL[: sound.RATE // 2], 10, "the beginning of the farewell")
    phone.hang_up()
    count = len(phone.received)
    phone.listen(2.5)

    assert [each.message.start for each in phone.received[count:]] == []
    assert phone.byes == []
    assert not [each for each in phone.audio if each.at > phone.received[-1].at + 0.1]
    goes_back_to(gateway, before)
    report = report_of(openai_office)
    assert (report["reason"], report["by"]) == ("bye", "caller")
    assert faults(gateway) == []


@pytest.mark.report("BR-096")
def test_a_peer_whose_call_is_gone_already_confirms_our_bye_by_saying_so(fake_office, scripts):
    gateway = fake_office.open(str(scripts / "farewell"), server=QUICK)
    before = held(gateway)
    phone = stubborn(fake_office, gateway)
    phone.answer_byes = 481
    say_thanks(phone)
    phone.wait_for_bye(15)
    phone.listen(1.0)

    assert len(phone.byes) == 1
    goes_back_to(gateway, before)
    assert report_of(fake_office)["reason"] == "end_call"
    assert faults(gateway) == []


# Transfers.


def transfer(office: Office, scripts: Path, plan: ReferPlan) -> Stubborn:
    """Call and ask for Sales; return when the REFER is here."""
    gateway = office.open(str(scripts / "transfer"), server=QUICK)
    phone = stubborn(office, gateway, refer=plan)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(WISH)
    refer = phone.wait_for(lambda message: message.method == "REFER", 15, "REFER")
    assert SALES in refer.uri("refer-to")
    return phone


TRYING = (0.0, "SIP/2.0 100 Trying")


@pytest.mark.report("BR-094")
@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (ReferPlan(notifies=(TRYING, (0.1, "SIP/2.0 486 Busy Here"))), "busy"),
        (ReferPlan(notifies=(TRYING, (0.1, ""))), "unknown"),
    ],
    ids=["486", "empty"],
)
def test_a_transfer_that_fails_keeps_the_caller_and_tells_the_agent_why(fake_office, scripts, plan, reason):
    phone = transfer(fake_office, scripts, plan)
    phone.until_heard(APOLOGY, 15, "the apology")
    notified = [each.message.status for each in phone.received if each.message.answers == "NOTIFY"]
    assert notified == [200, 200]
    assert phone.byes == []
    phone.hang_up()
    report = report_of(fake_office)
    assert (report["transfer"][-1]["state"], report["transfer"][-1]["reason"]) == ("failed", reason)
    assert report["by"] == "caller"


class EarlyNotify(Stubborn):
    """Sends its first NOTIFY, and the last one too, before the 202 that they belong to."""

    def _answer_refer(self, message, source):
        self._notify("SIP/2.0 100 Trying", end=False)
        self._notify("SIP/2.0 200 OK", end=True)
        self.sip.sendto(sip_text.respond(message, 202, "Accepted"), source)


@pytest.mark.report("BR-094")
def test_a_success_that_is_told_before_the_202_ends_with_our_bye_and_is_recorded_so(fake_office, scripts):
    gateway = fake_office.open(str(scripts / "transfer"), server=QUICK)
    phone = fake_office.stack.enter_context(EarlyNotify(gateway.sip, fake_office.ports, called=NUMBER))
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(WISH)
    phone.wait_for_bye(20)
    phone.listen(0.3)

    notified = [each.message.status for each in phone.received if each.message.answers == "NOTIFY"]
    assert notified == [200, 200]
    report = report_of(fake_office)
    assert report["reason"] == "transferred"
    assert report["transfer"][-1]["state"] == "confirmed"


@pytest.mark.report("BR-097")
def test_a_trunk_that_never_tells_the_outcome_is_a_timeout_and_the_agent_speaks_again(openai_office, scripts):
    gateway = openai_office.open(str(scripts / "transfer"), server=QUICK)
    before = held(gateway)
    phone = stubborn(openai_office, gateway, refer=ReferPlan(notifies=()))
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    during = held(gateway)
    phone.speak(WISH)
    phone.wait_for(lambda message: message.method == "REFER", 15, "REFER")
    phone.until_heard(APOLOGY, 15, "the apology")

    assert phone.notify("SIP/2.0 200 OK").status in (200, 481)
    assert phone.byes == []
    gateway.until(
        lambda: held(gateway) == during, 5, f"as before the transfer: {during}, now {held(gateway)}"
    )
    phone.speak(THANKS)
    phone.until_heard(FAREWELL, 15, "the farewell")
    phone.wait_for_bye(5)
    goes_back_to(gateway, before)
    report = report_of(openai_office)
    last = report["transfer"][-1]
    assert (last["state"], last["reason"]) == ("failed", "timeout")
    assert report["reason"] == "end_call"


def test_a_refer_of_the_caller_is_declined_and_its_bye_ends_the_call_cleanly(fake_office, scripts):
    """
    There is no other party that the caller could pass on, so nobody is dialled (603).

    The call goes on meanwhile, and the BYE 280 ms later is answered and ends it.
    """
    gateway = fake_office.open(str(scripts / "farewell"), server=QUICK)
    before = held(gateway)
    phone = stubborn(fake_office, gateway)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    refused = phone.request("REFER", extra=(("Refer-To", "<sip:+12025550177@gw.example>"),))
    count = len(phone.audio)
    phone.listen(0.28)
    going_on = len(phone.audio) - count
    phone.hang_up()

    assert refused.status == 603
    assert going_on >= 10
    phone.listen(1.0)
    assert phone.byes == []
    assert not [each for each in phone.received if each.message.method in ("INVITE", "NOTIFY")]
    goes_back_to(gateway, before)
    report = report_of(fake_office)
    assert (report["reason"], report["by"]) == ("bye", "caller")


@pytest.mark.report("BR-102")
def test_a_failed_transfer_in_the_same_response_cancels_the_end(openai_office, tmp_path):
    """The business action failed, so the call that was to end after it goes on, and the model hears why."""
    script = """
        steps:
          - on: greeting
            say: {audio: greeting.wav, text: Hello}
          - on: caller_turn
            call:
              - {tool: transfer_call, arguments: {destination: sales}}
              - {tool: end_call, arguments: {}}
          - on: {tool_result: [transfer_call, end_call]}
            say: {audio: apology.wav, text: That is not possible}
    """
    with Model(script, tmp_path) as model:
        gateway = openai_office.start(with_model(openai_office, model))
        phone = stubborn(openai_office, gateway)
        phone.call()
        phone.until_heard(GREETING, 10, "the greeting")
        phone.speak(np.concatenate((WISH, sound.silence(0.2))))
        phone.until_heard(APOLOGY, 15, "what the model makes of the failure")
        phone.listen(0.5)
        assert phone.byes == []
        phone.hang_up()
        [session] = model.sessions
        told = [
            event["item"]["output"]
            for event in received(session, "conversation.item.create")
            if event["item"]["type"] == "function_call_output"
        ]
    report = report_of(openai_office)
    assert [(call["status"], call["reason_code"]) for call in report["tool_calls"]] == [
        ("invalid_arguments", "invalid_arguments"),
        ("denied", "earlier_action_failed"),
    ]
    assert "destination" in told[0]
    assert "earlier_action_failed" in told[1]
    assert report["by"] == "caller"
