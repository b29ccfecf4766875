"""
Providers that fail under many calls at once, or all at once: every caller is helped, and nothing is left.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.exchange import GAUGES, assert_heard, together
from tests.kit.gateway import COMMAND, Gateway
from tests.kit.hear import hear
from tests.kit.model import Lookup, reports
from tests.kit.office import KEY, NUMBER, SCRIPTS, recording
from tests.kit.phone import Phone
from tests.kit.ports import Ports
from tests.kit.process import Process

pytestmark = pytest.mark.peers

CALLS = 20
GREETING, ANSWER, FAREWELL = recording("greeting"), recording("answer"), recording("farewell")
ORDER, THANKS = recording("caller_number"), recording("caller_thanks")


class Model:
    """A fake OpenAI server as a process that can be killed and started again on its port."""

    def __init__(self, script: str, ports: Ports, folder: Path, stack: ExitStack) -> None:
        self.port = ports.take(2)
        self._log = folder / f"{script}.log"
        self._command = [COMMAND, "fake-openai", "--port", str(self.port)]
        self._command += ["--script", str(SCRIPTS / f"{script}.yaml")]
        self._stack = stack

    def start(self) -> None:
        self._log.unlink(missing_ok=True)
        ready = lambda: "://" in self._log.read_text()  # noqa: E731
        self._process = self._stack.enter_context(Process(self._command, self._log, ready=ready))

    def kill(self) -> None:
        self._process.kill()


def open_gateway(
    first: Model, second: Model, lookup: Lookup, ports: Ports, folder: Path, stack: ExitStack
) -> Gateway:
    providers = {
        name: {
            "kind": "openai",
            "api_key": "${env:MODEL_KEY}",
            "base_url": f"http://127.0.0.1:{model.port}/v1",
        }
        for name, model in (("first", first), ("second", second))
    }
    settings = {
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": providers,
        "organizations": {"acme": {"client_lookup_url": lookup.url}},
        "agents": {
            "reception": {
                "providers": ["first", "second"],
                "prompt": "You answer the phone of a workshop.",
                "greeting": "Say hello.",
                "tools": {"end_call": {"enabled": True}, "lookup_caller": {"enabled": True}},
            }
        },
        "numbers": {NUMBER: {"agent": "reception", "organization": "acme"}},
        "storage": {"recordings": str(folder / "recordings")},
    }
    gateway = Gateway(settings, ports, folder / "gateway", rtp_ports=200, env={"MODEL_KEY": KEY})
    return stack.enter_context(gateway)


def gauges(gateway: Gateway) -> dict[str, float]:
    samples = gateway.metrics()
    return {name: samples[name] for name in GAUGES}


def no_more_than(before: dict[str, float], now: dict[str, float]) -> bool:
    """Say whether nothing was left behind; what the gateway did at its start is over by now."""
    return all(now[name] <= before[name] for name in before)


@pytest.mark.crowd
def test_all_calls_go_on_whose_provider_dies_in_the_same_moment(ports, tmp_path):
    with ExitStack() as stack:
        lookup = stack.enter_context(Lookup("Ada, gold customer", wait=0.05))
        first, second = (
            Model(name, ports, tmp_path, stack) for name in ("failover_first", "failover_second")
        )
        first.start()
        second.start()
        gateway = open_gateway(first, second, lookup, ports, tmp_path, stack)
        before = gauges(gateway)
        talking = threading.Barrier(CALLS + 1, timeout=60)
        killed = threading.Event()

        def call() -> None:
            with Phone(gateway.sip, ports, called=NUMBER) as phone:
                phone.call(timeout=30)
                phone.listen(4.5)
                phone.speak(ORDER)
                phone.listen(6)
                talking.wait()
                killed.wait(10)
                phone.listen(8)
                phone.speak(THANKS)
                bye_at = phone.wait_for_bye(30)
                heard = phone.heard(before=bye_at)
                assert_heard(FAREWELL, heard)
                assert hear(ANSWER, heard).heard_ms > 0, "no answer of the second provider"

        def kill() -> None:
            talking.wait()
            first.kill()
            killed.set()

        together([kill, *[call] * CALLS])
        gateway.until(lambda: no_more_than(before, gauges(gateway)), 15, f"at most {before}")
        done = reports(tmp_path / "recordings")
        assert [each["reason"] for each in done] == ["end_call"] * CALLS
        assert all(len(each["tool_calls"]) == 2 for each in done)
        assert "Traceback" not in gateway.log


def test_a_provider_that_comes_back_in_time_goes_on_when_all_were_dead(ports, tmp_path):
    with ExitStack() as stack:
        lookup = stack.enter_context(Lookup("Ada, gold customer", wait=0.05))
        first, second = (
            Model(name, ports, tmp_path, stack) for name in ("failover_first", "failover_second")
        )
        first.start()
        gateway = open_gateway(first, second, lookup, ports, tmp_path, stack)
        phone = stack.enter_context(Phone(gateway.sip, ports, called=NUMBER))
        phone.call()
        phone.listen(4.5)
        phone.speak(ORDER)
        phone.listen(6)
        first.kill()
        phone.listen(1)
        phone.press("5")
        phone.listen(1)
        second.start()
        phone.listen(8)
        phone.speak(THANKS)
        bye_at = phone.wait_for_bye(20)
        heard = phone.heard(before=bye_at)
        assert hear(ANSWER, heard).whole
        assert hear(FAREWELL, heard).whole
        assert gateway.metrics()["trunkline_calls_active"] == 0
        [report] = reports(tmp_path / "recordings")
        assert report["reason"] == "end_call"
