"""
What is being said in a call, and what follows from it (no I/O, time is an argument).

The rules of this page: model audio that comes after a terminal action won is dropped, and the
farewell before it is kept whatever the caller does (C-8, U-15); tool rounds are counted from
the caller's last turn (C-11); latency is taken from the moment the caller paused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from gateway.dialogue.policy import CallPolicy

REPLY_DUE_S = 20.0
"""A caller who has waited longer for an answer does not expect one to what was said then."""
RECENT_S = 1.5
"""A model that sends at the speed of speech pauses no longer than this in an answer."""
_KEPT_ITEMS = 32
"""Settled items that are remembered, so that late audio of one does not count as a new item."""


@dataclass(slots=True)
class Item:
    """One utterance of the agent."""

    id: str
    began_at: float
    generated_ms: float = 0.0
    text: str = ""
    complete: bool = False
    """All its audio is here."""
    told: bool = False
    """Its place in the transcript is settled."""


class Goodbye(Enum):
    """Whether the agent has said goodbye, for which it was asked."""

    NOT_YET = auto()
    PERHAPS = auto()
    """Something was said, which may be the answer that was under way when it was asked."""
    SAID = auto()


@dataclass(slots=True)
class Spoken:
    """An utterance of the agent as the transcript keeps it."""

    item: Item
    heard_ms: int

    @property
    def interrupted(self) -> bool:
        return self.heard_ms + 20 < self.item.generated_ms


@dataclass(slots=True)
class Conversation:
    """
    The state that the two directions of a call share.

    Args:
        policy: Holds the pending terminal action.
        max_tool_rounds: Rounds of tool calls after one caller turn (``max_tool_calls``).
        bytes_per_ms: Of the model's audio, to count what was generated.
    """

    policy: CallPolicy
    max_tool_rounds: int
    bytes_per_ms: int
    tool_rounds: int = 0
    caller_speaks: bool = False
    """As far as the provider has told us."""
    items: dict[str, Item] = field(default_factory=dict)
    _paused_at: float | None = None
    _answering: bool = False
    _audio_at: float = 0.0
    _before_goodbye: frozenset[str] | None = None
    _answer_first: bool = False

    # The caller.

    def caller_started(self) -> None:
        self.caller_speaks = True
        self._answering = False
        self._paused_at = None

    def caller_paused(self, *, now: float) -> None:
        """A turn of the caller is over: the next audio answers it, and tools may run anew."""
        self.caller_speaks = False
        self._paused_at = now
        self.tool_rounds = 0

    def reply_due(self, *, now: float) -> bool:
        """Whether the caller said something and waits for an answer."""
        return self._paused_at is not None and now - self._paused_at < REPLY_DUE_S

    def take_over(self, bytes_per_ms: int) -> None:
        """Count the audio of another session from now on; nobody tells of the caller's speech any more."""
        self.bytes_per_ms = bytes_per_ms
        self.caller_speaks = False

    # The model.

    def audio(self, item_id: str, size: int, *, now: float) -> bool:
        """Count a piece of model audio; say whether the caller may hear it."""
        item = self.items.get(item_id)
        if item is None:
            if self.policy.silent:
                return False
            item = self.items[item_id] = Item(item_id, now)
        item.generated_ms += size / self.bytes_per_ms
        self._answering, self._audio_at = True, now
        return True

    def say(self, item_id: str, text: str, ms: float, *, now: float) -> None:
        """Count a recording that is played in the place of model audio."""
        self.items[item_id] = Item(item_id, now, ms, text, complete=True)

    def response_latency(self, *, now: float) -> float | None:
        """Seconds from the caller's pause to the first audio after it; ``None`` for all later audio."""
        if self._paused_at is None:
            return None
        latency, self._paused_at = now - self._paused_at, None
        return latency

    def text(self, item_id: str, text: str, *, final: bool, now: float) -> None:
        """Keep what an item says; final text replaces the pieces before it."""
        if self.policy.silent and item_id not in self.items:
            return
        item = self.items.setdefault(item_id, Item(item_id, now))
        item.text = text if final else item.text + text

    def answered(self) -> None:
        """An answer was generated to its end, or is not wanted any more."""
        self._answering = False

    def broke_off(self, *, now: float, unheard_ms: float) -> bool:
        """Whether a session that is lost now was in an answer, whatever it says of its items."""
        unfinished = any(not item.complete and not item.told for item in self.items.values())
        recent = unheard_ms > 0 or now - self._audio_at < RECENT_S
        return unfinished or (self._answering and recent)

    def complete(self, item_id: str) -> None:
        if item_id in self.items:
            self.items[item_id].complete = True

    def is_unfinished(self, item_id: str) -> bool:
        """Whether more audio of an item may come."""
        item = self.items.get(item_id)
        return item is not None and not item.complete

    @property
    def is_speaking(self) -> bool:
        """Whether more audio of something that has begun to be said is to come."""
        return any(
            item.generated_ms > 0 and not item.complete and not item.told for item in self.items.values()
        )

    def ask_for_goodbye(self) -> None:
        """The time is over: what is said now is the goodbye, after an answer that is under way."""
        self._before_goodbye = frozenset(self.items)
        self._answer_first = self._paused_at is not None or self.is_speaking

    def responded(self) -> Goodbye:
        """A response is complete: was it the goodbye?"""
        self.answered()
        if self._before_goodbye is None:
            return Goodbye.NOT_YET
        said = any(
            item.generated_ms > 0 and item.id not in self._before_goodbye for item in self.items.values()
        )
        answered, self._answer_first = self._answer_first, False
        if not said:
            return Goodbye.NOT_YET
        if answered:
            self._before_goodbye = frozenset(self.items)
            return Goodbye.PERHAPS
        return Goodbye.SAID

    def begin_tools(self) -> bool:
        """Count a round of tool calls; ``False`` when it is one too many."""
        self.tool_rounds += 1
        return self.tool_rounds <= self.max_tool_rounds

    # The transcript.

    def settled(self, heard: dict[str, int]) -> list[Spoken]:
        """Take the items whose audio was heard to its end, in the order they began."""
        return self._tell(
            [
                item
                for item in self.items.values()
                if item.complete and not item.told and heard.get(item.id, 0) + 20 >= item.generated_ms
            ],
            heard,
        )

    def cut(self, heard: dict[str, int]) -> list[Spoken]:
        """Take all items that are not settled yet: the caller barged in, or the call is over."""
        return self._tell([item for item in self.items.values() if not item.told], heard)

    def unheard_ms(self, heard: dict[str, int]) -> float:
        """How much of what the agent said is still to be heard."""
        return sum(
            max(item.generated_ms - heard.get(item.id, 0), 0.0)
            for item in self.items.values()
            if not item.told
        )

    @property
    def open_items(self) -> list[str]:
        """Items whose place in the transcript is not settled."""
        return [item.id for item in self.items.values() if not item.told]

    def _tell(self, items: list[Item], heard: dict[str, int]) -> list[Spoken]:
        for item in items:
            item.told = True
        for old in [item.id for item in self.items.values() if item.told][:-_KEPT_ITEMS]:
            del self.items[old]
        return [Spoken(item, heard.get(item.id, 0)) for item in items]
