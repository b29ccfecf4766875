"""npm `@copilotkit/aimock`: servers of several vendors' protocols, written by others, that play fixtures."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from tests.kit.ports import Ports
from tests.kit.process import Process

FIXTURES = Path(__file__).parent / "fixtures"


class Aimock(Process):
    """
    A running server on loopback.

    Args:
        npm: The folder with ``node_modules``.
        folder: Where its log and its fixtures go.
        fixtures: Files beside those of this project.
    """

    def __init__(self, npm: Path, ports: Ports, folder: Path, *, fixtures: tuple[Path, ...] = ()) -> None:
        self.port = ports.take()
        played = folder / "fixtures"
        shutil.copytree(FIXTURES, played)
        for fixture in fixtures:
            shutil.copy(fixture, played)
        command = ["node", str(npm / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js")]
        command += ["-p", str(self.port), "-h", "127.0.0.1", "-f", str(played)]
        super().__init__(command, folder / "aimock.log", ready=self._listens)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
