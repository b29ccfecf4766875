"""
Which request to end or to transfer the call wins, of all that one response made (C-10).

The outcome of each call is looked at in the order of the response:

1. Only a tool that succeeded asks for anything; what a failed one had asked for is forgotten.
2. The first request wins. The others are refused with ``terminal_action_pending``.
3. A transfer that failed holds the line: an ``end_call`` after it in the same response is refused
   with ``earlier_action_failed``, because the model said goodbye to a caller who is still there
   (BR-102). It may end the call in its next response, when it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tools.types import EndRequest, TerminalRequest

PENDING: Final = "terminal_action_pending"
EARLIER_ACTION_FAILED: Final = "earlier_action_failed"


@dataclass(frozen=True, slots=True)
class Bid:
    """One tool call as far as the end of the call is concerned."""

    request: TerminalRequest | None
    ok: bool
    failure_keeps_call: bool = False


@dataclass(slots=True)
class Verdict:
    """Indexes into the bids: the one that wins, and why the others do not."""

    winner: int | None = None
    refused: dict[int, str] = field(default_factory=dict)


def judge(bids: Sequence[Bid]) -> Verdict:
    """Apply the three rules to the bids of one response, in call order."""
    verdict = Verdict()
    held = False
    for index, bid in enumerate(bids):
        held = held or (bid.failure_keeps_call and not bid.ok)
        if bid.request is None or not bid.ok:
            continue
        if verdict.winner is not None:
            verdict.refused[index] = PENDING
        elif held and isinstance(bid.request, EndRequest):
            verdict.refused[index] = EARLIER_ACTION_FAILED
        else:
            verdict.winner = index
    return verdict
