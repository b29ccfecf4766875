"""Requirements that only a whole call can show: D-3, D-4, D-5, and P-3 as the model sees it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.gateway import COMMAND, Gateway
from tests.kit.hear import hear
from tests.kit.model import Lookup, Model, heard_by, outputs, reports, with_all_tools
from tests.kit.office import NUMBER, SALES, Office, recording
from tests.kit.phone import Phone, ReferPlan
from tests.kit.sipp import Ears, Sipp

pytestmark = pytest.mark.peers

GREETING, ANSWER, FAREWELL = recording("greeting"), recording("answer"), recording("farewell")
WISH, THANKS = recording("caller_hours"), recording("caller_thanks")
NOT_CONFIGURED = "+19005550199"
RECORD = '{"name": "Ada Lovelace", "plan": "gold"}'
FOUR_TOOLS = f"""
    steps:
      - on: greeting
        say: greeting.flac
      - on: caller_turn
        say: one_moment.flac
        call:
          - {{tool: lookup_caller, arguments: {{}}}}
          - {{tool: query_knowledge, arguments: {{query: "Until when are you open?"}}}}
          - {{tool: transfer_call, arguments: {{phone_number: "{NOT_CONFIGURED}"}}}}
      - on: {{tool_result: [lookup_caller, query_knowledge, transfer_call]}}
        say: answer.flac
      - on: caller_turn
        say: to_sales.flac
        call: {{tool: transfer_call, arguments: {{phone_number: "{SALES}"}}}}
      - on: {{text: "failed"}}
        say: nobody_there.flac
      - on: caller_turn
        say: farewell.flac
        call: {{tool: end_call, arguments: {{}}}}
"""
TALK = """
    steps:
      - {on: greeting, say: greeting.flac}
      - {on: caller_turn, say: answer.flac, repeat: true}
"""
SECTIONS = (
    "### Knowledge Base",
    "### Caller Lookup (PROACTIVE)",
    "### Call Transfer (CONFIRMATION_FIRST)",
    "### Ending the Call",
)


@pytest.fixture
def lookup() -> Iterator[Lookup]:
    """The slowest of the tools, so that results do not finish in the order of their calls."""
    with Lookup(RECORD, wait=0.5) as lookup:
        yield lookup


def open_with(office: Office, model: Model, lookup: Lookup) -> Gateway:
    return office.start(with_all_tools(model, lookup, office.folder))


@pytest.mark.requirement("D-3")
@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
def test_a_sip_call_streams_the_caller_s_audio_to_a_session_with_tools_and_addendum(
    openai_office, lookup, tmp_path, codec
):
    with Model(TALK, tmp_path) as model:
        phone = openai_office.phone(open_with(openai_office, model, lookup), codec=codec)
        phone.call()
        phone.until_heard(GREETING, 10, "the greeting")
        words = sound.utterance(7, 2.0)
        phone.speak(words)
        phone.until_heard(ANSWER, 10, "the answer")
        phone.hang_up()
        [session] = model.sessions
        config = session.config.session
        heard = hear(words, heard_by(session, codec))

    prompt, heading, addendum = config["instructions"].partition("\n\n## Available Tools\n\n")
    assert (prompt, bool(heading)) == ("You answer the phone of a workshop.", True)
    assert [line for line in addendum.splitlines() if line.startswith("### ")] == list(SECTIONS)
    assert [tool["name"] for tool in config["tools"]] == [
        "query_knowledge", "lookup_caller", "transfer_call", "end_call",
    ]  # fmt: skip
    law = {"type": f"audio/{codec.lower()}"}
    assert config["audio"]["input"]["format"] == config["audio"]["output"]["format"] == law
    assert heard.whole, heard
    assert heard.pauses_ms == 0
    # The provider asks for an item that is not there, to see whether the server lives: that error is wanted.
    errors = [each.event["error"] for each in session.sent if each.type == "error"]
    assert [error for error in errors if not str(error["event_id"]).startswith("alive-")] == []


def have_the_four_tools_called(office: Office, model: Model, lookup: Lookup) -> Phone:
    """Hold the call of the script: questions, a transfer that is busy, goodbye."""
    busy = ReferPlan(notifies=((0.0, "SIP/2.0 100 Trying"), (0.1, "SIP/2.0 486 Busy Here")))
    phone = office.phone(open_with(office, model, lookup), refer=busy)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(WISH)
    phone.until_heard(ANSWER, 15, "the answer")
    phone.speak(recording("caller_sales"))
    phone.until_heard(recording("nobody_there"), 20, "the apology")
    phone.speak(THANKS)
    phone.wait_for_bye(15)
    return phone


@pytest.mark.requirement("D-4")
@pytest.mark.requirement("P-3")
def test_the_four_tools_are_run_on_a_sip_call(openai_office, lookup, tmp_path):
    with Model(FOUR_TOOLS, tmp_path) as model:
        phone = have_the_four_tools_called(openai_office, model, lookup)
        [session] = model.sessions
        answers = outputs(session)
        events = [each.event for each in session.received]
        tools = {tool["name"]: tool for tool in session.config.session["tools"]}
        [report] = reports(openai_office.folder / "recordings")

    assert [(body["tool"], body["status"]) for _, body in answers] == [
        ("lookup_caller", "ok"),
        ("query_knowledge", "ok"),
        ("transfer_call", "denied"),
        ("transfer_call", "ok"),
        ("end_call", "ok"),
    ]
    bodies = [body for _, body in answers]
    # lookup_caller: the number of the call, the organization's secret, the record.
    [(path, headers)] = lookup.asked
    assert parse_qs(urlsplit(path).query) == {"source": ["phone"], "phone": ["+12025550123"]}
    assert headers["loquent_x_check"] == "lookup-secret-1"
    assert bodies[0]["data"] == {"found": True, "record": RECORD}
    # query_knowledge: passages of the linked base.
    assert "until six" in json.dumps(bodies[1]["data"])
    # transfer_call: the enum, its check at dispatch, and REFER to the configured number alone.
    assert tools["transfer_call"]["parameters"]["properties"]["phone_number"]["enum"] == [
        SALES,
        "+12125555678",
    ]
    assert bodies[2]["reason_code"] == "phone_number_not_configured"
    assert bodies[3]["data"] == {"state": "requested", "transfer_confirmed": False}
    referred = [each.message.uri("refer-to") for each in phone.received if each.message.method == "REFER"]
    assert len(referred) == 1
    assert SALES in referred[0]
    # end_call: BYE after the whole farewell.
    assert bodies[4]["data"] == {"state": "requested"}
    bye_at = next(each.at for each in phone.received if each.message.method == "BYE")
    assert hear(FAREWELL, phone.heard(before=bye_at)).whole
    # The call's own report says the same.
    assert [(call["tool"], call["status"]) for call in report["tool_calls"]] == [
        (body["tool"], body["status"]) for body in bodies
    ]
    assert [step["state"] for step in report["transfer"]] == [
        "requested", "announced", "redirecting", "failed",
    ]  # fmt: skip
    assert report["transfer"][-1]["reason"] == "busy"
    assert (report["reason"], report["by"]) == ("end_call", "agent")
    # P-3: one result for each call id, in call order, all of them before the model is asked again.
    assert len({call_id for call_id, _ in answers}) == 5
    kinds = [
        event["item"]["type"] if event["type"] == "conversation.item.create" else event["type"]
        for event in events
        if event["type"] in ("conversation.item.create", "response.create")
    ]
    assert kinds[:5] == ["response.create", *["function_call_output"] * 3, "response.create"]
    assert kinds[-1] == "function_call_output"  # nothing is asked for after a terminal action


BAD = """\
server: {sip: {listen: ["udp:127.0.0.1:5060"], rtp_port: 20000-20100}}
trunks:
  office: {allow: ["10.0.0.300"]}
providers: {fake: {}}
agents:
  desk:
    providers: [fake]
    prompt: Hello.
    tools: {transfer_call: {enabled: true, numbers: []}}
numbers:
  +12125550100: {agent: desk}
"""


def trunkline(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.requirement("D-5")
def test_a_trunk_s_call_to_a_number_of_the_yaml_has_audio_both_ways(fake_office, tmp_path):
    """SIPp is the trunk: RTP in both directions, ended by the agent after what the caller said."""
    gateway = fake_office.open("farewell")
    words = np.concatenate((sound.silence(len(GREETING) / 8000 + 0.5), THANKS, sound.silence(1)))
    with (
        Sipp(
            "call_ended_by_agent",
            gateway.sip,
            fake_office.ports,
            tmp_path / "sipp",
            called=NUMBER,
            audio=words,
        ) as sipp,
        Ears(sipp.media_ports) as ears,
    ):
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors
    [port] = sipp.media_ports
    assert hear(GREETING, ears.pcm(port)).whole
    assert hear(FAREWELL, ears.pcm(port)).whole
    [report] = reports(fake_office.folder / "recordings")
    assert (report["called"], report["agent"], report["trunk"]) == (NUMBER, "reception", "loopback")


@pytest.mark.requirement("D-5")
def test_the_command_line_explains_a_bad_yaml_and_a_gateway_does_not_start_with_it(tmp_path):
    file = tmp_path / "gateway.yaml"
    file.write_text(BAD)

    checked = trunkline("config", "check", str(file))
    served = trunkline("serve", str(file))

    places = [line.removeprefix(f"{file}:").split(":")[:2] for line in checked.stdout.splitlines()]
    assert places == [
        ["1", " server.sip.rtp_port"],
        ["3", " trunks.office.allow[0]"],
        ["9", " agents.desk.tools.transfer_call"],
        ["11", ' numbers."+12125550100"'],
    ]
    assert "did you mean rtp_ports" in checked.stdout.replace("'", "").replace('"', "").lower()
    assert 'quote this number: "+12125550100"' in checked.stdout
    assert (checked.returncode, served.returncode) == (1, 1)
    assert [line for line in checked.stdout.splitlines() if line not in served.stdout + served.stderr] == []


@pytest.mark.requirement("D-5")
def test_the_command_line_has_what_operators_need():
    assert trunkline("config", "check", "config/examples/fake.yaml").returncode == 0
    assert json.loads(trunkline("config", "schema").stdout)["properties"]["numbers"]
    helped = trunkline("--help")
    assert helped.returncode == 0
    assert all(command in helped.stdout for command in ("serve", "config", "fake-openai"))
    faults = trunkline("fake-openai", "--list-faults")
    assert (faults.returncode, "slow_reader" in faults.stdout) == (0, True)
