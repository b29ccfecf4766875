"""
One gateway with many numbers, each with an agent, a model and faults of its own, and callers all at once.

What one caller suffers must not be felt by another, so tests of odd calls run together against one gateway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from tests.kit.gateway import COMMAND, Gateway
from tests.kit.hear import QUIET, hear, rms
from tests.kit.office import KEY, SALES
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.rogue import Manner, Rogue
from tests.kit.sound import FRAME, Pcm

T = TypeVar("T")
GAUGES = (
    "trunkline_calls_active",
    "trunkline_rtp_ports_leased",
    "trunkline_asyncio_tasks",
    "process_open_fds",
)
"""What is the same before and after calls, whatever happened in them."""


@dataclass(frozen=True, slots=True)
class Number:
    """What answers one number."""

    scene: str = "farewell"
    """A word in the prompt, for the script's ``when: {instructions: ...}``."""
    faults: str = ""
    """Of the fake OpenAI server, for this number alone."""
    lookup_url: str = ""
    knowledge: Path | None = None
    agent: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A running gateway whose numbers have names."""

    gateway: Gateway
    ports: Ports
    numbers: Mapping[str, str]
    recordings: Path
    stack: ExitStack

    def phone(self, name: str, *, manner: Manner | None = None, codec: str = "PCMU") -> Rogue:
        phone = Rogue(self.gateway.sip, self.ports, called=self.numbers[name], manner=manner, codec=codec)
        self.stack.enter_context(phone)
        return phone

    def report(self, name: str) -> dict[str, object]:
        """Wait for the one call.json of a number and return it."""
        self.gateway.until(lambda: len(self._reports(name)) == 1, 10, f"done with one call of {name}")
        return self._reports(name)[0]

    def _reports(self, name: str) -> list[dict[str, object]]:
        found = [json.loads(path.read_text()) for path in self.recordings.glob("*/call.json")]
        return [each for each in found if each["called"] == self.numbers[name]]

    def gauges(self) -> dict[str, float]:
        samples = self.gateway.metrics()
        return {name: samples[name] for name in GAUGES}


def assert_heard(recording: Pcm, capture: Pcm, what: str = "") -> None:
    """
    Fail unless a recording was heard to its last sound.

    With dozens of callers on two cores a pause may come into the middle, and the piece it falls into is not
    recognised; the end is where something would be cut off.
    """
    heard = hear(recording, capture)
    end = last_sound_ms(recording)
    assert heard.audible_ms - heard.heard_ms <= 60, (what, heard)
    assert all(at < end - 200 for at in heard.missing), (what, heard)


def last_sound_ms(recording: Pcm) -> int:
    """Return where the last audible 20 ms of a recording begin."""
    known = recording.astype(np.float64)
    return max(at for at in range(0, len(known), FRAME) if rms(known[at : at + FRAME]) >= QUIET) // 8


def together(acts: Sequence[Callable[[], None]]) -> None:
    """Run all at once, each in its thread; raise what one of them raises when all are done."""
    results(acts)


def results(acts: Sequence[Callable[[], T]]) -> list[T]:
    """Do the same and return what each returned."""
    with ThreadPoolExecutor(max_workers=len(acts)) as pool:
        done = [pool.submit(act) for act in acts]
    return [each.result() for each in done]


@contextmanager
def open_exchange(
    script: Path,
    numbers: Mapping[str, Number],
    ports: Ports,
    folder: Path,
    *,
    server: Mapping[str, object] | None = None,
) -> Iterator[Exchange]:
    """Start a fake OpenAI server and a gateway that uses it for all numbers."""
    with ExitStack() as stack:
        port = ports.take(2)
        log = folder / "model.log"
        command = [COMMAND, "fake-openai", "--port", str(port), "--script", str(script), "--validate"]
        stack.enter_context(Process(command, log, ready=lambda: "://" in log.read_text()))
        named = {name: f"+1202555{index:04d}" for index, name in enumerate(numbers)}
        url, recordings = f"http://127.0.0.1:{port}/v1", folder / "recordings"
        settings = _settings(numbers, named, url, recordings, server or {})
        gateway = Gateway(settings, ports, folder / "gateway", rtp_ports=200, env={"MODEL_KEY": KEY})
        stack.enter_context(gateway)
        yield Exchange(gateway, ports, named, recordings, stack)


def _settings(
    numbers: Mapping[str, Number],
    named: Mapping[str, str],
    url: str,
    recordings: Path,
    server: Mapping[str, object],
) -> dict[str, object]:
    settings: dict[str, dict[str, object]] = {
        part: {} for part in ("providers", "agents", "numbers", "organizations", "knowledge_bases")
    }
    for index, (name, number) in enumerate(numbers.items()):
        key = f"n{index}"
        model = "gpt-realtime-2.1" + (f"~{number.faults}" if number.faults else "")
        settings["providers"][key] = {
            "kind": "openai", "api_key": "${env:MODEL_KEY}", "base_url": url, "model": model,
        }  # fmt: skip
        tools: dict[str, object] = {
            "transfer_call": {"enabled": True, "numbers": [{"number": SALES, "label": "Sales"}]}
        }
        settings["numbers"][named[name]] = {"agent": key}
        if number.lookup_url:
            tools["lookup_caller"] = {"enabled": True}
            settings["organizations"][key] = {"client_lookup_url": number.lookup_url}
            settings["numbers"][named[name]] = {"agent": key, "organization": key}
        if number.knowledge is not None:
            tools["query_knowledge"] = {"enabled": True, "knowledge_bases": [key]}
            settings["knowledge_bases"][key] = {"path": str(number.knowledge)}
        settings["agents"][key] = {
            "providers": [key], "prompt": f"Scene: {number.scene}.", "greeting": "Say hello.", "tools": tools,
            **number.agent,
        }  # fmt: skip
    return {
        "server": server,
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "storage": {"recordings": str(recordings)},
        **{part: entries for part, entries in settings.items() if entries},
    }
