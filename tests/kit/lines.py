"""
Lines on which an agent says coded recordings: scripts for the fake models, settings for the gateway, and what
each model wrote down in its own log.

Every line has a number of its own, an agent whose prompt names it, recordings that no other line has, and one
call at a time, so that the n-th session of a line in the models' logs is its n-th call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import soundfile
from ruamel.yaml import YAML

from tests.kit.coded import Finder, coded
from tests.kit.gateway import COMMAND
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.sound import RATE

EXPECTED = ("item_retrieve_invalid_item_id", "response_cancel_not_active")
"""The first answers the question whether it is alive, the second a cancel that crossed a response's end."""
NOTE = re.compile(r'only this was heard: \\"([^"\\]*)\\"')
SILENCE_MS = 200
"""Silence that ends a caller's turn, for the fake models."""


@dataclass(frozen=True, slots=True)
class Line:
    """
    One line.

    Args:
        index: Which.
        lengths_ms: Of its recordings, whose numbers are ``100 * index`` and up.
        steps: What the agent does, as in a script; recordings by their place in ``lengths_ms``.
        codec: What its caller's telephone speaks.
        model: Which of the models answers.
    """

    index: int
    lengths_ms: tuple[int, ...]
    steps: tuple[Mapping[str, object], ...]
    codec: str
    model: str

    @property
    def number(self) -> str:
        return f"+1212555{1000 + self.index}"

    @property
    def name(self) -> str:
        return f"line-{self.index:03}"

    @property
    def recordings(self) -> dict[int, int]:
        """Number and length of each."""
        return {100 * self.index + place: ms for place, ms in enumerate(self.lengths_ms)}

    def say(self, place: int) -> dict[str, str]:
        """Return what a step says: its words are its number, again and again, so that each piece has it."""
        number, ms = 100 * self.index + place, self.lengths_ms[place]
        return {"audio": f"coded-{number}.flac", "text": " ".join([str(number)] * (ms // 100 + 1))}

    def finder(self) -> Finder:
        return Finder([(number, coded(number, ms)) for number, ms in self.recordings.items()])


class Models:
    """
    Fake servers of several speeds, each with a log of its own.

    Args:
        speeds: Name, and how much faster than real time it makes speech.
        kind: ``openai`` or ``gemini``.
    """

    def __init__(
        self,
        lines: Sequence[Line],
        speeds: Mapping[str, float],
        folder: Path,
        ports: Ports,
        *,
        kind: str = "openai",
    ) -> None:
        self.lines = lines
        self.kind = kind
        self.logs: list[Path] = []
        self.urls: dict[str, str] = {}
        self.processes: list[Process] = []
        folder.mkdir(parents=True, exist_ok=True)
        for line in lines:
            for number, ms in line.recordings.items():
                soundfile.write(folder / f"coded-{number}.flac", coded(number, ms), RATE, subtype="PCM_16")
        for name, speed in speeds.items():
            script = folder / f"{name}.yaml"
            self._write(script, [line for line in lines if line.model == name], speed)
            self._start(name, script, ports.take(2), folder)

    def __enter__(self) -> Models:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.stop()

    def _write(self, path: Path, lines: Iterable[Line], speed: float) -> None:
        scenes = [{"when": {"instructions": rf"{line.name}\b"}, "steps": list(line.steps)} for line in lines]
        with path.open("w") as file:
            YAML().dump({"speech": {"speed": speed}, "otherwise": "silence", "scenes": scenes}, file)

    def _start(self, name: str, script: Path, port: int, folder: Path) -> None:
        output, log = folder / f"{name}.out", folder / f"{name}.jsonl"
        command = [COMMAND, f"fake-{self.kind}", "--port", str(port), "--script", str(script)]
        command += ["--log", str(log)]
        if self.kind == "gemini":
            command += ["--tls-folder", str(folder)]
        self.processes.append(Process(command, output, ready=lambda: "://" in output.read_text()))
        self.logs.append(log)
        self.urls[name] = next(line for line in output.read_text().splitlines() if "://" in line)
        self.certificate = folder / "fake-cert.pem"

    def settings(self) -> dict[str, object]:
        """Return the gateway's settings that lead here, one number for each line."""
        provider: dict[str, object] = {
            "kind": self.kind,
            "api_key": "${env:MODEL_KEY}",
            "turn_detection": {"silence_ms": SILENCE_MS},
        }
        if self.kind == "gemini":
            provider["ca_file"] = str(self.certificate)
        else:
            provider["transcription_model"] = None
        agents = {
            line.name: {
                "providers": [line.model],
                "prompt": f"You are the agent of {line.name}.",
                "greeting": "Say hello.",
            }
            for line in self.lines
        }
        return {
            "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
            "providers": {name: {**provider, "base_url": url} for name, url in self.urls.items()},
            "agents": agents,
            "numbers": {line.number: {"agent": line.name} for line in self.lines},
        }

    def told(self) -> dict[str, list[Told]]:
        """Return what the models wrote down: the sessions of each line, the earliest first."""
        found: dict[str, list[Told]] = {}
        for log in self.logs:
            for session in read_log(log):
                found.setdefault(session.line, []).append(session)
        return found


@dataclass(slots=True)
class Said:
    """An item that a model spoke."""

    item_id: str
    response_id: str
    number: int = -1
    """Of its recording, by its words."""
    truncated_ms: int | None = None


@dataclass(slots=True)
class Told:
    """A session, as the model's log has it."""

    line: str = ""
    items: dict[str, Said] = field(default_factory=dict)
    ended_by: str = ""
    """The response that asked for the end of the call."""
    errors: list[str] = field(default_factory=list)
    notes: list[list[int]] = field(default_factory=list)
    """Gemini cannot truncate and is told in words what was heard: each word is a recording's number."""

    def take_note(self, side: str, message: Mapping[str, object]) -> None:
        """Take a message of Gemini."""
        if side != "client":
            return
        text = json.dumps(message)
        if "setup" in message:
            found = re.search(r"line-\d+", text)
            self.line = found[0] if found else ""
        for heard in NOTE.findall(text):
            self.notes.append([int(word) for word in heard.split()])

    def take(self, side: str, event: Mapping[str, object]) -> None:
        match side, event["type"]:
            case "client", "session.update" if not self.line:
                found = re.search(r"line-\d+", json.dumps(event))
                self.line = found[0] if found else ""
            case "client", "conversation.item.truncate":
                self.items[str(event["item_id"])].truncated_ms = int(str(event["audio_end_ms"]))
            case "server", "response.output_item.added":
                self._added(event)
            case "server", "response.output_audio_transcript.delta":
                self._word(event)
            case "server", "response.done":
                self._done(event)
            case "server", "error" if not any(code in json.dumps(event) for code in EXPECTED):
                self.errors.append(json.dumps(event))

    def _added(self, event: Mapping[str, object]) -> None:
        item = event["item"]
        assert isinstance(item, Mapping)
        if item["type"] == "message":
            self.items[item["id"]] = Said(item["id"], str(event["response_id"]))

    def _word(self, event: Mapping[str, object]) -> None:
        self.items[str(event["item_id"])].number = int(str(event["delta"]).split()[0])

    def _done(self, event: Mapping[str, object]) -> None:
        response = event["response"]
        assert isinstance(response, Mapping)
        calls = [item["name"] for item in response["output"] if item["type"] == "function_call"]
        if response["status"] == "completed" and "end_call" in calls:
            self.ended_by = response["id"]


def read_log(path: Path) -> list[Told]:
    """Return the sessions of one model's log."""
    sessions: dict[int, Told] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        session = sessions.setdefault(entry["session"], Told())
        take = session.take if "type" in entry["event"] else session.take_note
        take(entry["side"], entry["event"])
    return [sessions[number] for number in sorted(sessions)]
