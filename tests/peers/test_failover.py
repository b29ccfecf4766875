"""
A provider is killed in mid-sentence, and another one of another kind goes on with the call.

The provider that is killed is a process of its own (SIGKILL); the one that goes on is in this process, so
that it can be asked what it was told. What the caller hears is judged by the packets that came, and nothing
else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from providers.fakes.gemini_server import GeminiFakeServer
from providers.fakes.live_server import LiveFakeServer
from providers.fakes.openai_server import OpenAIFakeServer
from tests.kit.counts import counts
from tests.kit.gateway import COMMAND, Gateway
from tests.kit.hear import QUIET, best_match, hear, rms
from tests.kit.model import Lookup, reports
from tests.kit.office import KEY, NUMBER, SCRIPTS, recording
from tests.kit.phone import PAYLOAD, Phone
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.served import Served
from tests.kit.sound import FRAME, Pcm, decode

pytestmark = pytest.mark.peers

SPEECH_BACK_S = 2.5
ALIKE = 0.9
"""Likeness of a recording that went through 24 kHz and back."""
GREETING, ANSWER, FAREWELL = recording("greeting"), recording("answer"), recording("farewell")
ORDER, THANKS = recording("caller_number"), recording("caller_thanks")
RECORD = "Ada, gold customer"


@dataclass(frozen=True)
class Run:
    """What one seed decides."""

    seed: int
    first: str
    second: str
    pending: bool
    """Whether the tool is still running when the provider is killed."""
    kill_after: float
    """Seconds from the request of the look-up."""

    @classmethod
    def of(cls, seed: int, first: str, second: str) -> Run:
        dice = random.Random(f"{first} {second} {seed}")
        pending = seed % 2 == 1
        return cls(
            seed, first, second, pending, dice.uniform(0.1, 1.2) if pending else dice.uniform(1.0, 6.0)
        )


SERVERS: dict[str, type[GeminiFakeServer] | type[OpenAIFakeServer] | type[LiveFakeServer]] = {
    "openai": OpenAIFakeServer, "gemini": GeminiFakeServer, "openai-live": LiveFakeServer,
}  # fmt: skip


class Killed:
    """The provider that is killed, as a process."""

    def __init__(self, kind: str, ports: Ports, folder: Path, stack: ExitStack) -> None:
        port, log = ports.take(2), folder / "first.log"
        command = [COMMAND, f"fake-{kind.removeprefix('openai-')}", "--port", str(port)]
        command += ["--script", str(SCRIPTS / "failover_first.yaml")]
        if kind == "gemini":
            command += ["--tls-folder", str(folder)]
        self.process = stack.enter_context(
            Process(command, log, ready=lambda: "://" in log.read_text() and self._certificate(kind, log))
        )
        self.settings: dict[str, object] = {"kind": kind, "api_key": "${env:MODEL_KEY}"}
        if kind == "gemini":
            self.settings |= {
                "base_url": f"https://127.0.0.1:{port}",
                "ca_file": self._certificate(kind, log),
            }
        else:
            self.settings |= {"base_url": f"http://127.0.0.1:{port}/v1"}

    @staticmethod
    def _certificate(kind: str, log: Path) -> str:
        """Return the file that the process names; any text where it needs none."""
        if kind != "gemini":
            return "none"
        return next((line for line in log.read_text().splitlines() if line.endswith(".pem")), "")


class Successor:
    """The provider that goes on."""

    def __init__(self, kind: str, folder: Path, stack: ExitStack) -> None:
        script = SCRIPTS / "failover_second.yaml"
        self.server = SERVERS[kind](script, validate=True)
        stack.enter_context(Served(self.server))
        self.settings: dict[str, object] = {
            "kind": kind, "api_key": "${env:MODEL_KEY}", "base_url": self.server.url,
        }  # fmt: skip
        if isinstance(self.server, GeminiFakeServer):
            trusted = folder / "second.pem"
            trusted.write_text(self.server.certificate_pem)
            self.settings["ca_file"] = str(trusted)

    def told(self, text: str) -> int:
        """Return how many of the messages that came have a text in them."""
        if isinstance(self.server, GeminiFakeServer):
            messages = [each.message for each in self.server.sessions[-1].received]
        else:
            messages = [each.event for each in self.server.sessions[-1].received]
        return sum(orjson.dumps(message).decode().count(text) for message in messages)


def settings_of(first: Killed, second: Successor, lookup: Lookup, folder: Path) -> dict[str, object]:
    return {
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": {"first": first.settings, "second": second.settings},
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


def likeness(known: Pcm, heard: Pcm) -> float:
    if len(heard) <= len(known):
        return 0.0
    return best_match(known.astype(float), heard.astype(float))[0]


def listen_for(phone: Phone, known: Pcm, timeout: float, what: str) -> None:
    """Wait until a recording was heard, also one that was resampled on its way."""
    end = time.monotonic() + timeout
    while likeness(known, phone.heard()[-len(known) - 32_000 :]) < ALIKE:
        assert time.monotonic() < end, f"{what} was not heard in {timeout} s"
        phone.listen(0.3)


def longest_silence(phone: Phone, since: float) -> float:
    """Return the longest time between two packets with sound in them, from the last before ``since`` on."""
    voice = [
        each.at
        for each in phone.audio
        if each.kind == PAYLOAD["PCMU"] and rms(decode(each.payload).astype(float)) >= QUIET
    ]
    last = max((at for at in voice if at <= since), default=since)
    moments = [last, *(at for at in voice if at > since)]
    return max((after - before for before, after in pairwise(moments)), default=0.0)


def survive(run: Run, ports: Ports, folder: Path) -> float:
    """Have a call in which the first provider is killed; return the longest silence after that."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        lookup = stack.enter_context(Lookup(RECORD, wait=2.0 if run.pending else 0.05))
        first = Killed(run.first, ports, folder, stack)
        second = Successor(run.second, folder, stack)
        gateway = stack.enter_context(
            Gateway(
                settings_of(first, second, lookup, folder), ports, folder / "gateway", env={"MODEL_KEY": KEY}
            )
        )
        phone = stack.enter_context(Phone(gateway.sip, ports, called=NUMBER))
        phone.call()
        listen_for(phone, GREETING, 15, "the greeting")
        phone.speak(ORDER)
        phone.until(lambda: lookup.asked, 10, "the look-up")
        phone.listen(run.kill_after)
        killed_at = time.time()
        first.process.kill()
        listen_for(phone, ANSWER, 20, "the answer of the second provider")
        silence = longest_silence(phone, killed_at)
        phone.listen(0.5)
        phone.speak(THANKS)
        phone.wait_for_bye(20)
        heard = phone.heard()

        assert likeness(FAREWELL, heard) >= ALIKE
        assert len(lookup.asked) == 1
        assert second.told(RECORD) == 1, "the result of the tool was not told exactly once"
        assert second.told("order number is 4711") == 1
        after = heard[len(GREETING) + FRAME * 100 :]
        assert not hear(GREETING, after).whole, "there was a second greeting"
        [report] = reports(folder / "recordings")
        judge(report, run)
    return silence


def judge(report: dict, run: Run) -> None:
    assert (report["reason"], report["by"]) == ("end_call", "agent")
    # A session that looks for its server without success, while nobody waits for it, is handed over.
    changes = [each["step"] for each in report["recovery"] if each["step"] not in ("filled", "spoke_again")]
    assert changes in (["lost", "swapped"], ["handed_over"]), run
    assert report["recovery"][-1]["provider"] == "second"
    assert [call["tool"] for call in report["tool_calls"]] == ["lookup_caller", "end_call"]
    said = [turn["heard"] for turn in report["transcript"] if turn["who"] == "agent"]
    assert sum("front desk" in text for text in said) == 1


@pytest.fixture
def silences() -> Iterator[list[float]]:
    found: list[float] = []
    yield found
    found.sort()
    print(f"longest silence of each run: {', '.join(f'{each:.2f}' for each in found)} s")


@pytest.mark.parametrize(("first", "second"), [("openai", "openai-live"), ("openai-live", "gemini")])
def test_a_model_that_listens_while_it_talks_takes_over_and_is_taken_over(first, second, ports, tmp_path):
    silence = survive(Run(0, first, second, pending=False, kill_after=2.0), ports, tmp_path / "run")
    assert silence <= SPEECH_BACK_S


@pytest.mark.soak
@pytest.mark.report("BR-106")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("first", "second"), [("openai", "gemini"), ("gemini", "openai")])
def test_speech_is_back_when_a_provider_is_killed_in_mid_sentence(first, second, ports, tmp_path, silences):
    for seed in range(counts(test=1, full=50)):
        run = Run.of(seed, first, second)
        print(run)
        silences.append(survive(run, ports, tmp_path / str(seed)))
        assert silences[-1] <= SPEECH_BACK_S, run
