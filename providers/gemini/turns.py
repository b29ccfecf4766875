"""The model's open turn, and when one is over although the server does not say so."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from providers.gemini.owing import Patience
from providers.gemini.utterances import Utterance


@dataclass(slots=True)
class ModelTurn:
    """
    The turn of the model that is open; it has one item.

    Args:
        response_id: Ours.
        item_id: Ours.
        utterance: Its words and the length of its audio.
        tools: Whether it may call tools.
        began_at: When its first sign came.
        over_at: When it is over without the server's word.
        complete: Whether no more audio comes.
        interrupted: By the server: what comes next is another turn.
        muted: By the call: what still comes is not heard.
        waiting: Whether it has called tools and said nothing since.
        called: Whether it has called tools.
    """

    response_id: str
    item_id: str
    utterance: Utterance
    tools: bool
    began_at: float
    over_at: float = inf
    complete: bool = False
    interrupted: bool = False
    muted: bool = False
    waiting: bool = False
    called: bool = False

    @property
    def running(self) -> bool:
        """Whether something would be cut off by asking the model for something else."""
        return not (self.interrupted or self.muted or self.waiting)

    @property
    def spoke(self) -> bool:
        return self.utterance.sent_bytes > 0

    def is_playing(self, now: float) -> bool:
        """Whether the caller still hears it, as far as the server knows: it assumes playback in real time."""
        stopped = self.interrupted or self.muted
        return not stopped and now < self.began_at + self.utterance.sent_ms / 1000

    def is_stuck(self, now: float, patience: Patience) -> bool:
        """Whether it brings nothing more, and nothing of it is left to be heard."""
        if self.complete or not self.running or self.is_playing(now):
            return False
        return now - (self.over_at - patience.stalled) > patience.stuck
