"""What an agent's configuration says about its conversations, with the recordings loaded."""

from __future__ import annotations

from dataclasses import dataclass

from config.recovery import AgentRecovery
from gateway.calls.greeting import Greeting


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """
    The terms of one agent's conversations. Recordings are in the line's format.

    Args:
        greeting: How the call begins; ``None`` lets the caller speak first.
        recovery: What is done when a session is lost.
        moment: Bridges the pause meanwhile.
        apology: For a call that cannot go on.
        fallback: Whom the caller of such a call is transferred to; ``None`` hangs up after the apology.
        connecting: Said before that transfer.
    """

    greeting: Greeting | None
    recovery: AgentRecovery
    moment: bytes
    apology: bytes
    fallback: str | None
    connecting: bytes
