"""
Which tools a call allows now (no I/O).

There are two states so far: a call is open, or a terminal action is pending; in the latter no
tool runs (requirements, section 4.4, last row).
"""

from __future__ import annotations

from tools.types import TerminalRequest

PENDING = "terminal_action_pending"


class CallPolicy:
    """Satisfies :class:`tools.ports.ToolPolicy`; holds the one terminal request of a call."""

    def __init__(self) -> None:
        self.pending: TerminalRequest | None = None
        self.consulting = False
        """While a terminal action is pending, the agent speaks to the colleague who may take the call."""

    @property
    def silent(self) -> bool:
        """Whether nothing more of the agent is to be heard."""
        return self.pending is not None and not self.consulting

    def denial(self, tool: str) -> tuple[str, str] | None:
        """Deny every tool while a terminal action is pending."""
        return (PENDING, PENDING) if self.pending is not None else None

    def claim(self, request: TerminalRequest) -> bool:
        """Make ``request`` the pending one, unless another already is."""
        if self.pending is not None:
            return False
        self.pending = request
        return True

    def release(self) -> None:
        """Open the call again, after a transfer that failed."""
        self.pending = None
