"""
What the model owes the caller: words after a question, a tool's result, or our own request.

The service drops a few percent of injected texts (fault 34), may fall silent after an interruption or a
tool's result (32, BR-137) and says nothing about it. So what is owed has a date; when it passes, the model
is asked again, then the connection is changed, then the call is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

_REJECTIONS = frozenset({"response_rejected", "generated_audio_safety", "generated_content_safety"})
_REJECTED_AT_MOST = 3
"""In a row; then another session may find other words (fault 35)."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds."""

    asked: float = 3.0
    """From our own request to the first sign of an answer."""
    spoken: float = 8.0
    """From the end of the caller's turn; the model may think, and the call has a shorter watch of its own."""
    tool: float = 5.0
    """From the answer to a tool call."""
    tool_where_it_waits: float = 1.5
    """The same with a model that is known to wait for something after a tool's result."""
    turn: float = 3.0
    """From an interruption, or the end of what is played, to the server's word that the turn is over."""
    stalled: float = 15.0
    """Between two pieces of a turn."""
    stuck: float = 1.2
    """The same, with nothing left to be heard; then a request takes the place of the turn."""
    progress: float = 15.0
    """From the server's word that more will come, to more."""
    stream: float = 1.0
    """Without caller audio, before the server is told that none will come."""
    together: float = 1.0
    """From our own request to its answer, within which another request waits: it would cut the answer off."""
    by_itself: float = 1.0
    """After the answer to a call that blocks, within which a request to go on is no further request."""
    answers: float = 0.25
    """How long an answer waits to learn whether the call wants it spoken about."""


class Remedy(Enum):
    """What to do about an answer that does not come."""

    ASK = "ask"
    MOVE = "move"
    """To another connection, or where that does not help, to another session."""
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for and could not be said yet."""

    instructions: str | None
    tools: bool = True
    not_before: float = 0.0

    def joined(self, other: Request) -> Request:
        """Make one request of two: all instructions, and tools only where both allow them."""
        words = [each for each in (self.instructions, other.instructions) if each]
        not_before = max(self.not_before, other.not_before)
        return Request("\n".join(words) or None, self.tools and other.tools, not_before)


class Owing:
    """Keeps the date of one answer, and how often answers did not come."""

    def __init__(self) -> None:
        self.text: str | None = None
        """With which instructions it was asked for."""
        self._at: float | None = None
        self._wait = 0.0
        self._passed = 0
        self._alone_until = 0.0

    @property
    def alone_until(self) -> float:
        """Until when another request would cut off the answer to our own."""
        return 0.0 if self._at is None else self._alone_until

    @property
    def open(self) -> bool:
        return self._at is not None

    def begin(self, now: float, wait: float, text: str | None = None) -> None:
        """Expect an answer within ``wait`` seconds; dates that passed before it stay counted."""
        self._at = now + wait
        self._wait = wait
        self._alone_until = 0.0
        self.text = text

    def ask(self, now: float, patience: Patience, text: str | None) -> None:
        """Expect an answer to a request of our own."""
        self.begin(now, patience.asked, text)
        self._alone_until = now + patience.together

    def again(self, now: float) -> None:
        """Start the wait anew."""
        if self._at is not None:
            self._at = now + self._wait

    def met(self) -> None:
        """Note an answer."""
        self._at = None
        self.text = None
        self._passed = 0

    def suspend(self) -> None:
        """Expect nothing until :meth:`begin`; dates that passed stay counted."""
        self._at = None

    def next_timeout(self) -> float | None:
        return self._at

    def handle_timeout(self, now: float) -> Remedy | None:
        """Return what to do now, if the date has passed."""
        if self._at is None or now < self._at:
            return None
        self._passed += 1
        self._at = now + self._wait
        match self._passed:
            case 1:
                return Remedy.ASK
            case 2:
                return Remedy.MOVE
            case _:
                self.met()
                return Remedy.GIVE_UP


class Rejections:
    """Counts turns that the service rejects, which no repetition cures."""

    def __init__(self) -> None:
        self._count = 0

    def over(self) -> None:
        """Note a turn that was heard."""
        self._count = 0

    def failed(self, reason: str) -> bool:
        """Count a turn that failed; say whether another session has to find other words."""
        self._count += reason in _REJECTIONS
        return self._count >= _REJECTED_AT_MOST
