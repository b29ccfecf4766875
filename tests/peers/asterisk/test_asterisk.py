"""Calls between Asterisk and the gateway, in both directions: `make peers`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.kit import sound
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.ports import Ports
from tests.kit.scenario import expand
from tests.kit.sipp import Sipp
from tests.sipp.agents import AGENTS, settings

pytestmark = pytest.mark.timeout(180)

CALL_ID = re.compile(r"^Call-ID: (\S+)", re.MULTILINE)


def records(gateway: Gateway) -> list[dict[str, object]]:
    """Return what is written of the calls that are over, in order."""
    files = (gateway.folder / "recordings").glob("*/call.json")
    return sorted((json.loads(file.read_text()) for file in files), key=lambda record: record["wall_time"])


def last_record(gateway: Gateway, before: int) -> dict[str, object]:
    gateway.until(lambda: len(records(gateway)) > before, 20, "writing the record of a call")
    return records(gateway)[-1]


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_asterisk_calls_the_agent_hangs_up(gateway, start, transport):
    before = len(records(gateway))
    asterisk = start(transport=transport)
    asterisk.call("silent", AGENTS["goodbye"])
    asterisk.wait_for("DIALLED ANSWER 16", 15)
    record = last_record(gateway, before)
    assert (record["reason"], record["by"]) == ("end_call", "agent")
    asterisk.until(lambda: asterisk.channels() == 0, 5, "without channels")


def test_asterisks_caller_hangs_up(gateway, start):
    before = len(records(gateway))
    asterisk = start()
    asterisk.call("brief", AGENTS["talk"])
    record = last_record(gateway, before)
    assert (record["reason"], record["by"]) == ("bye", "caller")


@pytest.mark.parametrize(("codecs", "codec"), [("ulaw", "pcmu"), ("alaw", "pcma"), ("g722,alaw", "pcma")])
def test_asterisks_caller_is_understood_in_each_codec(gateway, start, codecs, codec):
    before = len(records(gateway))
    asterisk = start(codecs=codecs)
    asterisk.call("talks", AGENTS["listen"])
    asterisk.wait_for("DIALLED ANSWER 16", 20)
    record = last_record(gateway, before)
    assert record["codec"] == codec
    assert record["reason"] == "end_call"


@pytest.mark.parametrize("dtmf_mode", ["rfc4733", "info"])
def test_asterisks_keys_arrive(gateway, start, dtmf_mode):
    before = len(records(gateway))
    asterisk = start(dtmf_mode=dtmf_mode)
    asterisk.call("keys-5#", AGENTS["keys"])
    asterisk.wait_for("DIALLED ANSWER 16", 20)
    assert [key["digit"] for key in last_record(gateway, before)["dtmf"]] == ["5", "#"]


def test_a_transfer_by_refer_reaches_asterisks_extension(gateway, start):
    before = len(records(gateway))
    asterisk = start(sales=sound.utterance(7, 2.0))
    asterisk.call("silent", AGENTS["transfer"])
    asterisk.wait_for("SALES REACHED", 20)
    record = last_record(gateway, before)
    assert [step["state"] for step in record["transfer"]][-1] == "confirmed"
    assert asterisk.channels() > 0  # the caller and Sales go on without us


HOLD = """
<scenario>
  <established/>
  <wait ms="500"/>
  <invite><sdp direction="sendonly"/></invite>
  <expect response="200" after="100"><has in="body">a=(recvonly|inactive)</has></expect>
  <ack/>
  <wait ms="700"/>
  <invite><sdp/></invite>
  <expect response="200" after="100"><has in="body">m=audio</has></expect>
  <ack/>
  <wait ms="700"/>
  <hangup/>
</scenario>
"""


def test_a_hold_passes_through_asterisk(gateway, start, ports, tmp_path):
    """SIPp calls Asterisk, which calls the gateway and passes SIPp's hold on as a re-INVITE of its own."""
    before = len(records(gateway))
    asterisk = start()
    with Sipp(
        expand(HOLD), asterisk.sip, ports, tmp_path / "sipp", called=AGENTS["talk"], caller="caller"
    ) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, f"{outcome.errors}\n{asterisk.log[-3000:]}"
    record = last_record(gateway, before)
    assert record["reason"] == "bye"
    messages = (gateway.folder / "recordings" / str(record["call_id"]) / "sip.jsonl").read_text()
    assert "a=sendonly" in messages
    assert "a=recvonly" in messages


def test_the_gateway_registers_at_asterisk_and_is_called_there(start, gateway, tmp_path):
    """The trunk has no address list: its registration makes it known, and Asterisk asks for a digest."""
    asterisk = start()
    folder = tmp_path / "registering"
    folder.mkdir()
    own = settings(folder)
    host, port = asterisk.sip
    own["trunks"] = {
        "pbx": {"register": f"sip:200@{host}:{port}", "username": "200", "password": "registered-secret"}
    }
    own["numbers"] = {**own["numbers"], "200": {"agent": "goodbye"}}
    with Ports() as ports, Gateway(own, ports, folder) as registering:
        asterisk.until(lambda: "200/sip:" in asterisk.console("pjsip show contacts"), 10, "registered")
        asterisk.call("silent", "200", context="to-registered")
        asterisk.wait_for("DIALLED ANSWER 16", 20)
        assert last_record(registering, 0)["trunk"] == "pbx"
    asterisk.until(lambda: "200/sip:" not in asterisk.console("pjsip show contacts"), 10, "unregistered")


def test_what_sales_says_is_heard_by_nobody_of_us(gateway, start, tmp_path):
    """After a confirmed transfer the gateway is out of the call: its recording ends before Sales speaks."""
    before = len(records(gateway))
    words = sound.utterance(11, 3.0)
    asterisk = start(sales=words)
    asterisk.call("silent", AGENTS["transfer"])
    asterisk.wait_for("SALES REACHED", 20)
    record = last_record(gateway, before)
    heard = sound.read(Path(gateway.folder / "recordings" / str(record["call_id"]) / "call.flac"))
    assert hear(words, heard).heard_ms < 500


def test_a_bridged_transfer_goes_out_through_asterisk(start, ports, tmp_path):
    """The gateway calls Sales itself, over the trunk that the caller came from, and carries both."""
    words = sound.utterance(13, 3.0)
    folder = tmp_path / "bridging"
    folder.mkdir()
    port = ports.take(2)
    own = settings(folder)
    own["trunks"] = {
        "pbx": {
            "allow": ["127.0.0.1"],
            "address": f"sip:127.0.0.1:{port}",
            "transfer": {"method": "bridge"},
        }
    }
    with Ports() as others, Gateway(own, others, folder) as bridging:
        asterisk = start(gateway=bridging.sip, port=port, sales=words)
        asterisk.call("records", AGENTS["transfer"])
        asterisk.wait_for("SALES REACHED", 20)
        asterisk.until(
            lambda: hear(words, asterisk.heard).heard_ms > 2500, 20, "letting the caller hear Sales"
        )
        asterisk.console("channel request hangup all")
        record = last_record(bridging, 0)
        lines = (folder / "recordings" / str(record["call_id"]) / "sip.jsonl").read_text().splitlines()
    assert [step["state"] for step in record["transfer"]][-1] == "confirmed"
    messages = [json.loads(line)["message"] for line in lines]
    assert len({found[1] for found in map(CALL_ID.search, messages) if found}) == 2  # both lines of the call
    asterisk.until(lambda: asterisk.channels() == 0, 10, "without channels")
