"""Speaks the first words of a call, and keeps the floor for them where nobody may interrupt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.calls.conversation import Conversation
from gateway.calls.greeting import ITEM, LONGEST_S, Floor, Greeting, cut_note
from gateway.calls.model import LiveModel
from gateway.calls.record import heard_part
from gateway.calls.vigil import Vigil
from gateway.calls.voice import AgentVoice
from gateway.legs.base import Cleared

_LOOK_S = 0.1


class Greeter:
    """
    The greeting of one call.

    Args:
        greeting: What it is; ``None`` lets the caller speak first.
        model: Says it, or is told of it.
        voice: Plays a recording.
        talk: Has its place in the transcript.
        vigil: Knows when it was heard.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        greeting: Greeting | None,
        model: LiveModel,
        voice: AgentVoice,
        talk: Conversation,
        vigil: Vigil,
        clock: Callable[[], float],
    ) -> None:
        self._greeting = greeting
        self._model = model
        self._voice = voice
        self._talk = talk
        self._vigil = vigil
        self._clock = clock
        held = greeting is not None and not greeting.interruptible
        self.floor = Floor(voice.line.format, held=held)
        """Takes the caller's voice on its way to the model."""
        self.over = asyncio.Event()
        """Set when the caller may interrupt."""
        if not held:
            self.over.set()

    async def greet(self) -> None:
        """Speak, and give the floor to the caller when the greeting was heard."""
        greeting = self._greeting
        if greeting is None:
            return
        if greeting.recording:
            self._play(greeting)
            await self._voice.settle()
        else:
            await self._model.respond(instructions=greeting.instructions)
        if self.floor.held:
            await self._heard()
            self.floor.release()
            self.over.set()

    def _play(self, greeting: Greeting) -> None:
        ms = len(greeting.recording) / self._voice.line.format.bytes_per_ms
        self._talk.say(ITEM, greeting.text, ms, now=self._clock())
        self._voice.play_recording(ITEM, greeting.recording)
        self._vigil.played(ms)

    async def _heard(self) -> None:
        """Wait until nothing of the greeting is to come, but not for ever."""
        until = self._clock() + LONGEST_S
        while self._vigil.agent_busy and self._clock() < until:  # noqa: ASYNC110 - frames move the moment
            await asyncio.sleep(_LOOK_S)

    async def cut(self, cleared: Cleared) -> None:
        """Tell the model how much of a recorded greeting was heard that the caller has cut off."""
        greeting = self._greeting
        if greeting is None or cleared.item_id != ITEM or not cleared.dropped_ms:
            return
        total_ms = cleared.heard_ms + cleared.dropped_ms
        heard = heard_part(greeting.text, cleared.heard_ms, total_ms)
        await self._model.send_text(cut_note(heard), role="system")
