"""
Trunkline itself, as an operator runs it: ``trunkline serve CONFIG`` as a process.

Nothing of the gateway is imported here: tests see it through SIP, RTP, HTTP, its log and its files.
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from ruamel.yaml import YAML

from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.udp import Address

COMMAND = str(Path(sys.executable).with_name("trunkline"))
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


class Gateway(Process):
    """
    A running gateway with its own ports and its own folder.

    Args:
        settings: The YAML as a mapping; ``server`` gets the ports, and what it listens on itself comes after.
        folder: Where the YAML is written and the gateway runs.
        rtp_ports: How many ports the calls may use; two a call.
        hosts: Where it listens for SIP, UDP and TCP; the first is the address of :attr:`sip`.
        env: Variables for ``${env:NAME}``.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        ports: Ports,
        folder: Path,
        *,
        rtp_ports: int = 100,
        env: Mapping[str, str] | None = None,
        hosts: tuple[str, ...] = ("127.0.0.1",),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.sip: Address = (hosts[0], ports.take(2))
        self.http: Address = ("127.0.0.1", ports.take(2))
        first = ports.take(rtp_ports)
        self.config = folder / "trunkline.yaml"
        self.settings = with_ports(settings, self.sip, self.http, f"{first}-{first + rtp_ports - 1}", hosts)
        self.write(self.settings)
        command = [COMMAND, "serve", str(self.config)]
        super().__init__(command, folder / "gateway.log", ready=self.is_ready, env=env, cwd=folder)

    def write(self, settings: Mapping[str, object]) -> None:
        """Write the configuration file anew, as an editor would; the gateway sees the change by itself."""
        with self.config.open("w") as file:
            YAML().dump(settings, file)

    def is_ready(self) -> bool:
        """Whether it takes calls, and has done what it does only once: what it holds now is its own."""
        return self.get("/readyz")[0] == 200 and "providers.advised" in self.log

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page; status 0 while nobody listens."""
        url = f"http://{self.http[0]}:{self.http[1]}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metrics(self) -> dict[str, float]:
        """Return the samples of ``/metrics`` by name with labels, as Prometheus would read them."""
        return read_metrics(self.get("/metrics")[1])


def read_metrics(text: str) -> dict[str, float]:
    """Parse the text format of Prometheus, without its comments."""
    return {name: float(value) for name, value in SAMPLE.findall(text)}


def with_ports(
    settings: Mapping[str, object],
    sip: Address,
    http: Address,
    rtp: str,
    hosts: tuple[str, ...] = ("127.0.0.1",),
) -> dict[str, object]:
    """Return settings whose ``server`` listens where the test wants it, keeping what it says otherwise."""
    server = settings.get("server", {})
    assert isinstance(server, Mapping)
    own = server.get("sip", {})
    places = [f"[{host}]:{sip[1]}" if ":" in host else f"{host}:{sip[1]}" for host in hosts]
    listening = {
        "listen": [f"{transport}:{place}" for place in places for transport in ("udp", "tcp")]
        + list(own.get("listen", ())),
        "public_address": sip[0] if len(hosts) == 1 else "auto",
        "rtp_ports": rtp,
    }
    listen = {"sip": {**own, **listening}, "http": {"listen": f"{http[0]}:{http[1]}"}}
    return {**settings, "server": {**server, **listen}}
