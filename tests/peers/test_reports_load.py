"""
Field reports of the category load/leak, held on real SIP calls through ``trunkline serve``.

Those about carriers' WebSockets hold the same kind of fault where it can occur today: on the provider's
socket and on SIP over TCP (tests/gateway/net/test_sip_connections.py). That about a locked database is in
tests/gateway/calls/test_slow_disk.py.
"""

from __future__ import annotations

import signal
import socket
import time

import numpy as np
import pytest
import soundfile

from tests.kit import pcap, sound
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.model import Lookup, Model, heard_by, reports, with_all_tools
from tests.kit.office import NUMBER, Office, recording
from tests.kit.phone import Phone
from tests.kit.sipp import Sipp

pytestmark = pytest.mark.peers

GREETING, ANSWER = recording("greeting"), recording("answer")
HELD = ("trunkline_asyncio_tasks", "process_open_fds", "trunkline_rtp_ports_leased", "trunkline_calls_active")
RESTING_S = 5.0
"""How long a pair of ports rests (``gateway.net.ports``)."""
TALK = """
    steps:
      - {on: greeting, say: greeting.flac}
      - {on: caller_turn, say: answer.flac, repeat: true}
"""
ASKS = """
    steps:
      - {on: greeting, say: greeting.flac, call: {tool: lookup_caller, arguments: {}}}
"""


def held(gateway: Gateway) -> dict[str, float]:
    metrics = gateway.metrics()
    return {name: metrics[name] for name in HELD}


def logged(gateway: Gateway, event: str) -> list[str]:
    return [line for line in gateway.log.splitlines() if f'"{event}"' in line]


@pytest.mark.report("BR-166")
@pytest.mark.crowd
def test_a_hundred_short_calls_leave_no_socket_task_or_port_behind(openai_office, tmp_path):
    """
    Hung up in the greeting by BYE, while it rings by CANCEL, and while a tool runs.

    The reset of a carrier's WebSocket has no counterpart yet: no media of a SIP call hangs on a connection.
    """
    with Lookup("Ada", wait=1.5) as lookup, Model(ASKS, tmp_path) as model:
        gateway = openai_office.start(with_all_tools(model, lookup, openai_office.folder), rtp_ports=200)
        first = openai_office.phone(gateway)
        first.call()
        first.hang_up()
        gateway.until(lambda: held(gateway)["trunkline_calls_active"] == 0, 8, "idle")
        time.sleep(0.5)
        before = held(gateway)

        arguments = {"called": NUMBER, "calls": 87, "rate": 20, "pause": 0.3, "timeout": 60}
        with Sipp("call", gateway.sip, openai_office.ports, tmp_path / "sipp", **arguments) as sipp:
            in_tool = [openai_office.phone(gateway) for _ in range(6)]
            for phone in in_tool:
                phone.call()
            gateway.until(lambda: len(lookup.asked) >= 6, 10, "asking the look-up")
            for phone in in_tool:
                phone.hang_up()
            ringing = [openai_office.phone(gateway) for _ in range(6)]
            for phone in ringing:
                phone.dial()
                phone.wait_for(lambda message: message.answers == "INVITE", 5)
                phone.cancel()
            outcome = sipp.wait()
        ended = time.monotonic()
        assert outcome.clean, outcome.errors
        assert outcome.successful == 87
        # Tools that had begun may finish within three seconds.
        gateway.until(
            lambda: held(gateway) == before and model.connections == 0,
            8,
            f"as before: {before}, now {held(gateway)}",
        )
        print(f"nothing was left {time.monotonic() - ended:.1f} s after the last call; {before}")
        rows = reports(openai_office.folder / "recordings", 100)
    assert len(rows) == 100
    assert {(row["reason"], row["by"]) for row in rows} <= {("bye", "caller"), ("cancel", "caller")}
    assert all(row["ended"] is not None for row in rows)
    assert logged(gateway, "call.failed") == []


@pytest.mark.report("BR-168")
def test_sigterm_drains_and_a_second_one_ends_the_calls_with_a_bye(fake_office):
    """Three calls; one ends and the process stays; a new INVITE is refused; the second signal forces."""
    gateway = fake_office.open(server={"drain_s": 60})
    phones = [fake_office.phone(gateway) for _ in range(3)]
    late = fake_office.phone(gateway)
    for phone in phones:
        phone.call()
    gateway.signal(signal.SIGTERM)
    gateway.until(lambda: gateway.get("/readyz")[0] == 503, 5, "draining")
    phones[0].hang_up()
    refusal = late.dial_and_be_refused()
    phones[1].until_heard(GREETING, 15, "the greeting, whole")

    assert refusal.status == 503
    assert int(refusal["retry-after"]) > 0
    assert gateway.popen.poll() is None
    assert not [each for phone in phones for each in phone.received if each.message.method == "BYE"]
    gateway.signal(signal.SIGTERM)
    for phone in phones[1:]:
        phone.wait_for_bye(5)
    assert gateway.wait(10) == 0
    rows = reports(fake_office.folder / "recordings", 3)
    assert sorted(row["reason"] for row in rows) == ["bye", "drain", "drain"]


@pytest.mark.report("BR-170")
def test_late_packets_of_an_old_call_are_not_heard_in_the_next_one_on_its_port(openai_office, tmp_path):
    """There is one pair of ports: it rests after the first call, then the second has the very same."""
    stale = sound.utterance(170, 1.0)
    with Model(TALK, tmp_path) as model:
        gateway = openai_office.start(settings_for(openai_office, model), rtp_ports=2)
        old, new = openai_office.phone(gateway), openai_office.phone(gateway)
        old.call()
        old.until_heard(GREETING, 10, "the greeting")
        port = old.media
        old.hang_up()
        ended = time.monotonic()
        refused = openai_office.phone(gateway).dial_and_be_refused()
        send_late(old, stale, port)
        time.sleep(max(0.0, ended + RESTING_S + 0.2 - time.monotonic()))
        new.call()
        # The new peer has sent already; fifty packets of the old one come between its own.
        words = sound.utterance(171, 2.0)
        new.listen(0.3)
        send_late(old, stale, port)
        new.speak(words)
        new.listen(1.0)
        new.hang_up()
        [_, session] = model.sessions
        to_model = heard_by(session)
        rows = reports(openai_office.folder / "recordings", 2)

    assert (refused.status, int(refused["retry-after"]) > 0) == (503, True)
    assert new.media == port
    assert hear(words, to_model).whole
    assert hear(stale, to_model).heard_ms == 0
    track, rate = soundfile.read(
        openai_office.folder / "recordings" / rows[1]["call_id"] / "call.flac", dtype="int16"
    )
    assert rate == sound.RATE
    assert hear(words, track[:, 0]).whole
    assert hear(stale, track[:, 0]).heard_ms == 0
    assert len([each for each in old.audio if each.at > old.received[-1].at + 0.2]) == 0


def settings_for(office: Office, model: Model) -> dict[str, object]:
    return {
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": model.settings,
        "agents": {"reception": {**office._agent(), "providers": ["openai"]}},
        "numbers": {NUMBER: {"agent": "reception"}},
        "storage": {"recordings": str(office.folder / "recordings")},
    }


def send_late(old: Phone, pcm: sound.Pcm, port: tuple[str, int]) -> None:
    """Send fifty packets with another SSRC from the old call's socket."""
    data = sound.encode(pcm)
    for number in range(50):
        payload = data[number * 160 : number * 160 + 160]
        old.rtp.sendto(
            pcap.rtp(payload, kind=0, sequence=number, timestamp=number * 160, ssrc=0xDEADBEEF), port
        )


@pytest.mark.report("BR-171")
def test_a_provider_that_stops_reading_ends_in_an_apology_and_a_bye(openai_office, tmp_path):
    """
    Reported of a carrier's WebSocket; here the model's server reads nothing from its session on.

    What waits for it is bounded, the session is given up within the limits of pings, and the caller is not
    left in silence.
    """
    sorry = sound.utterance(41, 1.5)
    apology = sound.write(tmp_path / "apology.wav", sorry)
    with Model(TALK, tmp_path, faults="slow_reader:600") as model:
        settings = settings_for(openai_office, model)
        settings["agents"]["reception"]["apology"] = str(apology)
        settings["agents"]["reception"]["recovery"] = {"max_swaps": 0}
        settings["agents"]["reception"].pop("greeting")
        gateway = openai_office.start(settings)
        before = held(gateway)
        phone = openai_office.phone(gateway)
        phone.call()
        began = time.monotonic()
        phone.say(np.concatenate([sound.utterance(n, 1.0) for n in range(30)]))
        bye_at = phone.wait_for_bye(45)
        took = time.monotonic() - began
        assert hear(sorry, phone.heard(before=bye_at)).whole
        gateway.until(lambda: held(gateway) == before, 10, f"as before: {before}, now {held(gateway)}")
    assert took <= 40
    [report] = reports(openai_office.folder / "recordings")
    assert (report["reason"], report["by"]) == ("session_lost", "gateway")


@pytest.mark.report("BR-172")
def test_a_pair_whose_rtcp_port_is_taken_is_skipped_and_all_come_back(fake_office):
    """Four pairs, of which another program holds half of one: three calls, then 503, and all again later."""
    settings = {
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": {"fake": {}},
        "agents": {"reception": {"providers": ["fake"], "prompt": "You answer the phone."}},
        "numbers": {NUMBER: {"agent": "reception"}},
    }
    gateway = fake_office.start(settings, rtp_ports=8)
    first = int(gateway.settings["server"]["sip"]["rtp_ports"].partition("-")[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", first + 3))
        before = held(gateway)
        for _ in range(2):
            phones = [fake_office.phone(gateway) for _ in range(6)]
            media = []
            for phone in phones[:3]:
                phone.call()
                media.append(phone.media[1])
            refusals = [phone.dial_and_be_refused() for phone in phones[3:]]
            assert [(each.status, int(each["retry-after"]) > 0) for each in refusals] == [(503, True)] * 3
            assert sorted(port - first for port in media) == [0, 4, 6]
            for phone in phones[:3]:
                phone.hang_up()
            gateway.until(lambda: held(gateway) == before, 10, f"as before: {before}, now {held(gateway)}")
            time.sleep(RESTING_S + 0.2)
    refused = [line for line in logged(gateway, "call.refused") if "ports_exhausted" in line]
    assert len(refused) == 6
