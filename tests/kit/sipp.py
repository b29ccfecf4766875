"""
SIPp as the trunk: runs a scenario and returns what it counted.

SIPp plays audio from a pcap through raw sockets (it has to be root) and does not listen on the ports of its
calls. :class:`Ears` can do so: it keeps what each call was sent, and the gateway gets no ICMP errors for it.
"""

from __future__ import annotations

import csv
import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.kit import pcap
from tests.kit.phone import Audio, read_rtp, timeline
from tests.kit.ports import Ports
from tests.kit.sound import Pcm, silence
from tests.kit.udp import Address, drain, udp

SCENARIOS = Path(__file__).resolve().parents[1] / "peers" / "scenarios"
STEP = 4
"""
How far apart SIPp's ``[auto_media_port]`` puts the ports of two calls. The scenarios add 4, because SIPp
itself holds the first of them and the second after it, for an echo that is not used.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What SIPp said at its end; ``exit_code`` 0 means that every call went as the scenario says."""

    exit_code: int
    successful: int
    failed: int
    retransmissions: int
    errors: str
    seconds: float

    @property
    def clean(self) -> bool:
        return self.exit_code == 0 and self.failed == 0


class Sipp:
    """
    One run of SIPp. Starts at once; :meth:`wait` returns its outcome.

    Args:
        scenario: Name of a file in ``tests/peers/scenarios`` without its ending, or a scenario's own text.
        target: The gateway's SIP address.
        folder: An empty folder for the scenario, its audio and SIPp's logs.
        calls: How many calls in all.
        at_once: How many of them at the same time.
        rate: New calls a second.
        pause: Seconds that a ``<pause/>`` of the scenario takes.
        audio: What each caller says, from its ``play_pcap_audio`` on.
        tcp: One TCP connection for all calls instead of UDP.
        timeout: Seconds after which the run has failed.
        host: SIPp's own address; its family is the target's.
        lost: Percentage of messages, both ways, that SIPp throws away.
        audio_ports: Whether each call has a port for its audio; without, all have ``[media_port]``.
        write_pcap: Writes what ``caller.pcap`` holds in place of ``audio``.
    """

    def __init__(
        self,
        scenario: str,
        target: Address,
        ports: Ports,
        folder: Path,
        *,
        called: str,
        caller: str = "+12025550123",
        calls: int = 1,
        at_once: int = 100,
        rate: float = 10.0,
        pause: float = 1.0,
        audio: Pcm | None = None,
        tcp: bool = False,
        timeout: float = 30.0,
        host: str = "127.0.0.1",
        lost: int = 0,
        audio_ports: bool = True,
        write_pcap: Callable[[Path], object] | None = None,
    ) -> None:
        self.folder, self.calls, self.timeout = folder, calls, timeout
        folder.mkdir(parents=True, exist_ok=True)
        text = scenario if "<" in scenario else (SCENARIOS / f"{scenario}.xml").read_text()
        (folder / "scenario.xml").write_text(text)
        if write_pcap is None:
            pcap.write_audio(folder / "caller.pcap", silence(0.02) if audio is None else audio)
        else:
            write_pcap(folder / "caller.pcap")
        self.media_port = ports.take(STEP * (calls + 1 if audio_ports else 1))
        self.port = ports.take(2)
        place = f"[{target[0]}]" if ":" in target[0] else target[0]
        command = ["sipp", "-sf", "scenario.xml", f"{place}:{target[1]}", "-nostdin"]
        own = f"[{host}]" if ":" in host else host
        command += ["-i", own, "-mi", host, "-p", str(self.port), "-mp", str(self.media_port)]
        command += ["-lost", str(lost)] if lost else []
        command += f"-key caller {caller} -m {calls} -l {at_once} -r {rate} -d {int(pause * 1000)}".split()
        command += f"-timeout {timeout}s -timeout_error -t {'t1' if tcp else 'u1'}".split()
        command += ["-s", called]
        command += ["-trace_err", "-error_file", "errors.log", "-trace_stat", "-stf", "stat.csv", "-fd", "1"]
        command += ["-cid_str", f"%u-%p-{self.port}@%s"]
        self.started = time.monotonic()
        with (folder / "screen.log").open("wb") as output:
            self.popen = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Sipp:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()

    @property
    def media_ports(self) -> range:
        """The ports of the calls' audio, one for each call."""
        return range(self.media_port + STEP, self.media_port + STEP * (self.calls + 1), STEP)

    def wait(self) -> Outcome:
        """Wait until all calls are over, at most ``timeout`` and five seconds."""
        try:
            code = self.popen.wait(self.timeout + 5)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            code = self.popen.wait()
        counted = last_row(self.folder / "stat.csv")
        errors = self.folder / "errors.log"
        text = errors.read_text(errors="replace") if errors.exists() else ""
        if code and not text:
            text = (self.folder / "screen.log").read_text(errors="replace")[-3000:]
        return Outcome(
            exit_code=code,
            successful=int(counted.get("SuccessfulCall(C)", 0)),
            failed=int(counted.get("FailedCall(C)", 0)),
            retransmissions=int(counted.get("Retransmissions(C)", 0)),
            errors=text,
            seconds=time.monotonic() - self.started,
        )


def last_row(path: Path) -> dict[str, str]:
    """Return the last row of a statistics file by its titles; empty when there is none."""
    if not path.exists():
        return {}
    rows = list(csv.reader(path.read_text().splitlines(), delimiter=";"))
    return dict(zip(rows[0], rows[-1], strict=False)) if len(rows) > 1 else {}


class Ears:
    """Listens on the media ports of SIPp's calls from a thread; leave the ``with`` block to stop."""

    def __init__(self, ports: range) -> None:
        self.heard: dict[int, list[Audio]] = {}
        self.selector = selectors.DefaultSelector()
        for port in ports:
            self.heard[port] = []
            self.selector.register(udp(port), selectors.EVENT_READ, self.heard[port])
        self.open = True
        self.thread = threading.Thread(target=self._listen, name="ears", daemon=True)
        self.thread.start()

    def __enter__(self) -> Ears:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.open = False
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]  # we registered sockets
        self.selector.close()

    def pcm(self, port: int) -> Pcm:
        """Return what the call on that port was sent."""
        return timeline([each for each in self.heard[port] if each.kind == 0], "PCMU")

    def _listen(self) -> None:
        while self.open:
            for key, _ in self.selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                for at, data, _ in drain(key.fileobj):
                    if (packet := read_rtp(at, data)) is not None:
                        key.data.append(packet)
