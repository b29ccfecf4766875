"""Our GPT-Live provider against aimock, which plays a conversation to a client that keeps to its part."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from config.providers import LiveSettings
from providers.openai_live import OpenAILiveProvider
from providers.openai_live.config import build_live_session_config
from providers.openai_live.session import OpenAILiveSession
from providers.types import PCM16_24K, AgentTranscript, AudioDelta, SessionSetup
from tests.kit.ports import Ports
from tests.oracles.aimock import Aimock
from tests.oracles.conftest import part

SETUP = SessionSetup("You answer the phone.", "", (), PCM16_24K)
MODEL = "gpt-live-1"
HEARD_MS = 400
"""Of the caller's silence, in any pieces; then the model speaks."""
VOICE = (np.sin(np.arange(24_000) * 2 * np.pi * 440 / 24_000) * 8_000).astype(np.int16).tobytes()
PIECE = 4_800


def text(audio: bytes) -> str:
    return base64.b64encode(audio).decode()


def tape() -> dict:
    """Return the conversation: what the provider has to send, and what it gets for it."""
    settings = LiveSettings(api_key="sk-test", model=MODEL)
    session = build_live_session_config(SETUP, settings)
    started = {**session, "id": "live-id-1", "expires_at": 2_000_000_000, "status": "active", "input": []}
    silence = bytes(48 * 60_000)
    entries: list[dict] = [
        {
            "direction": "client",
            "atMs": 0,
            "event": {"type": "session.start", "event_id": "start", "session": session},
        },
        server(
            1,
            0,
            type="session.started",
            event_id="live-id-2",
            client_event_id="start",
            session=started,
        ),
        {
            "direction": "client",
            "atMs": 30,
            "event": {"type": "session.input_audio.append", "audio": text(silence[: 48 * 10_000])},
        },
    ]
    heard = 48 * HEARD_MS
    entries += [
        server(1, heard, type="session.output_audio.delta", delta=text(VOICE[at : at + PIECE]))
        for at in range(0, len(VOICE), PIECE)
    ]
    entries.append(
        server(
            1,
            heard,
            type="session.output_transcript.delta",
            event_id="live-id-3",
            delta="Good morning.",
            start_ms=0,
            end_ms=1_000,
        )
    )
    closing = {"type": "session.close", "event_id": "close"}
    entries.append({"direction": "client", "atMs": 10_000, "event": closing})
    closed = {"reason": "close_requested", "session": started, "usage": {"seconds": 10}}
    about = {"type": "session.closed", "event_id": "live-id-4", "client_event_id": "close"}
    entries.append(server(2, 0, at_ms=10_000, **about, **closed))
    live = {
        "version": 1,
        "model": MODEL,
        "mode": "managed",
        "audio": {"encoding": "pcm16le", "sampleRateHz": 24_000, "channels": 1},
        "configuration": session,
        "entries": entries,
        "bindings": list(bindings(entries)),
        "capture": {"source": "authored", "complete": True, "terminalEntry": len(entries) - 1},
    }
    match = {"endpoint": "openai-live", "model": MODEL}
    return {"fixtures": [{"match": match, "response": {"live": live}}]}


def bindings(entries: list[dict]) -> Iterator[dict]:
    """Yield the places of all ids: where each is made, and where it is named again."""
    known: dict[str, str] = {}
    for index, entry in enumerate(entries):
        event = entry["event"]
        places = [(f"/{key}", event[key]) for key in ("event_id", "client_event_id") if key in event]
        if "id" in event.get("session", {}):
            places.append(("/session/id", event["session"]["id"]))
        for pointer, name in places:
            owner = entry["direction"] if pointer != "/client_event_id" else "client"
            action = "reference" if name in known else "define"
            known.setdefault(name, f"binding-{len(known) + 1}")
            yield {
                "entry": index,
                "pointer": pointer,
                "name": known[name],
                "action": action,
                "owner": owner,
            }


def server(command: int, audio: int, *, at_ms: int = 30, **event: object) -> dict:
    barrier = {"command": command, "audioBytes": audio}
    return {"direction": "server", "atMs": at_ms, "event": event, "barrier": barrier}


@pytest.fixture
async def session(ports: Ports, tmp_path: Path) -> AsyncIterator[OpenAILiveSession]:
    path = tmp_path / "live.json"
    path.write_text(json.dumps(tape()))
    with Aimock(part("npm"), ports, tmp_path, fixtures=(path,)) as aimock:
        settings = LiveSettings(api_key="sk-test", model=MODEL, base_url=aimock.url)
        async with OpenAILiveProvider(settings).connect(SETUP) as session:
            yield session


async def test_what_the_model_says_is_heard_while_silence_flows(session):
    heard, words = b"", ""
    async with asyncio.timeout(15), asyncio.TaskGroup() as group:
        speaking = group.create_task(be_silent(session))
        async for event in session:
            if isinstance(event, AudioDelta):
                heard += event.audio
            elif isinstance(event, AgentTranscript):
                words += event.text
            if len(heard) >= len(VOICE) and words:
                break
        speaking.cancel()
    assert heard == VOICE
    assert words == "Good morning."


async def be_silent(session: OpenAILiveSession) -> None:
    while True:
        await session.send_audio(bytes(960))
        await asyncio.sleep(0.02)
