"""
Where a call stands (DESIGN, section 5; no I/O).

::

    RINGING → CONNECTING → TALKING → ENDING | TRANSFERRING → ENDED
                              ↑___________________|  a transfer that failed
                                       TRANSFERRING → JOINED → ENDED  one that we bridged

A caller may hang up in every state. Tools run while the call is TALKING: the conversation goes
on meanwhile, so they are no state of their own.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    RINGING = "ringing"
    CONNECTING = "connecting"
    TALKING = "talking"
    ENDING = "ending"
    TRANSFERRING = "transferring"
    JOINED = "joined"
    ENDED = "ended"


_NEXT: dict[State, frozenset[State]] = {
    State.RINGING: frozenset({State.CONNECTING, State.ENDED}),
    State.CONNECTING: frozenset({State.TALKING, State.ENDED}),
    State.TALKING: frozenset({State.ENDING, State.TRANSFERRING, State.ENDED}),
    State.ENDING: frozenset({State.ENDED}),
    State.TRANSFERRING: frozenset({State.TALKING, State.JOINED, State.ENDED}),
    State.JOINED: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}


class ImpossibleTransition(Exception):
    """A step that the diagram does not have: a fault of ours, never of a peer."""


class CallState:
    """The present state; every change goes through :meth:`enter`."""

    def __init__(self) -> None:
        self.now = State.RINGING

    def enter(self, state: State) -> None:
        if state not in _NEXT[self.now]:
            raise ImpossibleTransition(f"a call that is {self.now} cannot become {state}")
        self.now = state
