"""
The model's continuous voice, cut into utterances (pure, time is an argument).

The service sends one endless stream of audio, silence included, without ids, turns or ends. Here it becomes
items as other models have them, so that the ledger of what was heard, the transcript, the goodbye and the
announcement of a transfer work alike:

* An item begins with the first sound and ends after ``pause_ms`` of silence, or as soon as the caller speaks
  into a silence, or when nothing comes any more. The pauses within it are passed on, the silence between
  items is not.
* The stream comes at the speed of speech, so an item is played when there are ``buffer_ms`` more than the
  piece that is due: so much later than it should the next one may come.
  What comes too fast, after the network held it back, is played all the same; only pauses are then left out
  until no more than ``LATE_MS`` wait.

Who has the floor is the model's decision, because it hears the caller while it talks. Two things follow from
it:

* When it falls silent over a caller who speaks, it has **yielded**: the item ends, and what waits is dropped.
  If it goes on while the caller is still speaking, that was only a pause, and it is muted as below.
* When it talks on for ``yield_ms`` while the caller speaks, the gateway takes its voice away
  (``Interrupted``); after :meth:`Voice.interrupt` nothing of it is heard until it was silent for
  ``UNMUTE_MS`` (later audio would open the gate again), or at the latest after ``MUTE_S``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from providers.types import (
    AgentTranscript,
    AudioDelta,
    AudioDone,
    Interrupted,
    ProviderEvent,
    ResponseDone,
    ResponseStatus,
)

QUIET_MS = 200
"""Silence of the model that is no gap between two words."""
OVERLAP_MS = 200
"""So much speech of the caller over the model's is no cough."""
UNMUTE_MS = 400
MUTE_S = 5.0
LATE_MS = 200
LOST_MS = 300
"""Less than this of an utterance that was not heard is not worth a word."""
_STALLED_S = 0.5
"""Beyond ``pause_ms``: a server that does not stream its silence has finished."""
_BROKEN_S = 4.0
"""The same for one that does: there only the network can have stopped, and more of the word will come."""
_ITEMS_KEPT = 8
_WORDS_KEPT = 256


@dataclass(slots=True)
class _Item:
    id: str
    start_ms: int
    """Where it begins on the model's timeline."""
    passed_ms: int = 0
    """Audio passed on."""
    spoken_ms: int = 0
    """The same up to the last sound."""
    quiet_ms: int = 0
    overlap_ms: int = 0
    held: list[bytes] | None = field(default_factory=list)
    held_ms: int = 0
    words: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_WORDS_KEPT))
    """``(end_ms, text)`` as they came."""
    challenged: bool = False
    """Whether the call was told that the caller speaks against it."""

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.words)


class Voice:
    """
    One session's voice.

    Args:
        bytes_per_ms: Of the session's format.
        pause_ms: Silence that ends an utterance.
        yield_ms: How long the model may talk on while the caller speaks.
        buffer_ms: How much of an utterance is kept against jitter.
    """

    def __init__(self, bytes_per_ms: int, *, pause_ms: int, yield_ms: int, buffer_ms: int) -> None:
        self._bytes_per_ms = bytes_per_ms
        self._pause_ms = pause_ms
        self._yield_ms = yield_ms
        self._buffer_ms = buffer_ms
        self._items: deque[_Item] = deque(maxlen=_ITEMS_KEPT)
        self._item: _Item | None = None
        self._count = 0
        self._clock_ms = 0
        """All audio that came."""
        self._waiting_ms = 0.0
        """What the play-out has, by our own account."""
        self._at = 0.0
        self._streams_silence = False
        self._muted_until: float | None = None
        self._muted_quiet_ms = 0
        self._yielded = False
        """Whether the model gave way to a caller who has not finished yet."""
        self._caller_loud = False
        self._early_words: deque[tuple[int, str]] = deque(maxlen=_WORDS_KEPT)
        self._events: list[ProviderEvent] = []

    @property
    def audible(self) -> bool:
        """Whether the agent speaks now, as far as the caller can tell."""
        return self._item is not None and self._item.quiet_ms < QUIET_MS

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    def events(self) -> list[ProviderEvent]:
        """Take what the call has to know."""
        ready, self._events = self._events, []
        return ready

    # What the model says.

    def receive(self, audio: bytes, *, loud: bool, now: float) -> AudioDelta | None:
        """Take the next piece of the stream; returns what the caller hears of it, which may be more."""
        ms = len(audio) // self._bytes_per_ms
        self._clock_ms += ms
        self._waiting_ms = max(0.0, self._waiting_ms - (now - self._at) * 1000)
        self._at = now
        if not loud:
            self._streams_silence = True
        if self._muted_until is not None and self._is_muted(ms, loud=loud, now=now):
            return None
        item = self._item
        if item is None:
            if not loud:
                return None
            if self._yielded and self._caller_loud:
                self._mute(now)
                return None
            item = self._begin(ms)
        item.quiet_ms = 0 if loud else item.quiet_ms + ms
        if item.quiet_ms >= QUIET_MS and item.overlap_ms >= OVERLAP_MS:
            self._yield(item)
            return None
        if item.quiet_ms >= self._pause_ms:
            self._end(item, ResponseStatus.COMPLETED)
            return None
        if not loud and self._waiting_ms - ms >= LATE_MS:
            return None
        return self._pass(item, audio, ms, loud=loud)

    def _begin(self, ms: int) -> _Item:
        self._yielded = False
        self._count += 1
        item = self._item = _Item(f"voice_{self._count}", self._clock_ms - ms)
        if self._buffer_ms <= 0:
            item.held = None
        self._items.append(item)
        for end_ms, text in self._early_words:
            self._add_words(item, end_ms, text)
        self._early_words.clear()
        return item

    def _pass(self, item: _Item, audio: bytes, ms: int, *, loud: bool) -> AudioDelta | None:
        item.passed_ms += ms
        if loud:
            item.spoken_ms = item.passed_ms
        if item.held is not None:
            item.held.append(audio)
            item.held_ms += ms
            if item.held_ms < self._buffer_ms + ms:
                return None
            audio, ms = b"".join(item.held), item.held_ms
            item.held = None
        self._waiting_ms += ms
        return AudioDelta(item.id, audio)

    def _is_muted(self, ms: int, *, loud: bool, now: float) -> bool:
        assert self._muted_until is not None
        self._muted_quiet_ms = 0 if loud else self._muted_quiet_ms + ms
        if self._muted_quiet_ms >= UNMUTE_MS or now >= self._muted_until:
            self._muted_until = None
            return False
        return True

    def words(self, text: str, start_ms: int, end_ms: int) -> None:
        """Take a piece of the transcript; it may come before its sound, or a little after."""
        if self._muted_until is not None:
            return
        item = self._item
        if item is None and self._items:
            last = self._items[-1]
            item = last if start_ms < last.start_ms + last.passed_ms else None
        if item is None:
            self._early_words.append((end_ms, text))
        else:
            self._add_words(item, end_ms, text)

    def _add_words(self, item: _Item, end_ms: int, text: str) -> None:
        item.words.append((end_ms, text))
        self._events.append(AgentTranscript(item.id, text, final=False))

    def release(self) -> None:
        """Pass on what was collected of an utterance, because what comes next must not overtake it."""
        item = self._item
        if item is not None and item.held:
            self._events.append(AudioDelta(item.id, b"".join(item.held)))
            self._waiting_ms += item.held_ms
            item.held = None

    # The caller, and the end of an utterance.

    def caller_began(self) -> None:
        """The caller begins to speak: into a silence of the model this is the end of what it said."""
        if self._item is not None and self._item.quiet_ms >= QUIET_MS:
            self._end(self._item, ResponseStatus.COMPLETED)

    def caller_stopped(self) -> None:
        self._yielded = False
        if self._item is not None:
            self._item.overlap_ms = 0

    def caller_spoke(self, ms: int, *, loud: bool) -> None:
        """Count audio of a caller who has begun to speak; on the audio path."""
        self._caller_loud = loud
        item = self._item
        if not loud or item is None or item.quiet_ms >= QUIET_MS:
            return
        item.overlap_ms += ms
        if item.overlap_ms >= self._yield_ms and not item.challenged:
            item.challenged = True
            self._events.append(Interrupted())

    def interrupt(self, item_id: str, heard_ms: int, *, now: float) -> str:
        """
        Let nothing more of the running utterance be heard.

        Returns what the model should know of it: which words reached the caller; empty where nothing worth
        mentioning was lost.
        """
        if self._item is not None:
            self._mute(now)
            self._end(self._item, ResponseStatus.CANCELLED)
        self._waiting_ms = 0.0
        item = next((each for each in self._items if each.id == item_id), None)
        if item is None or item.spoken_ms - heard_ms < LOST_MS:
            return ""
        until_ms = item.start_ms + heard_ms
        heard = "".join(text for end_ms, text in item.words if end_ms <= until_ms).strip()
        words = f'only this: "{heard}"' if heard else "none of it"
        return f"The caller interrupted you. Of what you said last, the caller heard {words}."

    def _mute(self, now: float) -> None:
        self._muted_until, self._muted_quiet_ms = now + MUTE_S, 0

    def _yield(self, item: _Item) -> None:
        self._yielded = True
        self._finish(item)
        self._events.append(Interrupted())
        self._close(item, ResponseStatus.CANCELLED)

    def _end(self, item: _Item, status: ResponseStatus) -> None:
        self._finish(item)
        self._close(item, status)

    def _finish(self, item: _Item) -> None:
        """Pass on what was still collected, and the whole text."""
        if item.held:
            self._events.append(AudioDelta(item.id, b"".join(item.held)))
        item.held = None
        if item.words:
            self._events.append(AgentTranscript(item.id, item.text, final=True))
        self._item = None

    def _close(self, item: _Item, status: ResponseStatus) -> None:
        self._events += AudioDone(item.id), ResponseDone(item.id, status)

    # Time.

    def next_timeout(self) -> float | None:
        """When an utterance is over because nothing comes any more."""
        if self._item is None:
            return None
        patience = _BROKEN_S if self._streams_silence else _STALLED_S
        return self._at + self._pause_ms / 1000 + patience

    def handle_timeout(self, *, now: float) -> None:
        """End an utterance whose stream has stopped. Calling early is harmless."""
        at = self.next_timeout()
        if at is not None and now >= at and self._item is not None:
            self._end(self._item, ResponseStatus.COMPLETED)

    def stop(self) -> None:
        """Nothing more will come."""
        if self._item is not None:
            self._end(self._item, ResponseStatus.CANCELLED)
