"""A conversation that is told what the server says, and what it did then."""

from __future__ import annotations

from providers.openai.gate import Timing
from providers.openai.messages import (
    AudioFinished,
    AudioReceived,
    FunctionCall,
    ResponseCreated,
    ResponseFinished,
)
from providers.openai.state import Conversation, Patience
from providers.types import (
    ResponseStatus,
)

MS = 8
COMPLETED, CANCELLED = ResponseStatus.COMPLETED, ResponseStatus.CANCELLED
FAILED, INCOMPLETE = ResponseStatus.FAILED, ResponseStatus.INCOMPLETE
CALL = FunctionCall("call_1", "lookup_caller", "{}", completed=True)


class Told:
    """A conversation that is told messages one second after the other."""

    def __init__(self, *, timing: Timing | None = None, patience: Patience | None = None) -> None:
        self.state = Conversation(MS, timing=timing, patience=patience)
        self.now = 0.0
        self.events: list = []
        self.sent: list = []

    def hear(self, *messages) -> Told:
        for message in messages:
            self.now += 1
            self.state.receive(message, now=self.now)
            self.take()
        return self

    def take(self) -> Told:
        self.events += self.state.events()
        self.sent += self.state.to_send()
        return self

    def wait_until(self, now: float) -> Told:
        self.now = now
        self.state.handle_timeout(now=now)
        return self.take()

    def of(self, kind: type) -> list:
        return [each for each in self.events + self.sent if isinstance(each, kind)]


def voice(item_id: str = "item_1", ms: int = 1000, response_id: str = "resp_1") -> AudioReceived:
    return AudioReceived(response_id, item_id, bytes(ms * MS))


def done(status: ResponseStatus = COMPLETED, response_id: str = "resp_1", **more) -> ResponseFinished:
    return ResponseFinished(response_id, status, **more)


def spoken(response_id: str, item_id: str, ms: int) -> list:
    """A response from its beginning to its end, faster than real time."""
    return [
        ResponseCreated(response_id),
        voice(item_id, ms, response_id),
        AudioFinished(item_id),
        done(response_id=response_id),
    ]
