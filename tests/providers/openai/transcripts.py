"""Recorded conversations as data: each line is ``["S" | "C", event]``, server or client."""

from __future__ import annotations

import json
from pathlib import Path

_DATA = Path(__file__).parent / "data"
NAMES = ("turn", "tool", "barge", "misc")


def transcript(name: str) -> list[tuple[str, dict]]:
    lines = (_DATA / f"{name}.jsonl").read_text().splitlines()
    return [(side, event) for side, event in map(json.loads, lines)]


def server_events(name: str) -> list[dict]:
    return [event for side, event in transcript(name) if side == "S"]


def frames(name: str) -> list[bytes]:
    """The server's side as frames, compact as the service writes them."""
    return [json.dumps(event, separators=(",", ":")).encode() for event in server_events(name)]
