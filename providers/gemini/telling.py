"""
What the model is told in words, and what has to be told again after its memory went back.

A resumed session knows what was said up to its handle. What came after that is kept as text until the next
handle, and said again: the caller's words, the model's as far as they were heard, the results of tools.
"""

from __future__ import annotations

from collections import deque

from providers.gemini.calls import CallBook, Entry
from providers.gemini.messages import AddTurns, AnswerCall, ClientMessage, SendText, Turn
from providers.gemini.models import History, Profile
from providers.gemini.utterances import Utterance

_HELD_AT_MOST = 64
_SINCE_KEPT = 64
GO_ON = "Please answer now."
"""Asks for an answer to what stands in the conversation."""
CUT_OFF = "The connection broke while you were speaking. Go on where you stopped, and do not begin anew."


class Telling:
    """
    Puts words into the conversation, in the way that the model allows.

    Args:
        profile: What the model can do.
        calls: Remembers the answers of tools in the same way.
    """

    def __init__(self, profile: Profile, calls: CallBook) -> None:
        self.out: list[ClientMessage] = []
        self.connected = True
        self._profile = profile
        self._calls = calls
        self._held: deque[Turn] = deque(maxlen=_HELD_AT_MOST)
        """Words that go along with the next request."""
        self._answers: list[Entry] = []
        """Answers of which is not known yet whether the model shall speak about them."""
        self._since: deque[Turn | Utterance] = deque(maxlen=_SINCE_KEPT)
        self._known: deque[Turn | Utterance] = deque(maxlen=_SINCE_KEPT)
        """Of that, what the server knew at the end of its last turn: the next handle has it."""

    def take(self) -> list[ClientMessage]:
        """Take what is ready for the wire."""
        ready, self.out = self.out, []
        return ready

    def remember(self, said: Turn | Utterance) -> None:
        """Keep something that was said for a session that goes back to before it."""
        self._since.append(said)

    def cover(self) -> None:
        """
        Note the end of a turn: the server has taken in all that it was told before.

        A handle that comes earlier may have been made without the words that were on their way.
        """
        self._known.extend(self._since)
        self._since.clear()
        self._calls.cover()

    def saved(self) -> None:
        """Note that the server gave a handle."""
        self._known.clear()
        self._calls.save()

    def begin(self, history: tuple[Turn, ...]) -> None:
        """Tell a new session what was said before it; nobody answers to that."""
        if history:
            self.out.append(AddTurns(history, complete=self._profile.history is History.OPENING))

    def ask(self, instructions: str | None) -> None:
        """Ask for an answer; instructions are no words of the caller, and look like none."""
        turns = (*self._held, Turn(f"[{instructions or GO_ON}]"))
        self._held.clear()
        if self._profile.content:
            self.out.append(AddTurns(turns, complete=True))
        else:
            self.out.append(SendText("\n".join(turn.text for turn in turns)))

    def note(self, turn: Turn) -> None:
        """Put words into the conversation that nobody answers; nothing without a connection."""
        if not self.connected:
            return
        if self._profile.notes:
            self.out.append(AddTurns((turn,), complete=False))
        else:
            self._held.append(turn)

    def answer(self, entry: Entry) -> None:
        """
        Answer a tool call; without a connection the book remembers it.

        Where the answer says whether the model shall speak about it, it waits for :meth:`release`.
        """
        if not self.connected:
            return
        if entry.known and self._profile.async_tools:
            self._answers.append(entry)
        else:
            self._tell(entry, "")

    @property
    def holds_answers(self) -> bool:
        return bool(self._answers)

    def release(self, *, speak: bool) -> None:
        """Send the answers that wait: to be spoken about, or only to be known."""
        for entry in self._answers:
            self._tell(entry, "WHEN_IDLE" if speak else "SILENT")
        self._answers.clear()

    def withdraw(self, wire_ids: list[str]) -> None:
        """Drop answers that wait, because the server took its calls back."""
        self._answers = [entry for entry in self._answers if entry.wire_id not in wire_ids]

    def _tell(self, entry: Entry, scheduling: str) -> None:
        match entry.told(scheduling):
            case AnswerCall() as answer:
                self.out.append(answer)
            case Turn() as turn:
                self.note(turn)

    def disconnected(self) -> None:
        """Note that the server's memory goes back to its last handle."""
        self.connected = False
        self._since.extendleft(reversed(self._known))
        self._known.clear()
        self._calls.rewind()
        self.out.clear()
        self._held.clear()
        self._answers.clear()

    def resumed(self) -> None:
        """Say what the server cannot know; answers to calls that it waits for come first."""
        self.connected = True
        again = self._calls.answers_again
        for entry in again:
            if entry.known:
                self._tell(entry, "SILENT" if self._profile.async_tools else "")
        for said in self._since:
            self.note(Turn(said.heard, model=True) if isinstance(said, Utterance) else said)
        for entry in again:
            if not entry.known:
                self._tell(entry, "")
