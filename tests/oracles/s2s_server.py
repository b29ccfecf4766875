"""
Hugging Face's `speech-to-speech` as a Realtime server without its models.

    python s2s_server.py PORT        # the Python of its own environment

The protocol layer is theirs. In the place of its models: speech is what is loud, a turn of the caller is over
after 300 ms of quiet, and the answer is a tone of two seconds with a few words. Asked about opening hours it
first calls a tool.
"""

from __future__ import annotations

import itertools
import sys
import threading
from queue import Queue

import numpy as np
from openai.types.realtime import RealtimeConversationItemFunctionCall
from openai.types.responses.response_function_tool_call import ResponseFunctionToolCall
from speech_to_speech.api.openai_realtime.pipeline_unit import PipelineUnit
from speech_to_speech.api.openai_realtime.server import RealtimeServer
from speech_to_speech.api.openai_realtime.service import RealtimeService
from speech_to_speech.pipeline import events, messages
from speech_to_speech.pipeline.cancel_scope import CancelScope
from speech_to_speech.pipeline.control import is_control_message
from speech_to_speech.pipeline.history import ResponseHistory

RATE = 16_000
LOUD = 500
QUIET_CHUNKS = 10
"""Of 512 samples (32 ms) each."""
WORDS = "This is a tone of two seconds."
TONE = (np.sin(np.arange(2 * RATE) * 2 * np.pi * 440 / RATE) * 8000).astype(np.int16)
PIECE = 1_600


class Ears:
    """Finds the caller's turns."""

    def __init__(self, unit: PipelineUnit) -> None:
        self._unit = unit
        self._speaking = False
        self._quiet = 0
        self._chunks = 0

    def run(self) -> None:
        while True:
            item = self._unit.input_queue.get()
            if is_control_message(item):
                self._speaking = False
                self._unit.output_queue.put(item)
                continue
            self._hear(np.frombuffer(item[0], np.int16))

    def _hear(self, samples: np.ndarray) -> None:
        self._chunks += 1
        now_ms = self._chunks * 32
        loud = float(np.sqrt(np.mean(samples.astype(np.float64) ** 2))) > LOUD
        if loud and not self._speaking:
            self._speaking, self._quiet = True, 0
            self._unit.text_output_queue.put(events.SpeechStartedEvent(audio_start_ms=now_ms))
        elif self._speaking:
            self._quiet = 0 if loud else self._quiet + 1
            if self._quiet >= QUIET_CHUNKS:
                self._speaking = False
                tell = self._unit.text_output_queue.put
                tell(events.SpeechStoppedEvent(duration_s=1.0, audio_end_ms=now_ms))
                tell(events.TranscriptionCompletedEvent(transcript="Somebody said something."))


class Mouth:
    """Answers every request."""

    def __init__(self, unit: PipelineUnit) -> None:
        self._unit = unit
        self._calls = itertools.count(1)

    def run(self) -> None:
        while True:
            request = self._unit.text_prompt_queue.get()
            if isinstance(request, messages.GenerateResponseRequest):
                self._answer(request)

    def _answer(self, request: messages.GenerateResponseRequest) -> None:
        whose = {
            "response_key": request.response_key,
            "cancel_generation": self._unit.cancel_scope.generation,
        }
        last = str(request.runtime_config.chat.copy().buffer[-1:])
        put = self._unit.output_queue.put
        if "opening hours" in last and "function_call_output" not in last:
            call_id = f"call_{next(self._calls)}"
            tool = ResponseFunctionToolCall(
                type="function_call",
                call_id=call_id,
                name="query_knowledge",
                arguments='{"query":"opening hours"}',
            )
            item = RealtimeConversationItemFunctionCall(
                type="function_call", call_id=call_id, name=tool.name, arguments=tool.arguments
            )
            chat = request.runtime_config.chat
            whose["history"] = ResponseHistory.capture(chat, [item], after_item_id=None, complete=True)
            put(events.AssistantOutputEvent(parts=[messages.AssistantToolCallPart(tool=tool)], **whose))
        else:
            put(events.AssistantOutputEvent(parts=[messages.AssistantTextPart(text=WORDS)], **whose))
            for at in range(0, len(TONE), PIECE):
                put(messages.AudioOutput(audio=TONE[at : at + PIECE].tobytes(), **whose))
        put(events.AssistantResponseDoneEvent(**whose))
        whose.pop("history", None)
        put(messages.AudioOutput(audio=messages.AUDIO_RESPONSE_DONE, **whose))


def make_unit(index: int) -> PipelineUnit:
    prompts: Queue = Queue()
    listening = threading.Event()
    unit = PipelineUnit(
        index=index,
        service=RealtimeService(text_prompt_queue=prompts, should_listen=listening),
        cancel_scope=CancelScope(),
        should_listen=listening,
        response_playing=threading.Event(),
        input_queue=Queue(),
        output_queue=Queue(),
        text_output_queue=Queue(),
        text_prompt_queue=prompts,
        handlers=[],
    )
    for name, part in (("ears", Ears(unit)), ("mouth", Mouth(unit))):
        threading.Thread(target=part.run, name=f"{name} {index}", daemon=True).start()
    return unit


if __name__ == "__main__":
    units = [make_unit(index) for index in range(2)]
    RealtimeServer(threading.Event(), units, host="127.0.0.1", port=int(sys.argv[1])).run()
