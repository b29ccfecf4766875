"""
What a Gemini Live session remembers, and what its handles bring back. No I/O.
"""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from providers.fakes.director import Director
from providers.fakes.gemini_models import Behavior
from providers.fakes.gemini_shapes import Json, JsonView, Refused

MAX_HANDLES = 4096
KEPT = 4
"""Handles of one connection that stay good; the service promises only the last."""
MAX_CONTENTS = 5_000


class Scheduling(IntEnum):
    """What an answer to a call that does not block makes the model do; the strongest of a batch counts."""

    SILENT = 0
    WHEN_IDLE = 1
    INTERRUPT = 2


@dataclass(slots=True)
class OpenCall:
    """A call that the client still has to answer."""

    id: str
    name: str
    behavior: Behavior
    batch: int
    """Calls of one message are answered before the model speaks about any of them."""
    at: float = 0.0
    """When it was made."""


@dataclass(slots=True)
class Tokens:
    """What the context holds, in tokens."""

    text: int = 0
    audio: int = 0


class Conversation:
    """
    Contents in order, calls and their answers, and the model's mind.

    ``answers`` counts the final answers of each call. ``cancelled`` are calls that the client was told not to
    answer, ``strays`` ids that were answered and never called.
    """

    def __init__(self, director: Director) -> None:
        self.director = director
        self.contents: list[Json] = []
        """``{"role": "user" | "model", "text": …}``, or a call or its answer."""
        self.tokens = Tokens()
        self.open: dict[str, OpenCall] = {}
        self.calls: dict[str, str] = {}
        """Names by id, of all calls."""
        self.answers: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.strays: list[str] = []
        self._wanted: dict[int, Scheduling] = {}
        self.seconds = 0.0
        """How long it was connected before this session."""

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The ids of calls that the client still has to answer."""
        return tuple(self.open)

    @property
    def answered_twice(self) -> tuple[str, ...]:
        return tuple(call_id for call_id, count in self.answers.items() if count > 1)

    @property
    def blocked(self) -> bool:
        """Whether the model waits for an answer before it may speak."""
        return any(call.behavior is Behavior.BLOCKING for call in self.open.values())

    def waits_since(self) -> float | None:
        """Return when the oldest open call was made."""
        return min((call.at for call in self.open.values()), default=None)

    def add(self, role: str, text: str, *, spoken: bool = False) -> None:
        """Append what was written, or said: what was said counts as audio, elsewhere."""
        if not spoken:
            self.tokens.text += len(text) // 4 + 1
        self._keep({"role": role, "text": text})

    def _keep(self, content: Json) -> None:
        self.contents.append(content)
        del self.contents[:-MAX_CONTENTS]

    def called(self, call: OpenCall) -> None:
        self.open[call.id] = call
        self.calls[call.id] = call.name
        self._keep({"role": "model", "call": call.id, "name": call.name})

    def answered(self, answer: JsonView) -> OpenCall | None:
        """Take a final answer with its id; return the call that it closes, if it is an open one."""
        call_id = answer["id"]
        if call_id not in self.calls:
            self.strays.append(call_id)
            return None
        self.answers[call_id] += 1
        call = self.open.pop(call_id, None)
        if call is not None:
            self._keep({"role": "user", "answer": call_id, "response": answer.get("response", {})})
        return call

    def want(self, batch: int, scheduling: Scheduling) -> Scheduling | None:
        """Note what an answer asks for; return what its batch asks for once that is complete."""
        wanted = max(scheduling, self._wanted.pop(batch, Scheduling.SILENT))
        if any(call.batch == batch for call in self.open.values()):
            self._wanted[batch] = wanted
            return None
        return wanted

    def cancel(self, behavior: Behavior) -> list[str]:
        """Forget the open calls of this behaviour; return their ids."""
        ids = [call.id for call in self.open.values() if call.behavior is behavior]
        for call_id in ids:
            del self.open[call_id]
        self.cancelled.update(ids)
        return ids

    def snapshot(self) -> Conversation:
        """Return an independent copy of what is remembered."""
        other = Conversation(copy.copy(self.director))
        other.contents = list(self.contents)
        other.tokens = copy.copy(self.tokens)
        other.calls = dict(self.calls)
        other.answers = Counter(self.answers)
        other.cancelled = set(self.cancelled)
        other.seconds = self.seconds
        return other


@dataclass(slots=True)
class Link:
    """One connection, as its handles know it."""

    open: bool = True
    handles: deque[str] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class _Saved:
    conversation: Conversation
    model: str
    link: Link
    expires_at: float


@dataclass(slots=True)
class Resumptions:
    """
    The handles of one server.

    Args:
        new_handle: Makes a token that nobody can guess and that no earlier process gave out.
        keep_seconds: How long a handle is good after it was given out.
    """

    new_handle: Callable[[], str]
    keep_seconds: float = 7200.0
    _saved: OrderedDict[str, _Saved] = field(default_factory=OrderedDict)

    def save(self, conversation: Conversation, *, model: str, link: Link, now: float) -> str:
        """Remember a conversation as it is now, a copy that nobody else changes; return its handle."""
        handle = self.new_handle()
        self._saved[handle] = _Saved(conversation, model, link, now + self.keep_seconds)
        link.handles.append(handle)
        if len(link.handles) > KEPT:
            self._saved.pop(link.handles.popleft(), None)
        while len(self._saved) > MAX_HANDLES:
            self._saved.popitem(last=False)
        return handle

    def resume(self, handle: str, *, model: str, now: float) -> Conversation:
        """Return a copy of what a handle stands for; raise :exc:`Refused`."""
        saved = self._saved.get(handle)
        if saved is None or now >= saved.expires_at:
            raise Refused(1008, "BidiGenerateContent session not found")
        if saved.model != model:
            raise Refused(1007, "The model of a session cannot be changed when it is resumed.")
        if saved.link.open:
            raise Refused(1011, "The session is still in use by another connection.")
        return saved.conversation.snapshot()
