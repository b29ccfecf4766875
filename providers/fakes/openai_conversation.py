"""
The items of one conversation, and which tool calls of it were answered. No I/O.

Every change returns the problem that the service would report, or nothing.
"""

from __future__ import annotations

from collections import Counter

from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Json, JsonView

_ONLY_AUDIO = "Only model output audio messages can be truncated"


class Conversation:
    """
    Items in order.

    ``answers`` counts the outputs of each call, so that a test sees a call that was answered twice and,
    by :attr:`unanswered`, one that never was.
    """

    def __init__(self, conversation_id: str) -> None:
        self.id = conversation_id
        self._items: list[Json] = []
        self._audio_ms: dict[str, int] = {}
        self._tools: dict[str, str] = {}
        self.answers: Counter[str] = Counter()

    @property
    def items(self) -> tuple[Json, ...]:
        return tuple(self._items)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The ids of finished calls without an output."""
        return tuple(call_id for call_id in self._tools if not self.answers[call_id])

    @property
    def answered_twice(self) -> tuple[str, ...]:
        return tuple(call_id for call_id, count in self.answers.items() if count > 1)

    def find(self, item_id: str) -> Json | None:
        return next((item for item in self._items if item["id"] == item_id), None)

    def add(self, item: Json, after: str | None = None) -> str | None:
        """Insert ``item`` (at the end, after an id, or after ``"root"``); return the id before it."""
        index = len(self._items)
        if after == "root":
            index = 0
        elif after is not None:
            index = next(at for at, other in enumerate(self._items) if other["id"] == after) + 1
        self._items.insert(index, item)
        return str(self._items[index - 1]["id"]) if index else None

    def before(self, item_id: str) -> str | None:
        """Return the id of the item before this one."""
        ids = [None, *(str(item["id"]) for item in self._items)]
        return ids[ids.index(item_id) - 1]

    def check_new(self, item: JsonView, after: str | None) -> Problem | None:
        """Return why a client may not create ``item`` after ``after``."""
        item_id = item.get("id")
        if item_id is not None and self.find(item_id):
            message = f"Error adding item: an item with id '{item_id}' already exists."
            return Problem("item_create_duplicate_item_id", message, "item.id")
        if after not in (None, "root") and not self.find(str(after)):
            message = f"Error adding item: the previous item with id '{after}' does not exist."
            return Problem("item_create_invalid_previous_item_id", message, "previous_item_id")
        if item.get("role") == "assistant" and any(
            part.get("type") == "output_audio" for part in item["content"]
        ):
            return Problem(
                "invalid_value", "Assistant audio messages cannot be created by a client.", "item.content"
            )
        if item["type"] == "function_call_output" and item["call_id"] not in self._tools:
            message = f"Tool call ID '{item['call_id']}' not found in conversation."
            return Problem("invalid_tool_call_id", message, "item.call_id")
        return None

    def called(self, call_id: str, tool: str) -> None:
        """Note a finished tool call."""
        self._tools[call_id] = tool

    def answered(self, call_id: str) -> str:
        """Count an output of a call; return the tool's name."""
        self.answers[call_id] += 1
        return self._tools[call_id]

    def spoke(self, item_id: str, audio_ms: int) -> None:
        """Say how much audio of an item was sent so far."""
        self._audio_ms[item_id] = audio_ms

    def heard(self, item_id: str, audio_ms: int) -> None:
        """Say how long a turn of the caller is."""
        self._audio_ms[item_id] = audio_ms

    def delete(self, item_id: str) -> Problem | None:
        item = self.find(item_id)
        if item is None:
            return _unknown("item_delete_invalid_item_id", "deleting", item_id)
        self._items.remove(item)
        self._audio_ms.pop(item_id, None)
        return None

    def retrieve(self, item_id: str) -> Json | Problem:
        return self.find(item_id) or _unknown("item_retrieve_invalid_item_id", "retrieving", item_id)

    def truncate(self, item_id: str, content_index: int, audio_end_ms: int) -> Problem | None:
        """Shorten an item's audio to ``audio_end_ms``; its transcript is deleted."""
        item = self.find(item_id)
        if item is None:
            return _unknown("item_truncate_invalid_item_id", "truncating", item_id)
        audio_ms = self._audio_ms.get(item_id, 0)
        if item.get("role") != "assistant" or not audio_ms:
            return Problem("invalid_value", _ONLY_AUDIO, "item_id")
        if content_index != 0:
            return Problem("invalid_value", f"There is no content at index {content_index}.", "content_index")
        if not 0 <= audio_end_ms <= audio_ms:
            message = f"Audio content of {audio_ms}ms is already shorter than {audio_end_ms}ms"
            return Problem("invalid_value", message, "audio_end_ms")
        self._audio_ms[item_id] = audio_end_ms
        for part in item["content"]:
            part.pop("transcript", None)
        return None

    def audio_ms(self, item_id: str) -> int:
        """How much audio of an item the model remembers: what came, was sent, or a truncation left."""
        return self._audio_ms.get(item_id, 0)


def _unknown(code: str, doing: str, item_id: str) -> Problem:
    return Problem(code, f"Error {doing} item: the item with id '{item_id}' does not exist.", "item_id")
