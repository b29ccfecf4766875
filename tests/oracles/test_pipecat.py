"""Our fake servers driven by `pipecat-ai`, which others wrote: greeting, a turn, an answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.kit.office import SCRIPTS, recording
from tests.oracles.conftest import Fake, part

CLIENT = Path(__file__).with_name("pipecat_client.py")
SCRIPT = (SCRIPTS / "talk.yaml").read_text()
GREETING_S, ANSWER_S = (len(recording(name)) / 8000 for name in ("greeting", "answer"))


def converse(vendor: str, *arguments: str) -> dict:
    """Run the client and return what it heard."""
    command = [str(part("pipecat") / "bin" / "python"), str(CLIENT), vendor, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def refused(log: Path) -> list[dict]:
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    return [event for event in events if event["type"] == "error"]


def test_pipecat_talks_with_the_fake_openai_server(start_fake, tmp_path):
    fake: Fake = start_fake("openai", SCRIPT, "--log", str(tmp_path / "fake.jsonl"))
    heard = converse("openai", f"{fake.url}/realtime".replace("http", "ws", 1))
    assert refused(fake.log) == []
    assert heard["greeting_s"] == pytest.approx(GREETING_S, abs=0.1)
    assert heard["answer_s"] == pytest.approx(ANSWER_S, abs=0.1)
    assert heard["kinds"]["ProposedUserStartedSpeakingFrame"] == 1


def test_pipecat_talks_with_the_fake_gemini_server(start_fake):
    fake: Fake = start_fake("gemini", SCRIPT)
    heard = converse("gemini", fake.url, str(fake.certificate))
    # It plays the first part of a message and drops the others, which are there as at the real service.
    assert GREETING_S / 2 < heard["greeting_s"] < GREETING_S + 0.1
    assert ANSWER_S / 2 < heard["answer_s"] < ANSWER_S + 0.1
    assert heard["kinds"]["TTSStartedFrame"] == 2


def test_pipecat_talks_with_the_fake_live_server(start_fake):
    fake: Fake = start_fake("live", SCRIPT)
    heard = converse("live", f"{fake.url}/live/sessions".replace("http", "ws", 1))
    assert ANSWER_S * 0.8 < heard["answer_s"] < ANSWER_S + 0.1  # its own pauses are silence as well
    assert heard["kinds"]["ProposedUserStartedSpeakingFrame"] == 1
