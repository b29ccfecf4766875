"""What a call and its neighbours notice of a provider in trouble."""

from __future__ import annotations

import time
from pathlib import Path

import orjson
import pytest

from providers.fakes.faults import Faults
from providers.fakes.openai_server import OpenAIFakeServer
from tests.kit.gateway import Gateway
from tests.kit.hear import QUIET, hear, rms
from tests.kit.model import reports
from tests.kit.office import KEY, NUMBER, SCRIPTS, recording
from tests.kit.phone import Phone
from tests.kit.ports import Ports
from tests.kit.served import Served
from tests.kit.sound import RATE

pytestmark = pytest.mark.peers

GREETING, ANSWER, FAREWELL = recording("greeting"), recording("answer"), recording("farewell")
ORDER, THANKS = recording("caller_number"), recording("caller_thanks")
DEAD_CALLS = 4


def settings_for(folder: Path, **providers: dict[str, object]) -> dict[str, object]:
    return {
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": providers,
        "agents": {
            "reception": {
                "providers": list(providers), "prompt": "You answer the phone.", "greeting": "Say hello.",
                "tools": {"end_call": {"enabled": True}},
            }
        },
        "numbers": {NUMBER: {"agent": "reception"}},
        "storage": {"recordings": str(folder / "recordings")},
    }  # fmt: skip


def openai(server: OpenAIFakeServer) -> dict[str, object]:
    return {"kind": "openai", "api_key": "${env:MODEL_KEY}", "base_url": server.url}


@pytest.mark.report("BR-106")
@pytest.mark.parametrize("fault", ["close:1011@11", "close:1006@11", "expire@11"])
def test_a_session_that_ends_in_mid_answer_is_noticed_and_another_one_finishes_the_call(
    fault, ports, tmp_path
):
    server = OpenAIFakeServer(SCRIPTS / "trouble_first.yaml", fault, validate=True)
    with (
        Served(server),
        Gateway(settings_for(tmp_path, openai=openai(server)), ports, tmp_path / "gateway",
                env={"MODEL_KEY": KEY}) as gateway,
        Phone(gateway.sip, ports, called=NUMBER) as phone,
    ):  # fmt: skip
        phone.call()
        server.faults = Faults()  # of the sessions to come
        phone.until_heard(GREETING, 15, "the greeting")
        phone.speak(ORDER)
        phone.until(lambda: '"step":"swapped"' in gateway.log, 15, "another session")
        phone.until_heard(ANSWER, 20, "the answer")
        phone.speak(THANKS)
        phone.wait_for_bye(20)
        assert hear(FAREWELL, phone.heard()).whole
        [report] = reports(tmp_path / "recordings")
    assert (report["reason"], report["by"]) == ("end_call", "agent")
    assert [each["step"] for each in report["recovery"]][:1] == ["lost"]
    assert report["recovery"][0]["reason"] in ("1011", "1006", "session_expired", "1001")
    told = [orjson.dumps(each.event).decode() for each in server.sessions[-1].received]
    assert sum("order number is 4711" in text for text in told) == 1


@pytest.mark.report("BR-116")
def test_calls_begin_with_the_next_provider_while_one_is_down(ports: Ports, tmp_path: Path):
    down = {
        "kind": "openai",
        "api_key": "${env:MODEL_KEY}",
        "base_url": f"http://127.0.0.1:{ports.take(2)}/v1",
    }
    up = {"kind": "fake", "script": str(SCRIPTS / "farewell.yaml")}
    settings = settings_for(tmp_path, down=down, up=up)
    with Gateway(settings, ports, tmp_path / "gateway", env={"MODEL_KEY": KEY}) as gateway:
        for _ in range(DEAD_CALLS):
            with Phone(gateway.sip, ports, called=NUMBER) as phone:
                phone.call()
                phone.hang_up()
        assert gateway.log.count('"event":"provider.unavailable"') == 3
        assert gateway.log.count('"event":"provider.breaker_opened"') == 1
        found = gateway.metrics()
        assert found['trunkline_provider_breaker{provider="down",state="open"}'] == 1
        assert found['trunkline_provider_breaker{provider="up",state="closed"}'] == 1
        assert found['trunkline_provider_failures_total{provider="down"}'] == 3
        status, body = gateway.get("/readyz")
        assert (status, orjson.loads(body)["providers"]) == (200, {"down": "open", "up": "closed"})
        assert {report["provider"] for report in reports(tmp_path / "recordings", DEAD_CALLS)} == {"up"}


@pytest.mark.report("BR-110")
def test_a_session_that_will_expire_is_handed_over_and_nobody_hears_it(ports, tmp_path):
    server = OpenAIFakeServer(SCRIPTS / "trouble_second.yaml", session_seconds=16, validate=True)
    with (
        Served(server),
        Gateway(settings_for(tmp_path, openai=openai(server)), ports, tmp_path / "gateway",
                env={"MODEL_KEY": KEY}) as gateway,
        Phone(gateway.sip, ports, called=NUMBER) as phone,
    ):  # fmt: skip
        phone.call()
        phone.until_heard(GREETING, 15, "the greeting")
        quiet_from = len(phone.heard())
        phone.until(lambda: '"step":"handed_over"' in gateway.log, 25, "the hand-over")
        phone.listen(1)
        since = phone.heard()[quiet_from:]
        assert (
            max(rms(since[at : at + RATE // 50].astype(float)) for at in range(0, len(since), RATE // 50))
            < QUIET
        )
        began = time.monotonic()
        phone.speak(THANKS)
        phone.wait_for_bye(20)
        assert time.monotonic() - began < 15
        assert hear(FAREWELL, phone.heard()).whole
        [report] = reports(tmp_path / "recordings")
    assert (report["reason"], report["by"]) == ("end_call", "agent")
    assert [each["step"] for each in report["recovery"]] == ["handed_over"]
    assert len(server.sessions) == 2
    told = [orjson.dumps(each.event).decode() for each in server.sessions[1].received]
    assert sum("this is the front desk" in text for text in told) == 1
