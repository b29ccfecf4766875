"""A call's voice on the event bus: fills in which call it is and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from gateway.calls.bus import EventBus
from gateway.calls.events import AgentAudioFrame, CallerAudioFrame, CallEvent

P = ParamSpec("P")


class Report:
    """
    Publishes the events of one call.

    Args:
        bus: The process-wide bus.
        call_id: The call.
        clock: Seconds, monotonic. The call's own clock starts at 0 now.
    """

    def __init__(self, bus: EventBus, call_id: str, clock: Callable[[], float]) -> None:
        self._bus = bus
        self._call_id = call_id
        self._clock = clock
        self._began = clock()

    @property
    def at(self) -> float:
        """Seconds since the call arrived."""
        return self._clock() - self._began

    def since(self, moment: float) -> float:
        """Turn a moment of the clock into seconds since the call arrived."""
        return moment - self._began

    def __call__(
        self, kind: Callable[Concatenate[str, float, P], CallEvent], *args: P.args, **fields: P.kwargs
    ) -> None:
        """Publish an event of this kind, now: ``report(BargedIn, item, heard_ms, dropped_ms)``."""
        self._bus.publish(kind(self._call_id, self.at, *args, **fields))

    def caller_audio(self, audio: bytes) -> None:
        """Publish a frame of the caller's voice."""
        if self._bus.wants_audio:
            self._bus.publish(CallerAudioFrame(self._call_id, self._clock() - self._began, audio))

    def agent_audio(self, audio: bytes) -> None:
        """Publish a frame that was sent to the caller."""
        if self._bus.wants_audio:
            self._bus.publish(AgentAudioFrame(self._call_id, self._clock() - self._began, audio))
