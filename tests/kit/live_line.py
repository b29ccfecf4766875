"""
One client of a GPT-Live session without a socket, in a time of its own.

Every event of the session is checked with the SDK's types.
"""

from __future__ import annotations

import base64
import json

from providers.fakes.faults import Service, parse_faults
from providers.fakes.live_check import check_server_event
from providers.fakes.live_session import LiveSession, Options
from providers.fakes.script import Script
from providers.fakes.speech import Tone, render, silence
from providers.types import PCMU, AudioFormat

TOOL = {"type": "function", "name": "lookup_caller", "parameters": {"type": "object", "properties": {}}}
PHONE = {
    "model": "gpt-live-1.1",
    "instructions": "You answer the phone.",
    "audio": {"format": {"type": "audio/pcmu", "rate": 8000}, "output": {"voice": "marin"}},
    "delegation": {"type": "responses", "responses": {"model": "gpt-5.6-luna", "tools": [TOOL]}},
}


class LiveLine:
    """A client; ``events`` are what came, with ``at`` (time) and ``ms`` (audio sent so far)."""

    def __init__(self, script: Script, faults: str = "", **options: object) -> None:
        self.now = 100.0
        self.events: list[dict] = []
        self.voice = bytearray()
        parsed = parse_faults(faults, Service.LIVE)
        given = Options(script=script, faults=parsed, check=check_server_event, **options)
        self.session = LiveSession(given, now=self.now, wall_time=1_796_000_000.0)
        self.collect()

    def collect(self) -> None:
        for frame in self.session.to_send():
            try:
                event = json.loads(frame)
            except json.JSONDecodeError:
                event = {"type": "(garbage)"}
            if event["type"] == "session.output_audio.delta":
                self.voice += base64.b64decode(event["delta"])
            else:
                self.events.append(event | {"at": self.now, "ms": self.session.heard_ms})

    def send(self, kind: str, **fields: object) -> None:
        self.session.receive(json.dumps({"type": kind, **fields}), self.now)
        self.collect()

    def start(self, **changes: object) -> None:
        self.send("session.start", event_id="start", session={**PHONE, **changes})

    def append(self, kind: str, content: str, delegation_id: str | None = None) -> None:
        self.send(f"session.{kind}.append", event_id=kind, content=content, delegation_id=delegation_id)

    def wait(self, seconds: float) -> None:
        """Let time pass without any audio."""
        until = self.now + seconds
        while (due := self.session.next_timeout()) is not None and due <= until and not self.session.closing:
            self.now = max(self.now, due)
            self.session.handle_timeout(self.now)
            self.collect()
        self.now = until

    def audio(self, audio: bytes, fmt: AudioFormat = PCMU) -> None:
        """Append audio in pieces of 20 ms, in real time."""
        size = fmt.bytes_per_ms * 20
        for at in range(0, len(audio), size):
            self.send("session.input_audio.append", audio=base64.b64encode(audio[at : at + size]).decode())
            self.wait(0.02)

    def listen(self, ms: int) -> None:
        """Be silent for so long."""
        self.audio(silence(ms, PCMU))

    def speak(self, ms: int = 800) -> None:
        self.audio(render(Tone(300, ms), PCMU))

    def turn(self, ms: int = 800) -> None:
        """Speak, then be silent until the turn is over."""
        self.speak(ms)
        self.listen(520)

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def all(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["type"] == kind]

    def nested(self, kind: str = "") -> list[dict]:
        """The backend's events, of one type or all."""
        events = [event["event"] for event in self.all("response.event")]
        return [event for event in events if not kind or event["type"] == kind]

    def error(self) -> dict:
        return self.all("error")[-1]["error"]

    def said(self) -> str:
        return "".join(event["delta"] for event in self.all("session.output_transcript.delta"))
