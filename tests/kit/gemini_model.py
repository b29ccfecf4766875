"""
The shipped Gemini Live server in a thread of the test, for whole calls through ``trunkline serve``.

It shares no code with ``providers/gemini``, and checks what it sends with the SDK's types.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from providers.fakes.certificate import Certificate
from providers.fakes.gemini_server import GeminiFakeServer
from providers.fakes.gemini_session import LiveSession
from providers.fakes.script_parser import parse_script
from tests.kit.certificates import Authority
from tests.kit.model import Model


class GeminiModel(Model):
    """
    A Gemini Live server that plays a script; leave the ``with`` block to stop it.

    Args:
        script: YAML as ``docs/fake-provider.md`` has it.
        folder: Where the script's own sound files stand, and certificates are put.
        faults: What goes wrong on every connection.
        options: Of :class:`GeminiFakeServer`.
    """

    server: GeminiFakeServer

    def __init__(self, script: str, folder: Path, *, faults: str = "", **options: object) -> None:
        super().__init__("steps: []", folder)
        parsed = parse_script(textwrap.dedent(script), folder / "script.yaml")
        self._authority = Authority(folder / "gemini-tls")
        pair = self._authority.sign("127.0.0.1", "localhost")
        certificate = Certificate(pair.certificate, pair.private_key)
        self.server = GeminiFakeServer(parsed, faults, validate=True, certificate=certificate, **options)

    @property
    def sessions(self) -> list[LiveSession]:
        """Every connection so far, the oldest first."""
        return list(self.server.sessions)

    @property
    def settings(self) -> dict[str, object]:
        """The ``providers`` section that leads here."""
        gemini = {
            "api_key": "${env:MODEL_KEY}",
            "base_url": self.server.url,
            "ca_file": str(self._authority.file),
        }
        return {"gemini": gemini}
