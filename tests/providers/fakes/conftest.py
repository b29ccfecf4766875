"""A session without a socket and without a clock, and scripts from text."""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from providers.fakes.faults import parse_faults
from providers.fakes.openai_check import check_server_event
from providers.fakes.openai_session import Options, RealtimeSession
from providers.fakes.script import Script
from providers.fakes.script_parser import parse_script
from providers.fakes.speech import Tone, render, silence
from providers.types import PCMU, AudioFormat

PHONE = {
    "type": "realtime",
    "instructions": "You answer the phone.",
    "audio": {
        "input": {
            "format": {"type": "audio/pcmu"},
            "transcription": {"model": "gpt-live-transcribe"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 500},
        },
        "output": {"format": {"type": "audio/pcmu"}},
    },
}

TALK = """
steps:
  - {on: greeting, say: {tone: 440, ms: 1000, text: "Hello, who is there"}}
  - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 2000, text: "Good to hear you again"}}
  - {on: caller_turn, say: {tone: 600, ms: 1000, text: "And now goodbye"}}
"""


class Line:
    """One client of a session, in a time of its own; every event is checked with the SDK's types."""

    def __init__(self, script: Script, faults: str = "", **options: object) -> None:
        self.now = 100.0
        self.events: list[dict] = []
        self.frames: list[bytes] = []
        self.session = RealtimeSession(
            Options(script=script, faults=parse_faults(faults), check=check_server_event, **options),
            now=self.now,
            wall_time=1_796_000_000.0,
        )
        self.collect()

    def collect(self) -> None:
        frames = self.session.to_send()
        self.frames += frames
        for frame in frames:
            try:
                self.events.append(json.loads(frame) | {"at": self.now})
            except json.JSONDecodeError:
                self.events.append({"type": "(garbage)", "at": self.now})

    def send(self, kind: str, **fields: object) -> None:
        self.session.receive(json.dumps({"type": kind, **fields}), self.now)
        self.collect()

    def run(self, seconds: float) -> None:
        """Let time pass, stopping wherever the session wants to be called."""
        until = self.now + seconds
        while (due := self.session.next_timeout()) is not None and due <= until and not self.session.closing:
            self.now = max(self.now, due)
            self.session.handle_timeout(self.now)
            self.collect()
        self.now = until
        self.session.handle_timeout(self.now)
        self.collect()

    def phone(self) -> None:
        self.send("session.update", session=PHONE)

    def audio(self, audio: bytes, fmt: AudioFormat = PCMU) -> None:
        """Append audio in pieces of 20 ms, in real time."""
        size = fmt.bytes_per_ms * 20
        for at in range(0, len(audio), size):
            self.send("input_audio_buffer.append", audio=base64.b64encode(audio[at : at + size]).decode())
            self.run(0.02)

    def speak(self, ms: int = 800) -> None:
        """Speak for so long; the turn is not over yet."""
        self.audio(render(Tone(300, ms), PCMU))

    def turn(self, ms: int = 800) -> None:
        """Speak, then be silent until the turn is over."""
        self.speak(ms)
        self.audio(silence(520, PCMU))

    def types(self, start: int = 0) -> list[str]:
        return [event["type"] for event in self.events[start:]]

    def all(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["type"] == kind]

    def last(self, kind: str) -> dict:
        return self.all(kind)[-1]

    def error(self) -> dict:
        return self.last("error")["error"]

    def spoken(self, item_id: str) -> bytes:
        deltas = [e for e in self.all("response.output_audio.delta") if e["item_id"] == item_id]
        return b"".join(base64.b64decode(e["delta"]) for e in deltas)


@pytest.fixture
def script_of() -> Callable[[str], Script]:
    return lambda text: parse_script(textwrap.dedent(text), Path("test.yaml"))


@pytest.fixture(scope="session")
def new_line() -> type[Line]:
    return Line


@pytest.fixture
def dial(script_of: Callable[[str], Script]) -> Callable[..., Line]:
    """Return a maker of lines; each is configured for the telephone unless ``raw``."""

    def make(text: str = TALK, faults: str = "", *, raw: bool = False, **options: object) -> Line:
        line = Line(script_of(text), faults, **options)
        if not raw:
            line.phone()
        return line

    return make


@pytest.fixture(scope="session")
def golden() -> list[tuple[str, dict]]:
    """The recorded transcripts: ``("S", event)`` from the server, ``("C", event)`` from the client."""
    lines = (Path(__file__).parent / "data" / "golden_openai.jsonl").read_text(encoding="utf-8").splitlines()
    return [(entry["side"], entry["event"]) for entry in map(json.loads, lines)]
