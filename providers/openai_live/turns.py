"""
What the caller said, turn by turn (pure, time is an argument).

The service sends the caller's words as pieces with positions on the timeline and never says that a turn is
over. A new turn begins where the caller speaks again after the agent did; it is settled when no more words
came for a while and the caller is quiet, or when the model acts on it. Words that come later still are added,
and the turn is told of once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from providers.types import CallerTranscript, ProviderEvent

SETTLE_S = 0.4
"""After the last words of a turn."""
_EARLY_MS = 300
"""So much before the speech that we noticed, words may begin."""
_GAP_MS = 1500
"""Between words of one turn, when the agent has spoken meanwhile."""


@dataclass(slots=True)
class _Turn:
    id: str
    text: str
    end_ms: int
    due: float
    told: bool = False


class CallerTurns:
    """The caller's side of the transcript."""

    def __init__(self) -> None:
        self._turn: _Turn | None = None
        self._count = 0
        self._speaking = False
        self._answered = False
        self._next_ms: int | None = None
        """Where the next turn begins, once it does."""
        self._events: list[ProviderEvent] = []

    def began(self, at_ms: int) -> None:
        """The caller speaks, from this position of the audio on."""
        self._speaking = True
        if self._answered:
            self._answered = False
            self._next_ms = at_ms - _EARLY_MS

    def stopped(self, now: float) -> None:
        self._speaking = False
        if self._turn is not None:
            self._turn.due = max(self._turn.due, now + SETTLE_S)

    def agent_began(self) -> None:
        """The agent answers: what the caller says from now on is another turn."""
        self._answered = True

    def words(self, text: str, start_ms: int, end_ms: int, *, now: float) -> None:
        """Take a piece of the caller's words."""
        turn = self._turn
        if turn is None or self._is_next(turn, start_ms):
            self.settle()
            self._count += 1
            turn = self._turn = _Turn(f"caller_{self._count}", "", end_ms, now)
            self._next_ms = None
            self._events.append(CallerTranscript(turn.id, "", final=False))
        turn.text += text
        turn.end_ms = max(turn.end_ms, end_ms)
        turn.due = now + SETTLE_S
        turn.told = False
        self._events.append(CallerTranscript(turn.id, text, final=False))

    def _is_next(self, turn: _Turn, start_ms: int) -> bool:
        if self._next_ms is not None:
            return start_ms >= self._next_ms
        return self._answered and start_ms - turn.end_ms >= _GAP_MS

    def settle(self) -> None:
        """Report the turn as a whole, as far as its words are known."""
        turn = self._turn
        if turn is not None and not turn.told:
            turn.told = True
            self._events.append(CallerTranscript(turn.id, turn.text.strip(), final=True))

    def next_timeout(self) -> float | None:
        return None if self._turn is None or self._turn.told or self._speaking else self._turn.due

    def handle_timeout(self, *, now: float) -> None:
        """Settle a turn that is over. Calling early is harmless."""
        at = self.next_timeout()
        if at is not None and now >= at:
            self.settle()

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    def events(self) -> list[ProviderEvent]:
        """Take what the call has to know."""
        ready, self._events = self._events, []
        return ready
