"""Our fake Gemini server driven by npm `@google/genai`, Google's client for another language than ours."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit.office import recording
from tests.oracles.conftest import Fake, part

CLIENT = Path(__file__).with_name("genai_client.mjs")
SCRIPT = """
steps:
  - {on: greeting, say: greeting.flac}
  - on: caller_turn
    heard: When are you open?
    call: {tool: query_knowledge, arguments: {query: opening hours}}
  - {on: {tool_result: query_knowledge}, say: hours.flac}
"""


def test_googles_javascript_client_talks_with_the_fake_gemini_server(start_fake):
    fake: Fake = start_fake("gemini", SCRIPT)
    command = ["node", str(CLIENT), str(part("npm") / "node_modules"), fake.url]
    trusted = {**os.environ, "NODE_EXTRA_CA_CERTS": str(fake.certificate)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90, env=trusted)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert "error" not in told
    assert told["calls"] == [{"name": "query_knowledge", "args": {"query": "opening hours"}}]
    assert "".join(told["transcripts"]).strip() == "When are you open?"
    wanted = [len(recording(name)) / 8 for name in ("greeting", "hours")]
    assert told["audio_ms"] == pytest.approx(wanted, abs=60)
