"""
What the models of Gemini Live can do, and on which back-end: data only.

Their differences are small and each of them has ended calls: a message that one model wants is a policy
violation to the next, and closes the socket (``reference/providers.md`` 4.2, faults 25 and 26).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MODEL = "gemini-3.8-live"
"""The default."""


class History(Enum):
    """How a session is told what was said before it."""

    OPENING = "opening"
    """``client_content`` directly after the set-up, which announces it (``historyConfig``)."""
    TURNS = "turns"
    """``client_content`` at any time; the set-up must not mention it."""
    INSTRUCTIONS = "instructions"
    """Not at all: it becomes a part of the system instruction."""


@dataclass(frozen=True, slots=True)
class Profile:
    """
    One model on one back-end.

    Args:
        history: How it is told what was said before.
        notes: Whether text can be put into the conversation at any time without an answer to it.
        content: Whether ``client_content`` may ask for an answer in mid-session; else realtime text does.
        async_tools: Whether the model may talk while tools run, and answers may say when they are wanted.
        declares_async: Whether each function has to be declared as non-blocking for that.
        context_update: Whether instructions and tools can be changed in a running session.
        pauses_audio: Whether caller audio during a tool call ends the session (fault 25).
        waits_after_tools: Whether it may say nothing after a tool's result until it hears something.
    """

    history: History
    notes: bool
    content: bool
    async_tools: bool
    declares_async: bool = False
    context_update: bool = False
    pauses_audio: bool = False
    waits_after_tools: bool = False


def profile_of(model: str, *, vertex: bool) -> Profile:
    """
    Return what is known of a model; one that is not known is taken for the newest.

    Args:
        model: Its name, also with a path before it (``publishers/google/models/...``).
        vertex: Whether it runs on Vertex AI.
    """
    name = model.rsplit("/", 1)[-1]
    if "2.5" in name:
        return Profile(
            history=History.TURNS,
            notes=False,
            content=True,
            async_tools=not vertex,
            declares_async=not vertex,
            pauses_audio=True,
        )
    if name.startswith(("gemini-3.1", "gemini-3-")):
        return Profile(
            history=History.INSTRUCTIONS if vertex else History.OPENING,
            notes=False,
            content=False,
            async_tools=False,
            waits_after_tools=True,
        )
    return Profile(
        history=History.TURNS if vertex else History.OPENING,
        notes=True,
        content=True,
        async_tools=True,
        context_update=not vertex,
    )
