"""What was said before a session, in the words in which Gemini is told."""

from __future__ import annotations

from collections.abc import Iterable

from providers.gemini.messages import Turn
from providers.types import HistoryItem, Said, ToolUsed


def turns_of(history: Iterable[HistoryItem]) -> tuple[Turn, ...]:
    """
    Write the call so far as turns.

    Only what the agent said is the model's; all else is the user's, and what no caller said stands in
    brackets. A tool call is told in words, because no session can answer for the calls of another.
    """
    return tuple(_turn(item) for item in history)


def account_of(history: Iterable[HistoryItem]) -> str:
    """Write the call so far for the instructions of a model that takes no turns; empty for none."""
    lines = [f"{'You' if turn.model else 'Caller'}: {turn.text}" for turn in turns_of(history)]
    return "\n".join(["The call so far, with which you go on:", *lines]) if lines else ""


def _turn(item: HistoryItem) -> Turn:
    match item:
        case Said("agent", text):
            return Turn(text, model=True)
        case Said("caller", text):
            return Turn(text)
        case Said(_, text):
            return Turn(f"[{text}]")
        case ToolUsed(call, output):
            return Turn(f"[You called {call.name} with {call.arguments}. Its result: {output}]")
