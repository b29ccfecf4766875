"""
A gateway with a receptionist, as an operator would run it, for tests with real peers.

The far ends are SIPp, baresip, or the kit's own phone and probe; the model is the fake provider inside the
gateway or a fake server beside it (OpenAI Realtime, GPT-Live); all play a script of ``tests/peers/scripts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit import sound
from tests.kit.gateway import COMMAND, Gateway
from tests.kit.phone import Phone
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.sound import Pcm

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "peers" / "scripts"
AUDIO = ROOT / "providers" / "fakes" / "audio"
NUMBER = "+12125550100"
SALES = "+12125551234"
KEY = "sk-test-0123456789"
CA = "fake-cert.pem"

EVERY = pytest.mark.parametrize("office", ["fake", "openai", "openai-live", "gemini"], indirect=True)
"""On what every model has to do; the fixture alone leaves Gemini out, which takes seconds to start."""


def recording(name: str) -> Pcm:
    """Return what the scripts call ``name.flac``."""
    return sound.read(AUDIO / f"{name}.flac")


@dataclass
class Office:
    """Starts gateways and phones; everything is ended with the test."""

    provider: str
    ports: Ports
    folder: Path
    stack: ExitStack
    model: Process | None = None

    def open(
        self,
        script: str = "talk",
        *,
        faults: tuple[str, ...] = (),
        agent: Mapping[str, object] | None = None,
        server: Mapping[str, object] | None = None,
        trunk: Mapping[str, object] | None = None,
        storage: Mapping[str, object] | None = None,
        rtp_ports: int = 100,
    ) -> Gateway:
        """Start a gateway whose receptionist plays a script, and wait until it is ready."""
        settings = {
            "server": server or {},
            "trunks": {"loopback": {"allow": ["127.0.0.0/8"], **(trunk or {})}},
            "providers": {self.provider: self._provider(script, faults)},
            "agents": {"reception": {**self._agent(), **(agent or {})}},
            "numbers": {NUMBER: {"agent": "reception"}},
            "storage": {"recordings": str(self.folder / "recordings"), **(storage or {})},
        }
        return self.start(settings, rtp_ports=rtp_ports)

    def start(self, settings: Mapping[str, object], *, rtp_ports: int = 100) -> Gateway:
        gateway = Gateway(
            settings, self.ports, self.folder / "gateway", rtp_ports=rtp_ports, env={"MODEL_KEY": KEY}
        )
        return self.stack.enter_context(gateway)

    def phone(self, gateway: Gateway, **options: object) -> Phone:
        arguments = {"called": NUMBER, **options}
        return self.stack.enter_context(Phone(gateway.sip, self.ports, **arguments))

    def _agent(self) -> dict[str, object]:
        return {
            "providers": [self.provider],
            "prompt": "You answer the phone.",
            "greeting": "Say hello.",
            "tools": {"transfer_call": {"enabled": True, "numbers": [{"number": SALES, "label": "Sales"}]}},
        }

    def _provider(self, script: str, faults: tuple[str, ...]) -> dict[str, object]:
        path = SCRIPTS / f"{script}.yaml"
        if self.provider == "fake":
            return {"script": str(path)}
        port = self.ports.take(2)
        log = self.folder / "model.log"
        server = {"gemini": "fake-gemini", "openai-live": "fake-live"}.get(self.provider, "fake-openai")
        command = [COMMAND, server, "--port", str(port), "--script", str(path), "--validate"]
        if self.provider == "gemini":  # its SDK speaks TLS alone
            command += ["--tls-folder", str(self.folder)]
        command += [part for fault in faults for part in ("--fault", fault)]
        self.model = self.stack.enter_context(Process(command, log, ready=lambda: "://" in log.read_text()))
        if self.provider == "gemini":
            address = f"https://127.0.0.1:{port}"
            return {"api_key": "${env:MODEL_KEY}", "base_url": address, "ca_file": str(self.folder / CA)}
        return {"api_key": "${env:MODEL_KEY}", "base_url": f"http://127.0.0.1:{port}/v1"}


def make_office(provider: str, ports: Ports, folder: Path) -> Iterator[Office]:
    with ExitStack() as stack:
        yield Office(provider, ports, folder, stack)
