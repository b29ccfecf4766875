"""
One conversation of `pipecat-ai` with a server of ours: run by its own environment's Python.

    python pipecat_client.py VENDOR URL [CERTIFICATE]

It waits for the greeting (GPT-Live has none to wait for), says something, is answered, and prints what came
as one JSON object. The silence that GPT-Live sends all the time is not counted.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections import Counter

import numpy as np
from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMContextFrame,
    SpeechOutputAudioRawFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import LLMService
from pipecat.workers.runner import WorkerRunner

RATE = 24_000
SPEECH = (np.sin(np.arange(RATE) * 2 * np.pi * 300 / RATE) * 9_000).astype(np.int16)
SILENCE = np.zeros(RATE, np.int16)
PIECE = RATE // 50
SETTLED_S = 1.5
"""So long without sound, and the server has said what it had to say."""


def make_service(vendor: str, url: str, certificate: str) -> LLMService:
    match vendor:
        case "openai":
            from pipecat.services.openai.realtime import events
            from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService as OpenAI

            heard = events.AudioInput(
                format=events.PCMAudioFormat(),
                transcription=events.InputAudioTranscription(),
                turn_detection=events.TurnDetection(silence_duration_ms=300),
            )
            audio = events.AudioConfiguration(
                input=heard, output=events.AudioOutput(format=events.PCMAudioFormat())
            )
            settings = OpenAI.Settings(
                session_properties=events.SessionProperties(instructions="You answer the phone.", audio=audio)
            )
            return OpenAI(api_key="sk-test", base_url=url, settings=settings)
        case "live":
            from pipecat.services.openai.live.llm import OpenAILiveLLMService as Live

            settings = Live.Settings(system_instruction="You answer the phone.")
            return Live(api_key="sk-test", base_url=url, settings=settings)
        case _:
            from google.genai.types import HttpOptions
            from pipecat.services.google.gemini_live.llm import GeminiLiveLLMService as Gemini

            trusted = {"ssl": ssl.create_default_context(cafile=certificate), "proxy": None}
            return Gemini(
                api_key="gemini-test",
                settings=Gemini.Settings(system_instruction="You answer the phone."),
                http_options=HttpOptions(base_url=url, async_client_args=trusted),
            )


class Ear(FrameProcessor):
    """Keeps what comes out of the service."""

    def __init__(self) -> None:
        super().__init__(enable_direct_mode=True)
        self.kinds: Counter[str] = Counter()
        self.audio_s = 0.0
        self.spoken_at = 0.0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        self.kinds[type(frame).__name__] += 1
        if isinstance(frame, TTSAudioRawFrame) or (
            isinstance(frame, SpeechOutputAudioRawFrame) and any(frame.audio)
        ):
            self.audio_s += len(frame.audio) / 2 / frame.sample_rate
            self.spoken_at = asyncio.get_running_loop().time()
        await self.push_frame(frame, direction)


async def say(worker: PipelineWorker, samples: np.ndarray) -> None:
    for at in range(0, len(samples), PIECE):
        frame = InputAudioRawFrame(audio=samples[at : at + PIECE].tobytes(), sample_rate=RATE, num_channels=1)
        await worker.queue_frame(frame)
        await asyncio.sleep(0.02)


async def heard(worker: PipelineWorker, ear: Ear, more_than_s: float) -> float:
    """Be silent until the server has spoken and paused; return how much it has said in all."""
    loop = asyncio.get_running_loop()
    end = loop.time() + 15
    while loop.time() < end:
        if ear.audio_s > more_than_s and loop.time() - ear.spoken_at > SETTLED_S:
            break
        await say(worker, SILENCE[: PIECE * 10])
    return ear.audio_s


async def converse(
    worker: PipelineWorker, ear: Ear, started: asyncio.Event, *, greets: bool
) -> dict[str, object]:
    await started.wait()
    context = LLMContext(messages=[{"role": "user", "content": "Say hello."}])
    await worker.queue_frame(LLMContextFrame(context))
    greeted_s = await heard(worker, ear, 0.0) if greets else 0.0
    await say(worker, SPEECH)
    answered_s = await heard(worker, ear, greeted_s)
    await worker.queue_frame(InterruptionFrame())
    await worker.queue_frame(EndFrame())
    return {
        "greeting_s": round(greeted_s, 2),
        "answer_s": round(answered_s - greeted_s, 2),
        "kinds": dict(ear.kinds),
    }


async def main(vendor: str, url: str, certificate: str = "") -> None:
    ear, started = Ear(), asyncio.Event()
    worker = PipelineWorker(
        Pipeline([make_service(vendor, url, certificate), ear]),
        cancel_on_idle_timeout=False,
        enable_rtvi=False,
        params=PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE),
    )

    @worker.event_handler("on_pipeline_started")
    async def _started(_worker: PipelineWorker, _frame: Frame) -> None:
        started.set()

    runner = WorkerRunner()
    await runner.add_workers(worker)
    async with asyncio.TaskGroup() as group:
        group.create_task(runner.run())
        told = group.create_task(converse(worker, ear, started, greets=vendor != "live"))
    print(json.dumps(told.result()))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
