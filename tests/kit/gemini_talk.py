"""The official SDK as a client of the shipped Gemini Live server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from google.genai import types
from google.genai.live import AsyncSession

from providers.fakes.gemini_server import GeminiFakeServer
from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K
from tests.kit.gemini import MODEL, gemini_server, sdk_client

TALK = """
speech: {speed: 50}
hearing: {transcript_after_ms: 0}
steps:
  - {on: greeting, say: {tone: 440, ms: 300, text: "Hello, who is there"}}
  - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 400, text: "Good to hear you"}}
  - {on: barge_in, say: {tone: 550, ms: 200, text: "Yes please"}}
"""


class Talk:
    """A session of the SDK, and what came of it."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session
        self.messages: list[types.LiveServerMessage] = []
        self.voice = b""

    async def until(
        self, found: Callable[[types.LiveServerMessage], object], seconds: float = 10.0
    ) -> types.LiveServerMessage:
        """Take messages until ``found`` says so, as a client has to: turn after turn; return the last."""
        async with asyncio.timeout(seconds):
            while True:
                async for message in self.session.receive():
                    self.messages.append(message)
                    self.voice += message.data or b""
                    if found(message):
                        return message

    async def turn(self) -> types.LiveServerMessage:
        """Take messages until the turn of the model is over."""
        return await self.until(
            lambda message: message.server_content and message.server_content.turn_complete
        )

    async def handle(self) -> str | None:
        """Return the handle of the next update."""
        found = await self.until(lambda message: message.session_resumption_update is not None)
        return found.session_resumption_update.new_handle

    async def say(self, ms: int = 400, pause_ms: int = 600) -> None:
        """Speak, then be silent, as fast as the loop can."""
        audio = render(Tone(300, ms), PCM16_16K) + silence(pause_ms, PCM16_16K)
        for at in range(0, len(audio), 640):
            blob = types.Blob(data=audio[at : at + 640], mime_type="audio/pcm;rate=16000")
            await self.session.send_realtime_input(audio=blob)

    def contents(self, field: str) -> list:
        """Return a field of every ``server_content`` that has it."""
        found = [
            getattr(message.server_content, field) for message in self.messages if message.server_content
        ]
        return [each for each in found if each]


def config(*tools: str, behavior: str | None = None, **more: object) -> types.LiveConnectConfig:
    """Return what a telephone call asks for; ``more`` are fields of the configuration."""
    functions = [
        types.FunctionDeclaration(
            name=name, description=name, parameters_json_schema={"type": "object"}, behavior=behavior
        )
        for name in tools
    ]
    settings = {
        "response_modalities": ["AUDIO"],
        "system_instruction": "You answer the phone.",
        "tools": [types.Tool(function_declarations=functions)] if functions else None,
        "input_audio_transcription": {},
        "output_audio_transcription": {},
        "session_resumption": {},
        "context_window_compression": {"sliding_window": {}},
        "speech_config": {"voice_config": {"prebuilt_voice_config": {"voice_name": "Kore"}}},
        "realtime_input_config": {
            "automatic_activity_detection": {"prefix_padding_ms": 60, "silence_duration_ms": 500}
        },
    }
    return types.LiveConnectConfig(**settings | more)


@asynccontextmanager
async def talk(
    server: GeminiFakeServer,
    folder: Path,
    setup: types.LiveConnectConfig | None = None,
    *,
    model: str = MODEL,
    **client: object,
) -> AsyncIterator[Talk]:
    """Open one session of a server that trusts the certificates in ``folder``."""
    live = sdk_client(server, folder, **client).aio.live
    async with live.connect(model=model, config=setup or config()) as session:
        yield Talk(session)


@asynccontextmanager
async def serving(
    folder: Path,
    script: str = TALK,
    faults: str = "",
    setup: types.LiveConnectConfig | None = None,
    **options: object,
) -> AsyncIterator[tuple[GeminiFakeServer, Talk]]:
    """Serve a script, and open one session."""
    async with gemini_server(script, faults, folder=folder, **options) as server:
        async with talk(server, folder, setup) as caller:
            yield server, caller
