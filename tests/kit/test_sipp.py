"""SIPp and baresip driven by the kit, against peers that are not the gateway."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.kit import sip_text, sound
from tests.kit.baresip import Baresip
from tests.kit.hear import hear
from tests.kit.ports import Ports
from tests.kit.probe import Probe
from tests.kit.sipp import SCENARIOS, Ears, Sipp, last_row
from tests.kit.test_phone import answer, in_dialog, play
from tests.kit.udp import drain

pytestmark = pytest.mark.peers


@pytest.fixture
def ports() -> Iterator[Ports]:
    with Ports() as ports:
        yield ports


@pytest.fixture
def uas(ports, tmp_path) -> Iterator[tuple[str, int]]:
    """SIPp's own answering side."""
    port = ports.take(2)
    media = ports.take(8)
    command = ["sipp", "-sn", "uas", "-i", "127.0.0.1", "-p", str(port), "-mp", str(media), "-nostdin"]
    with (tmp_path / "uas.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    yield "127.0.0.1", port
    process.kill()
    process.wait()


def test_calls_that_go_as_written_are_counted(uas, ports, tmp_path):
    with Sipp("call", uas, ports, tmp_path / "uac", called="service", calls=3, pause=0.1) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, outcome.errors
    assert (outcome.successful, outcome.failed) == (3, 0)


def test_a_call_that_goes_otherwise_is_a_failure_with_its_reason(uas, ports, tmp_path):
    """SIPp's answering side has no Allow that names REFER."""
    with Sipp("options", uas, ports, tmp_path / "uac", called="service", timeout=3) as sipp:
        outcome = sipp.wait()
    assert not outcome.clean
    assert outcome.errors


@pytest.mark.parametrize("scenario", sorted(path.stem for path in SCENARIOS.glob("*.xml")))
def test_each_scenario_is_one_that_sipp_understands(scenario, ports, tmp_path):
    """Nobody answers, so each starts, sends its first request, and runs into its time-out."""
    with Sipp(
        scenario, ("127.0.0.1", ports.take(2)), ports, tmp_path / "uac", called="nobody", timeout=1
    ) as sipp:
        outcome = sipp.wait()
    assert not outcome.clean
    assert "xml" not in outcome.errors.lower(), outcome.errors
    assert int(last_row(tmp_path / "uac" / "stat.csv").get("OutgoingCall(C)", 0)) == 1, outcome.errors


def test_what_each_call_says_comes_from_the_port_that_it_offered(ports, tmp_path):
    """The far end is spelled out by hand: it answers two calls and listens where their words come from."""
    words = sound.utterance(31, 0.5)
    with Probe(("127.0.0.1", 1), ports) as far_end:
        arguments = {"called": "service", "calls": 2, "rate": 1, "pause": 0.6, "timeout": 4, "audio": words}
        target = ("127.0.0.1", far_end.port)
        with Sipp("call_with_audio", target, ports, tmp_path / "uac", **arguments) as sipp:
            far_end.target = ("127.0.0.1", sipp.port)
            with Ears(sipp.media_ports) as ears:
                invite = answer(far_end, routes=())
                play(far_end, words, invite)
                far_end.collect(0.8)
            sources = {}
            for _, data, source in drain(far_end.media):
                sources.setdefault(source, []).append(data[12:])
    assert (
        set(sources)
        == {sip_text.media_address(invite.body)}
        <= {("127.0.0.1", port) for port in sipp.media_ports}
    )
    ((source, packets),) = sources.items()
    assert hear(words, sound.decode(b"".join(packets))).whole
    assert hear(words, ears.pcm(source[1])).whole


def test_baresip_says_its_words_and_records_what_it_hears(ports, tmp_path):
    words, reply = sound.utterance(32, 1), sound.utterance(33, 0.6)
    with Probe(("127.0.0.1", 1), ports) as far_end:
        with Baresip(f"sip:x@127.0.0.1:{far_end.port}", ports, tmp_path / "baresip", words=words) as baresip:
            far_end.target = baresip.sip
            invite = answer(far_end, routes=())
            far_end.wait_for(lambda message: message.method == "ACK")
            far_end.collect(0.3)
            play(far_end, reply, invite)
            far_end.collect(1.5)
            far_end.send(in_dialog(far_end, invite, "BYE"))
            far_end.wait_for(lambda message: message.answers == "BYE" and message.status == 200)
            assert hear(reply, baresip.heard).heard_ms >= 500
        sent = b"".join(data[12:] for _, data, _ in drain(far_end.media) if data[1] & 127 == 0)
    assert hear(words, sound.decode(sent)).whole


def test_an_offer_is_what_the_scenarios_offer():
    body = sip_text.offer("127.0.0.1", 4000)
    assert sip_text.media_address(body) == ("127.0.0.1", 4000)
    assert "m=audio [auto_media_port+4] RTP/AVP 0 101" in (SCENARIOS / "call.xml").read_text()
