"""The servers under test: how each is started, loaded, and known to be up."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.stage import HOST, Actor, Stage, StageError, free_port, free_port_range

HERE = Path(__file__).parent
TRUNKLINE_YAML = """\
server:
  sip: {{listen: ["udp:{host}:{port}"], public_address: {host}, rtp_ports: {first}-{last}, max_calls: 1000}}
  http: {{listen: "{host}:{http}"}}
trunks:
  load: {{allow: ["127.0.0.0/8"], codecs: [PCMU]}}
providers:
  openai: {{api_key: bench, base_url: "http://{host}:{fake}/v1", transcription_model: null}}
agents:
  bench: {{providers: [openai], prompt: "You answer a load test."}}
numbers:
  bench: {{agent: bench}}
"""
RTP_PORTS = 1000


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is up: where its load goes."""

    actor: Actor
    port: int


@dataclass(frozen=True, slots=True)
class Contender:
    """
    One kind of server.

    ``start`` takes the stage, the fake's port, a folder for its files, and a function that pins a command to
    the server's core.
    """

    name: str
    load: str
    start: Callable[[Stage, int, Path, Callable[[list[str]], list[str]]], Server]


def _trunkline(stage: Stage, fake: int, folder: Path, pin: Callable[[list[str]], list[str]]) -> Server:
    port, http = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)
    first, last = free_port_range(RTP_PORTS, besides=[port])
    settings = folder / "trunkline.yaml"
    settings.write_text(
        TRUNKLINE_YAML.format(host=HOST, port=port, http=http, first=first, last=last, fake=fake)
    )
    trunkline = str(Path(sys.executable).parent / "trunkline")
    actor = stage.start("trunkline", pin([trunkline, "serve", str(settings)]))
    stage.wait_for_url(actor, f"http://{HOST}:{http}/readyz", within=20)
    return Server(actor, port)


def _script(name: str) -> Callable[[Stage, int, Path, Callable[[list[str]], list[str]]], Server]:
    def start(stage: Stage, fake: int, _folder: Path, pin: Callable[[list[str]], list[str]]) -> Server:
        port = free_port(socket.SOCK_STREAM)
        script = str(HERE / "subjects" / f"{name}.py")
        provider = f"ws://{HOST}:{fake}/v1/realtime"
        actor = stage.start(name, pin([sys.executable, script, "--port", str(port), "--provider", provider]))
        wait_for_port(port, actor)
        return Server(actor, port)

    return start


def wait_for_port(port: int, actor: Actor, within: float = 20.0) -> None:
    """Wait until something accepts TCP connections there."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if actor.process.poll() is not None:
            raise StageError(f"the {actor.name} ended too early:\n{actor.tail()}")
        try:
            socket.create_connection((HOST, port), 0.5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise StageError(f"nothing listens on {port}:\n{actor.tail()}")


CONTENDERS = {
    "trunkline": Contender("trunkline", "rtp_load", _trunkline),
    "rtp_fast-paced": Contender("rtp_fast-paced", "rtp_load", _script("rtp_fast")),
    "minimal-uvloop": Contender("minimal-uvloop", "stream_load", _script("minimal_bridge")),
}
