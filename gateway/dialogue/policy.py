"""
Which tools a call allows now (no I/O).

A call is open, or a terminal action is pending; in the latter no tool runs (requirements, section 4.4,
last row), but for what a colleague says who is asked to take the call.
"""

from __future__ import annotations

from tools.types import TerminalRequest, TransferRequest

PENDING = "terminal_action_pending"


class CallPolicy:
    """Satisfies :class:`tools.ports.ToolPolicy`; holds the one terminal request of a call."""

    def __init__(self) -> None:
        self.pending: TerminalRequest | None = None
        self.consulting = False
        """While a terminal action is pending, the agent speaks to the colleague who may take the call."""
        self.decision: TerminalRequest | None = None
        """What the colleague said: a transfer accepts the call, an end declines it."""

    @property
    def silent(self) -> bool:
        """Whether nothing more of the agent is to be heard."""
        return self.pending is not None and not self.consulting

    def denial(self, tool: str) -> tuple[str, str] | None:
        """Deny every tool while a terminal action is pending and nobody is asked."""
        return (PENDING, PENDING) if self.silent else None

    def claim(self, request: TerminalRequest) -> bool:
        """Make ``request`` the pending one, unless another already is."""
        if self.pending is not None:
            return False
        self.pending = request
        return True

    def consult(self, consulting: bool) -> None:
        """Begin to ask a colleague, or be done with it."""
        self.consulting = consulting
        self.decision = None

    def decide(self, request: TerminalRequest) -> bool:
        """Take the colleague's word, once; a transfer to anybody else is none."""
        pending = self.pending
        elsewhere = (
            isinstance(request, TransferRequest)
            and isinstance(pending, TransferRequest)
            and request.number != pending.number
        )
        if elsewhere or self.decision is not None:
            return False
        self.decision = request
        return True

    def release(self) -> None:
        """Open the call again, after a transfer that failed."""
        self.pending = None
