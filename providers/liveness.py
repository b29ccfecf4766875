"""
Whether the server still listens, when nobody has any reason to say something.

A server can stop working while its connection stays open and its pings are answered. Then the caller
speaks, nobody hears it, and no timer of ours runs, because no answer is owed. So after a silence the
server is asked something harmless that it has to answer. Only a server that has answered such a
question before is given up for not answering one.

Computes only: time comes in as ``now``.
"""

from __future__ import annotations


class Liveness:
    """
    Decides when to ask, and when to give the server up.

    Args:
        first: Seconds from the beginning to the first question, which finds out whether it answers at all.
        quiet: Silence of the server after which it is asked.
        wait: How long the answer may take.
    """

    def __init__(self, *, first: float = 1.0, quiet: float = 10.0, wait: float = 8.0) -> None:
        self.dead = False
        self._first = first
        self._quiet = quiet
        self._wait = wait
        self._heard_at = 0.0
        self._asked_at: float | None = None
        self._answers = False
        self._at: float | None = None

    def begin(self, now: float) -> None:
        self._heard_at = now
        self._at = now + self._first

    def heard(self, now: float) -> None:
        """Note that anything came; on the audio path."""
        self._heard_at = now

    def answered(self, now: float) -> None:
        """Note the answer to a question."""
        self._heard_at = now
        self._answers = True
        self._asked_at = None
        self._at = now + self._quiet

    def next_timeout(self) -> float | None:
        return self._at

    def handle_timeout(self, now: float) -> bool:
        """Say whether to ask now. Calling early is harmless."""
        if self._at is None or now < self._at:
            return False
        if self._asked_at is not None:
            self._give_up(self._asked_at)
            return False
        if self._answers and now < self._heard_at + self._quiet:
            self._at = self._heard_at + self._quiet
            return False
        self._asked_at = now
        self._at = now + self._wait
        return True

    def _give_up(self, asked_at: float) -> None:
        """Judge a server that did not answer in time."""
        self._asked_at = None
        if self._heard_at > asked_at:
            self._at = self._heard_at + self._quiet  # it is there, and only slow to answer us
        else:
            self._at = None
            self.dead = self._answers
